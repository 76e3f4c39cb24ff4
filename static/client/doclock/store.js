/**
 * Something to watch: a frozen snapshot that stays the same object until something in it changes.
 *
 * @template {object} T
 */
export class Store {
  /** @type {Set<{listener: () => unknown}>} */
  #listeners = new Set();
  /** @type {T | undefined} */
  #snapshot;
  /** @type {T | undefined} the last one that listeners know of */
  #told;
  #isStale = true;
  #build;
  #guarded;

  /**
   * @param {() => T} build
   * @param {(callback: () => unknown) => void} guarded runs a listener, whose failure goes no further
   */
  constructor(build, guarded) {
    this.#build = build;
    this.#guarded = guarded;
  }

  getSnapshot() {
    if (this.#isStale || !this.#snapshot) {
      const next = this.#build();
      if (!this.#snapshot || differ(this.#snapshot, next)) this.#snapshot = Object.freeze(next);
      this.#isStale = false;
    }
    return this.#snapshot;
  }

  /** Something may have changed, which listeners are told of later. */
  outdate() {
    this.#isStale = true;
  }

  /** Something may have changed: tells the listeners if it has. */
  changed() {
    this.outdate();
    // Made only when it is asked for, where nobody listens.
    if (this.#listeners.size === 0 || this.getSnapshot() === this.#told) return;
    this.#told = this.getSnapshot();
    for (const entry of [...this.#listeners]) if (this.#listeners.has(entry)) this.#guarded(entry.listener);
  }

  /** @param {() => unknown} listener */
  subscribe(listener) {
    if (typeof listener !== "function") throw new TypeError("subscribe needs a function");
    const entry = { listener };
    if (this.#listeners.size === 0) this.#told = this.getSnapshot();
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }
}

/**
 * @param {object} one
 * @param {object} other
 */
function differ(one, other) {
  const values = /** @type {Record<string, unknown>} */ (other);
  return Object.entries(one).some(([key, value]) => !Object.is(value, values[key]));
}
