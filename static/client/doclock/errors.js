/** @typedef {import("../doclock.js").DocLockOperation} DocLockOperation */

export class DocLockError extends Error {
  /**
   * @param {string} message
   * @param {{code: string, operation?: DocLockOperation, retryable?: boolean, cause?: unknown, problem?: Record<string, any>}} params
   */
  constructor(message, { code, operation, retryable = false, cause, problem }) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "DocLockError";
    this.code = code;
    this.operation = operation;
    this.retryable = retryable;
    this.problem = problem;
  }
}

export class DocLockUnauthorized extends DocLockError {
  /**
   * @param {string} [message]
   * @param {{cause?: unknown}} [options]
   */
  constructor(message = "There is no token any more", { cause } = {}) {
    super(message, { code: "UNAUTHORIZED", cause });
    this.name = "DocLockUnauthorized";
  }
}

/**
 * @param {string} message
 * @param {unknown} [cause]
 */
export const unreachable = (message, cause) => new DocLockError(message, { code: "UNREACHABLE", retryable: true, cause });

/**
 * What the server has refused, told by HTTP or by socket.
 *
 * @param {Record<string, any>} problem
 */
export function refused(problem) {
  const { code = "UNREACHABLE", detail, title, retryable = false } = problem;
  return new DocLockError(detail ?? title ?? code, { code, retryable, problem });
}

/**
 * The error itself, with the operation that it ended.
 *
 * @param {unknown} error
 * @param {DocLockOperation} operation
 */
export function during(error, operation) {
  if (!(error instanceof DocLockError)) return new DocLockError(String(error), { code: "ABORTED", operation, cause: error });
  error.operation ??= operation;
  return error;
}

/**
 * Whether the request may be sent again as it is: nothing was refused, the answer only did not come.
 *
 * @param {unknown} error
 */
export const isTrouble = (error) =>
  error instanceof DocLockError && error.retryable && error.code !== "LOCK_HELD" && !error.code.startsWith("LEASE_");

/** @typedef {import("../doclock.js").LockReason} LockReason */

/** @type {Partial<Record<string, LockReason>>} */
const ENDINGS = {
  LEASE_EXPIRED: "expired",
  LEASE_RELEASED: "released",
  LEASE_REVOKED: "revoked",
  LEASE_MISMATCH: "other_tab",
  LOCK_NOT_FOUND: "expired",
  NOT_OWNER: "expired",
  ROLE_FORBIDS: "forbidden",
  ROOM_FORBIDDEN: "forbidden",
};

/**
 * How a lock has ended, if that is what the refusal of a heartbeat says.
 *
 * @param {unknown} error
 */
export const endingOf = (error) => (error instanceof DocLockError ? ENDINGS[error.code] : undefined);
