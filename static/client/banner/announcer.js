// Says things aloud for those who do not see them: two live regions, which are there and empty from the start, because
// what a region holds when it appears is not said.

/** Things that follow each other at once, such as a lock that goes and the one who got it, are said as one: the last. */
const SETTLE_MS = 100;

export class Announcer {
  #clock;
  #regions;
  /** @type {unknown} */
  #timer;
  /** @type {string | null} */
  #said = null;

  /**
   * @param {() => import("../banner.js").BannerClock} clock
   * @param {{polite: Element, assertive: Element}} regions
   */
  constructor(clock, regions) {
    this.#clock = clock;
    this.#regions = regions;
  }

  /**
   * Says the text if it has another key than what was said last.
   *
   * @param {import("./view.js").View["announced"]} announced
   * @param {() => string} text made when it is said
   */
  tell(announced, text) {
    const key = announced?.key ?? null;
    if (key === this.#said) return;
    this.#said = key;
    this.#clock().clearTimeout(this.#timer);
    if (announced === null || announced.politeness === "silent") return;
    const { politeness } = announced;
    this.#timer = this.#clock().setTimeout(() => this.say(politeness, text()), SETTLE_MS);
  }

  /**
   * @param {"polite" | "assertive"} politeness
   * @param {string} text
   */
  say(politeness, text) {
    const { polite, assertive } = this.#regions;
    const [one, other] = politeness === "polite" ? [polite, assertive] : [assertive, polite];
    other.textContent = "";
    one.textContent = text;
  }

  stop() {
    this.#clock().clearTimeout(this.#timer);
    this.#said = null;
    for (const region of Object.values(this.#regions)) region.textContent = "";
  }
}
