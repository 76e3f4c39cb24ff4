// What the banner remembers beyond the snapshot it draws.

/** A heartbeat that has been on its way for so long is worth telling. */
const SLOW_MS = 5_000;

export class Memory {
  isTurn = false;
  isSlow = false;
  /** @type {string | null} */
  lastHolder = null;
  /** @type {string | null} */
  givingTo = null;
  #redraw;
  /** @type {import("../banner.js").BannerClock | undefined} */
  #clock;
  #wasWaiting = false;
  #isRenewing = false;
  /** @type {unknown} */
  #timer;
  /** @type {Map<string, string>} */
  #names = new Map();
  /** @type {{own: string, shown: string} | null} the page's title, while it says something else */
  #title = null;

  /** @param {() => void} redraw */
  constructor(redraw) {
    this.#redraw = redraw;
  }

  /**
   * @param {import("../banner.js").BannerClock} clock
   * @param {import("../doclock.js").LockSnapshot} snapshot
   */
  start(clock, snapshot) {
    this.#clock = clock;
    this.learn(snapshot);
  }

  stop() {
    this.#clock?.clearTimeout(this.#timer);
    this.title(null);
    this.isTurn = this.isSlow = this.#wasWaiting = this.#isRenewing = false;
    this.lastHolder = this.givingTo = null;
  }

  /** @param {import("../doclock.js").LockSnapshot} snapshot */
  learn({ state, holder, isYou, asks, canEdit }) {
    for (const { ownerId, name } of [holder, ...asks.map(({ by }) => by)].filter((person) => person !== null)) {
      if (name) this.#names.set(ownerId, name);
    }
    if (holder) this.lastHolder = isYou ? null : holder.name;
    if (canEdit && this.#wasWaiting) this.isTurn = true;
    if (!canEdit) this.isTurn = false;
    this.#wasWaiting = state === "waiting";
    this.#watchHeartbeat(state === "renewing");
  }

  /** @param {boolean} isRenewing */
  #watchHeartbeat(isRenewing) {
    if (isRenewing === this.#isRenewing) return;
    this.#isRenewing = isRenewing;
    this.isSlow = false;
    this.#clock?.clearTimeout(this.#timer);
    if (!isRenewing) return;
    this.#timer = this.#clock?.setTimeout(() => {
      this.isSlow = true;
      this.#redraw();
    }, SLOW_MS);
  }

  /** The lock came because it was asked for. */
  turn() {
    this.isTurn = true;
    this.#redraw();
  }

  /** The person does something: the call has been heard. */
  acted() {
    if (!this.isTurn) return;
    this.isTurn = false;
    this.#redraw();
  }

  /** @param {string} ownerId */
  nameOf(ownerId) {
    return this.#names.get(ownerId) ?? null;
  }

  /** @param {string | null} call shown before the page's title, for whoever is in another tab; null: no longer */
  title(call) {
    if ((call !== null) === (this.#title !== null)) return;
    if (call !== null) {
      const own = document.title;
      document.title = `● ${call} · ${own}`;
      this.#title = { own, shown: document.title };
    } else {
      // A title that the page has changed since is the page's.
      if (this.#title?.shown === document.title) document.title = this.#title.own;
      this.#title = null;
    }
  }
}
