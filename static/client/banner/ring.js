// The ring that runs down until the page has to stop editing, and refills with each heartbeat. For the eye only: what it
// tells is said in words when it matters.

const FULL = 50.27;

export class Ring {
  #svg;
  #left;
  /** @type {number | null} */
  #deadline = null;

  /** @param {SVGSVGElement} svg */
  constructor(svg) {
    this.#svg = svg;
    this.#left = /** @type {SVGCircleElement} */ (svg.querySelector(".left"));
    svg.setAttribute("hidden", "");
  }

  /**
   * @param {number | null} deadline null: there is nothing to count down
   * @param {number} now
   */
  show(deadline, now) {
    if (deadline === this.#deadline) return;
    this.#deadline = deadline;
    this.#svg.toggleAttribute("hidden", deadline === null);
    for (const animation of this.#left.getAnimations()) animation.cancel();
    if (deadline === null || deadline <= now || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.#left.animate([{ strokeDashoffset: 0 }, { strokeDashoffset: FULL }], { duration: deadline - now, fill: "forwards" });
  }
}
