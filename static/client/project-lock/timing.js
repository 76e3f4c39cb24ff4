/** @typedef {import("../project-lock.js").ProjectLockClock} ProjectLockClock */

/**
 * The page's own clock. Its timers do not keep Node alive.
 *
 * @type {ProjectLockClock}
 */
export const systemClock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout(callback, ms) {
    const timer = setTimeout(callback, ms);
    /** @type {{unref?: () => void}} */ (/** @type {unknown} */ (timer)).unref?.();
    return timer;
  },
  clearTimeout: (timer) => clearTimeout(/** @type {number} */ (timer)),
};

/** Time that has passed since it was made. */
export class Stopwatch {
  #clock;
  #wall;
  #monotonic;

  /** @param {ProjectLockClock} clock */
  constructor(clock) {
    this.#clock = clock;
    this.#wall = clock.now();
    this.#monotonic = clock.monotonic();
  }

  /**
   * The larger of monotonic and wall time: the first may stand still while a laptop sleeps, the second may be set back.
   */
  elapsed() {
    return Math.max(this.#clock.now() - this.#wall, this.#clock.monotonic() - this.#monotonic);
  }
}

/** How long a lease is good for, from the moment it was asked for. */
export class Lifetime {
  #stopwatch;

  /**
   * @param {ProjectLockClock} clock
   * @param {number} span in milliseconds
   * @param {number} [laterThan] an `expiresAt` that the new one must exceed, even if the clock was set back
   */
  constructor(clock, span, laterThan = -Infinity) {
    this.#stopwatch = new Stopwatch(clock);
    this.span = span;
    this.expiresAt = Math.max(clock.now() + span, laterThan + 1);
  }

  elapsed() {
    return this.#stopwatch.elapsed();
  }

  left() {
    return this.span - this.elapsed();
  }

  isOver() {
    return this.left() <= 0;
  }
}

/**
 * Resolves after `ms`; rejects with the signal's reason as soon as that is aborted.
 *
 * @param {ProjectLockClock} clock
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(clock, ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const finish = (/** @type {() => void} */ how) => {
      clock.clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      how();
    };
    const abort = () => finish(() => reject(signal?.reason));
    const timer = clock.setTimeout(() => finish(resolve), ms);
    signal?.addEventListener("abort", abort);
  });
}

/** Web Locks, or a step with the file, that take longer than this are given up. */
export const ANSWER_MS = 2_000;

/** What `within` rejects with when no answer came. */
export class NoAnswer extends Error {
  /** @param {number} ms */
  constructor(ms) {
    super(`No answer within ${ms} ms`);
    this.name = "NoAnswer";
  }
}

/**
 * Waits for an answer, but no longer than `ms` and not beyond an abort: then it rejects with `NoAnswer` or with the
 * signal's reason. An answer that comes later is handed to `tooLate`, so that what it brings can be given back.
 *
 * @template T
 * @param {ProjectLockClock} clock
 * @param {number} ms
 * @param {Promise<T>} answer
 * @param {{signal?: AbortSignal, tooLate?: (answer: T) => unknown}} [options]
 * @returns {Promise<T>}
 */
export async function within(clock, ms, answer, { signal, tooLate } = {}) {
  const waiting = new AbortController();
  const stop = () => waiting.abort(signal?.reason);
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop);
  const noAnswer = sleep(clock, ms, waiting.signal).then(() => {
    throw new NoAnswer(ms);
  });
  try {
    return await Promise.race([noAnswer, answer]);
  } catch (error) {
    if (tooLate) answer.then(tooLate).catch(() => {});
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
    noAnswer.catch(() => {});
    waiting.abort();
  }
}
