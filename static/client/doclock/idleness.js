/** Tells when nobody has typed or pointed for a time. */
export class Idleness {
  #client;
  /** @type {unknown} */
  #timer;

  /** @param {import("./client.js").Client} client */
  constructor(client) {
    this.#client = client;
  }

  /**
   * @param {number} ms 0 is never
   * @param {() => void} isOver called once
   */
  watch(ms, isOver) {
    const { clock, page } = this.#client;
    this.stop();
    if (ms === 0) return;
    this.#timer = clock.setTimeout(() => (page.idleMs() < ms ? this.watch(ms, isOver) : isOver()), ms - page.idleMs());
  }

  stop() {
    this.#client.clock.clearTimeout(this.#timer);
  }
}
