// What the page goes through: hidden, put away, brought back, woken up, typed into. Where there is no page, nothing.

import { Stopwatch } from "../project-lock/timing.js";

/** @typedef {import("../doclock.js").Activity} Activity */
/** @typedef {import("../doclock.js").EventTargetLike} EventTargetLike */

/** Without input for so long, a person counts as idle. */
const IDLE_MS = 60_000;

export class Page {
  /** @type {Activity} */
  activity = "active";
  #clock;
  #hooks;
  /** @type {Stopwatch | undefined} */
  #lastInput;
  #targets;
  /** @type {[EventTargetLike, string, (event: any) => void][]} */
  #listeners = [];
  /** @type {(EventTargetLike & {visibilityState?: string}) | undefined} */
  #document;
  /** @type {unknown} */
  #timer;

  /**
   * @param {import("../project-lock.js").ProjectLockClock} clock
   * @param {() => {window?: EventTargetLike, document?: EventTargetLike & {visibilityState?: string}}} targets
   * @param {{hide: () => void, show: () => void, wake: () => void, input: () => void, activity: () => void}} hooks
   */
  constructor(clock, targets, hooks) {
    this.#clock = clock;
    this.#targets = targets;
    this.#hooks = hooks;
  }

  start() {
    if (this.#listeners.length > 0) return;
    const { window, document } = this.#targets();
    const { hide, show, wake } = this.#hooks;
    const input = () => this.#input();
    this.#document = document;
    if (window) {
      this.#listen(window, "pagehide", hide);
      this.#listen(window, "pageshow", ({ persisted }) => persisted && show());
      this.#listen(window, "online", wake);
      this.#listen(window, "focus", wake);
      // Before anyone else hears of it: a page that slept must know that its time is over before a key does something.
      for (const type of ["keydown", "beforeinput", "pointerdown"]) this.#listen(window, type, input);
    }
    if (document) {
      this.#listen(document, "visibilitychange", () => this.#visibility());
      this.#listen(document, "resume", wake);
    }
    this.touch();
  }

  /**
   * @param {EventTargetLike} target
   * @param {string} type
   * @param {(event: any) => void} listener
   */
  #listen(target, type, listener) {
    target.addEventListener(type, listener, true);
    this.#listeners.push([target, type, listener]);
  }

  stop() {
    for (const [target, type, listener] of this.#listeners) target.removeEventListener(type, listener, true);
    this.#listeners = [];
    this.#clock.clearTimeout(this.#timer);
  }

  /** How long nobody has typed or pointed. */
  idleMs() {
    return this.#lastInput?.elapsed() ?? 0;
  }

  /** Counts as input: what is done by code, because a person wanted it. */
  touch() {
    this.#lastInput = new Stopwatch(this.#clock);
    this.#watchActivity();
  }

  #input() {
    this.#hooks.input();
    this.touch();
  }

  #visibility() {
    if (this.#document?.visibilityState !== "hidden") this.#hooks.wake();
    this.#watchActivity();
  }

  #watchActivity() {
    if (this.#listeners.length === 0) return;
    const idleIn = IDLE_MS - this.idleMs();
    const now = this.#document?.visibilityState === "hidden" ? "away" : idleIn > 0 ? "active" : "idle";
    this.#clock.clearTimeout(this.#timer);
    if (now === "active") this.#timer = this.#clock.setTimeout(() => this.#watchActivity(), idleIn);
    if (now === this.activity) return;
    this.activity = now;
    this.#hooks.activity();
  }
}
