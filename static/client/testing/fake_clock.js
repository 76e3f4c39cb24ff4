/** @typedef {{at: number, order: number, callback: () => void}} Timer */

/** A clock that moves only when it is told to. */
export class FakeClock {
  #wall;
  #monotonic = 0;
  #order = 0;
  /** @type {Set<Timer>} */
  #timers = new Set();

  /** @param {number} [now] milliseconds since 1970 */
  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#wall = now;
  }

  now() {
    return this.#wall;
  }

  monotonic() {
    return this.#monotonic;
  }

  /** How many timers wait. */
  get pending() {
    return this.#timers.size;
  }

  /**
   * @param {() => void} callback
   * @param {number} ms
   * @returns {unknown}
   */
  setTimeout(callback, ms) {
    // As in browsers: what is not a positive number counts as none.
    const timer = { at: this.#monotonic + (ms > 0 ? ms : 0), order: this.#order++, callback };
    this.#timers.add(timer);
    return timer;
  }

  /** @param {unknown} timer */
  clearTimeout(timer) {
    this.#timers.delete(/** @type {Timer} */ (timer));
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
  sleep(ms) {
    return new Promise((resolve) => this.setTimeout(resolve, ms));
  }

  /**
   * Lets time pass. Timers run in order, each at its own time, and what they set off is done before the next one runs.
   *
   * @param {number} ms
   */
  async advance(ms) {
    const end = this.#monotonic + ms;
    await settled();
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#moveTo(next.at);
      this.#timers.delete(next);
      next.callback();
      await settled();
    }
    this.#moveTo(end);
  }

  /**
   * What a laptop does with its lid closed: the time of day goes on, the monotonic clock and the timers do not.
   *
   * @param {number} ms
   */
  suspend(ms) {
    this.#wall += ms;
  }

  /**
   * Sets the time of day, as a user or a time server does.
   *
   * @param {number} now
   */
  setWall(now) {
    this.#wall = now;
  }

  /** @param {number} at */
  #moveTo(at) {
    this.#wall += at - this.#monotonic;
    this.#monotonic = at;
  }

  /** @param {number} end */
  #next(end) {
    const due = [...this.#timers].filter(({ at }) => at <= end);
    return due.sort((one, other) => one.at - other.at || one.order - other.order)[0];
  }
}

/** Resolves when all promises that can settle by themselves have settled. */
export function settled() {
  return new Promise((resolve) => {
    const { setImmediate } = /** @type {{setImmediate?: (callback: (nothing: void) => void) => void}} */ (globalThis);
    if (setImmediate) setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
