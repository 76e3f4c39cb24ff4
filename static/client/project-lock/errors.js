/** @typedef {import("../project-lock.js").ProjectLockErrorCode} ProjectLockErrorCode */
/** @typedef {import("../project-lock.js").ProjectLockOperation} ProjectLockOperation */

/**
 * Whether trying the same call again may help, by code.
 *
 * @type {Record<ProjectLockErrorCode, boolean>}
 */
const RETRYABLE = {
  "web-lock-unsupported": true,
  "web-lock-aborted": false,
  "acquire-denied": true,
  "acquire-timeout": false,
  "fallback-conflict": true,
  "fallback-open-failed": false,
  "fallback-read-failed": true,
  "fallback-write-failed": true,
  "lease-mismatch": false,
  "lease-expired": false,
  "lease-stale": false,
  "renew-failed": true,
  "release-failed": true,
};

export class ProjectLockError extends Error {
  /**
   * @param {string} message
   * @param {{code: ProjectLockErrorCode, operation?: ProjectLockOperation, retryable?: boolean, cause?: unknown}} params
   */
  constructor(message, { code, operation, retryable = RETRYABLE[code], cause }) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "ProjectLockError";
    this.code = code;
    this.operation = operation;
    this.retryable = retryable;
  }
}

/**
 * @param {ProjectLockErrorCode} code
 * @param {ProjectLockOperation} operation
 * @param {string} message
 * @param {unknown} [cause]
 */
export function failure(code, operation, message, cause) {
  return new ProjectLockError(message, { code, operation, cause });
}

/**
 * The error itself, or what it means that a step with the file failed in an unknown way or did not answer.
 *
 * @param {unknown} error
 * @param {ProjectLockOperation} operation
 */
export function asFailure(error, operation) {
  if (error instanceof ProjectLockError) return error;
  return failure("fallback-write-failed", operation, "project/.lock does not answer", error);
}
