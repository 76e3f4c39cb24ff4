// How a lease comes to be: try the Web Lock, then the file, and try again.

import { ProjectLockError, asFailure, failure } from "./errors.js";
import { FILE_LEASE_MS, FileHold, WebHold } from "./holds.js";
import { ANSWER_MS, Stopwatch, sleep, within } from "./timing.js";
import { isWebLockHeld, requestWebLock } from "./web_lock.js";

/** @typedef {import("../project-lock.js").ProjectLockAcquireOptions} ProjectLockAcquireOptions */
/** @typedef {import("./service.js").Context} Context */
/** @typedef {import("./holds.js").Hold} Hold */
/** @typedef {import("./timing.js").Lifetime} Lifetime */

const THREE_TRIES = { initialDelayMs: 500, maxDelayMs: 5_000, multiplier: 2, maxAttempts: 3 };
const UNTIL_TIME_IS_UP = { initialDelayMs: 200, maxDelayMs: 5_000, multiplier: 2, maxAttempts: Infinity };
const MAX_WAIT_MS = 5_000;

/** One call of `acquireProjectLock`, from its first try to its last. */
export class Acquisition {
  #context;
  #signal;
  #delays;
  #leaseId;
  #mine;
  /** Set once Web Locks turned out to be of no use: the tries that follow go to the file at once. */
  #isFallback = false;
  #failedReads = 0;

  /**
   * @param {Context} context
   * @param {ProjectLockAcquireOptions} options
   * @param {string} [mine] the lease this service held before
   */
  constructor(context, options, mine) {
    this.#context = context;
    this.#signal = options.signal;
    this.#delays = new Delays(context.clock, options);
    // Both kinds of lock get the same, so that a lease is one lease however it was taken.
    this.#leaseId = context.newId();
    this.#mine = mine;
  }

  /** @returns {Promise<Hold>} */
  async run() {
    for (let retry = 0; ; retry += 1) {
      try {
        this.#signal?.throwIfAborted();
        return await this.#try(retry);
      } catch (error) {
        const failure = this.#tellOf(error);
        const delayMs = this.#delayAfter(retry, failure);
        this.#context.tell({ type: "lock:waiting", retry: retry + 1, delayMs });
        await sleep(this.#context.clock, delayMs, this.#signal).catch((reason) => {
          throw this.#tellOf(reason);
        });
      }
    }
  }

  /** @param {number} retry */
  async #try(retry) {
    if (!this.#isFallback) {
      this.#context.tell({ type: "lock:attempt", strategy: "web-lock", retry });
      const { hold, unusable } = await this.#takeWebLock();
      if (hold) return hold;
      this.#isFallback = true;
      this.#context.tellFallback(unusable);
    }
    this.#context.tell({ type: "lock:attempt", strategy: "file-lock", retry });
    return this.#takeFile();
  }

  /**
   * The hold, or why Web Locks are of no use here. Fails when they are, but someone else has the lock.
   *
   * @returns {Promise<{hold: Hold, unusable?: undefined} | {hold?: undefined, unusable: ProjectLockError}>}
   */
  async #takeWebLock() {
    const manager = this.#context.manager();
    if (!manager) return { unusable: failure("web-lock-unsupported", "acquire", "This browser has no Web Locks") };
    let lock;
    try {
      lock = await this.#within(requestWebLock(manager, this.#context.name), (late) => late?.free());
    } catch (error) {
      if (this.#signal?.aborted) throw error;
      return { unusable: noWebLock(error) };
    }
    if (lock === null) throw failure("acquire-denied", "acquire", "Another tab holds the project lock");
    await this.#mustNotBeInFallback(lock);
    return { hold: new WebHold(this.#context.clock, this.#leaseId, lock) };
  }

  /**
   * Someone whom Web Locks did not answer may have the file. They take the file and then ask Web Locks; we take the Web
   * Lock and then ask for the file: at least one of the two sees the other.
   *
   * @param {import("./web_lock.js").WebLock} lock
   */
  async #mustNotBeInFallback(lock) {
    try {
      await this.#within(this.#context.file.mustNotBeTaken(this.#mine));
    } catch (error) {
      const isTaken = error instanceof ProjectLockError;
      if (!isTaken && !this.#signal?.aborted) return;
      await lock.free();
      throw error;
    }
  }

  /** @returns {Promise<Hold>} */
  async #takeFile() {
    const { file, ownerId } = this.#context;
    const leaseId = this.#leaseId;
    const giveBack = (/** @type {Lifetime} */ lifetime) => file.remove({ leaseId, lifetime });
    const claim = file.claim({
      leaseId,
      ownerId,
      span: FILE_LEASE_MS,
      mine: this.#mine,
      // Once may be a file that was replaced while it was read; twice, half a second apart, it is broken.
      remake: this.#failedReads > 1,
      onUnreadable: (why) => this.#tellDegraded(failure("fallback-read-failed", "acquire", `project/.lock is replaced: ${why}`)),
    });
    const lifetime = await this.#within(claim, giveBack);
    const manager = this.#context.manager();
    if (manager && (await this.#within(isWebLockHeld(manager, this.#context.name)).catch(() => false))) {
      await giveBack(lifetime);
      throw failure("acquire-denied", "acquire", "Another tab holds the project lock");
    }
    return new FileHold(this.#context, leaseId, lifetime);
  }

  /**
   * @template T
   * @param {Promise<T>} answer
   * @param {(late: T) => unknown} [giveBack]
   */
  #within(answer, giveBack) {
    return within(this.#context.clock, ANSWER_MS, answer, { signal: this.#signal, tooLate: giveBack });
  }

  /**
   * Tells of a failed try, and returns its error.
   *
   * @param {unknown} error
   */
  #tellOf(error) {
    const known = this.#signal?.aborted
      ? failure("web-lock-aborted", "acquire", "Acquiring the project lock was aborted", this.#signal.reason)
      : asFailure(error, "acquire");
    this.#context.tell({ type: "lock:error", operation: "acquire", error: known, retryable: known.retryable });
    if (known.code === "fallback-read-failed") this.#failedReads += 1;
    if (known.code === "fallback-read-failed" || known.code === "fallback-conflict") this.#tellDegraded(known);
    return known;
  }

  /** @param {ProjectLockError} error */
  #tellDegraded(error) {
    this.#context.tell({ type: "lock:warning", warning: "fallback-degraded", error });
  }

  /**
   * How long to wait before the next try; throws when there is none.
   *
   * @param {number} retry
   * @param {ProjectLockError} error
   */
  #delayAfter(retry, error) {
    if (error.code === "web-lock-aborted") throw error;
    const delayMs = error.retryable ? this.#delays.before(retry + 1) : undefined;
    if (delayMs !== undefined) return delayMs;
    this.#context.enterReadonly("acquire-timeout", error);
    if (!error.retryable) throw error;
    throw failure("acquire-timeout", "acquire", "The project lock could not be acquired in time", error);
  }
}

/** The waits between tries. */
class Delays {
  #policy;
  #maxWaitMs;
  #stopwatch;

  /**
   * @param {import("../project-lock.js").ProjectLockClock} clock
   * @param {ProjectLockAcquireOptions} options
   */
  constructor(clock, { maxWaitMs, retryPolicy }) {
    const base = maxWaitMs === undefined && retryPolicy === undefined ? THREE_TRIES : UNTIL_TIME_IS_UP;
    this.#policy = { ...base, ...retryPolicy };
    this.#maxWaitMs = maxWaitMs ?? MAX_WAIT_MS;
    for (const [name, value] of Object.entries({ ...this.#policy, maxWaitMs: this.#maxWaitMs })) {
      if (typeof value !== "number" || !(value >= 0)) throw new RangeError(`${name} must be a number that is not negative`);
    }
    this.#stopwatch = new Stopwatch(clock);
  }

  /**
   * @param {number} retry 1 for the first
   * @returns {number | undefined} nothing when the tries or the time are used up
   */
  before(retry) {
    const { initialDelayMs, maxDelayMs, multiplier, maxAttempts } = this.#policy;
    const left = this.#maxWaitMs - this.#stopwatch.elapsed();
    if (retry >= maxAttempts || left <= 0) return undefined;
    return Math.min(left, maxDelayMs, initialDelayMs * multiplier ** (retry - 1));
  }
}

/**
 * Why Web Locks are of no use, from what they answered.
 *
 * @param {unknown} error
 */
function noWebLock(error) {
  const isUnsupported = error instanceof Error && error.name === "NotSupportedError";
  return isUnsupported
    ? failure("web-lock-unsupported", "acquire", "This browser does not support Web Locks here", error)
    : failure("acquire-denied", "acquire", "Web Locks were refused or did not answer", error);
}
