/** Work that has to stop when its lock is lost. */
export class Works {
  /** @type {Set<AbortController>} */
  #running = new Set();

  /**
   * @template T
   * @param {(signal: AbortSignal) => T | PromiseLike<T>} work
   * @param {AbortSignal} [given] which may stop it too
   */
  async run(work, given) {
    const controller = new AbortController();
    const abort = () => controller.abort(given?.reason);
    given?.addEventListener("abort", abort);
    this.#running.add(controller);
    try {
      return await work(controller.signal);
    } finally {
      given?.removeEventListener("abort", abort);
      this.#running.delete(controller);
    }
  }

  /** @param {unknown} reason */
  stop(reason) {
    for (const controller of this.#running) controller.abort(reason);
  }
}
