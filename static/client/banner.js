// `<doclock-banner>`: who edits a document, and what one can do about it. The guide is docs/banner.md.
//
//   import "/client/banner.js";
//   banner.handle = client.lock("minutes", { document: "intro" });
//
// It never takes the focus by itself, never takes a lock that nobody asked for, and knows nothing of the text: saving,
// loading and comparing are the page's (`hooks`).

import { Announcer } from "./banner/announcer.js";
import { Buttons } from "./banner/buttons.js";
import { layOut } from "./banner/layout.js";
import { Memory } from "./banner/memory.js";
import { Ring } from "./banner/ring.js";
import { viewOf } from "./banner/view.js";
import { languageOf, messages } from "./messages.js";

/**
 * @typedef {import("./banner.js").BannerHooks} BannerHooks
 * @typedef {import("./doclock.js").LockHandle} LockHandle
 * @typedef {import("./messages.js").BannerAction} BannerAction
 */

const TICK_MS = 1_000;
const TICKING = new Set(["slow", "asked", "theirs"]);

/** @type {import("./banner.js").BannerClock} */
const pageClock = {
  now: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(/** @type {number} */ (timer)),
};

// So that importing this in Node, where there are no elements, does no harm.
const Base = globalThis.HTMLElement ?? /** @type {typeof HTMLElement} */ (class {});

export class DocLockBanner extends Base {
  static observedAttributes = ["lang", "can-take-over", "view-only", "offline"];

  /** @type {LockHandle | null} */
  #handle = null;
  /** @type {BannerHooks} */
  #hooks = {};
  #clock = pageClock;
  /** @type {string | null} */
  #version = null;
  #parts = layOut(this.attachShadow({ mode: "open" }));
  #buttons = new Buttons(this.#parts.actions, (action) => this.#press(action));
  #announcer = new Announcer(() => this.#clock, this.#parts.aloud);
  #ring = new Ring(this.#parts.ring);
  #memory = new Memory(() => this.#draw());
  /** @type {"ask" | "keep" | null} the button whose form is open */
  #form = null;
  #note = "";
  /** @type {(() => void) | undefined} */
  #unsubscribe;
  /** @type {unknown} */
  #tick;
  /** @type {AbortController | undefined} ends all listening to the page */
  #listening;
  /** @type {HTMLElement | null} where the focus was before F6 */
  #cameFrom = null;

  get handle() {
    return this.#handle;
  }

  set handle(handle) {
    this.#stop();
    this.#handle = handle;
    this.#start();
  }

  get hooks() {
    return this.#hooks;
  }

  set hooks(hooks) {
    this.#hooks = hooks ?? {};
    this.#draw();
  }

  get version() {
    return this.#version;
  }

  set version(version) {
    this.#version = version ?? null;
    this.#draw();
  }

  get clock() {
    return this.#clock;
  }

  set clock(clock) {
    this.#stop();
    this.#clock = clock ?? pageClock;
    this.#start();
  }

  get state() {
    return this.#parts.banner.dataset.state ?? "";
  }

  get #say() {
    const language = this.closest("[lang]")?.getAttribute("lang");
    return messages[languageOf([language, ...navigator.languages])];
  }

  connectedCallback() {
    this.#start();
  }

  disconnectedCallback() {
    this.#stop();
  }

  attributeChangedCallback() {
    this.#draw();
  }

  #start() {
    if (!this.isConnected || !this.#handle) return;
    const { signal } = (this.#listening = new AbortController());
    this.#memory.start(this.#clock, this.#handle.getSnapshot());
    this.#unsubscribe = this.#handle.subscribe(() => this.#changed());
    for (const type of ["online", "offline"]) window.addEventListener(type, () => this.#draw(), { signal });
    for (const type of ["keydown", "beforeinput", "pointerdown"]) {
      window.addEventListener(type, () => this.#memory.acted(), { signal, capture: true });
    }
    window.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.#parts.form.addEventListener("submit", (event) => this.#submit(event), { signal });
    this.#draw();
  }

  #stop() {
    this.#listening?.abort();
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#clock.clearTimeout(this.#tick);
    this.#memory.stop();
    this.#announcer.stop();
    this.#form = null;
    this.#note = "";
  }

  #changed() {
    if (this.#handle) this.#memory.learn(this.#handle.getSnapshot());
    this.#draw();
  }

  #draw() {
    if (!this.#unsubscribe || !this.#handle) return;
    const snapshot = this.#handle.getSnapshot();
    const view = this.#view(snapshot);
    const { banner, text, note, key, form } = this.#parts;
    banner.dataset.state = view.state;
    banner.dataset.tone = view.tone;
    banner.setAttribute("aria-label", this.#say.region);
    setText(text, view.text);
    setText(note, this.#note);
    key.hidden = view.state !== "beingAsked";
    if (this.#form && !view.actions.includes(this.#form)) this.#form = null;
    form.hidden = this.#form === null;
    this.#parts.input.placeholder = this.#parts.input.ariaLabel = this.#form === "keep" ? this.#say.keepNote : this.#say.askNote;
    setText(this.#parts.send, this.#say.actions.send);
    this.#buttons.show(view.actions, this.#say.actions, this.#form);
    this.#ring.show(snapshot.canEdit ? snapshot.deadlineMs : null, this.#clock.now());
    this.#memory.title(view.state === "yourTurn" ? view.text : null);
    this.#announcer.tell(view.announced, () => this.#view(this.#handle?.getSnapshot() ?? snapshot).text);
    this.#clock.clearTimeout(this.#tick);
    if (TICKING.has(view.state)) this.#tick = this.#clock.setTimeout(() => this.#draw(), TICK_MS);
    this.dispatchEvent(new CustomEvent("doclock-view", { detail: { state: view.state, text: view.text } }));
  }

  /** @param {import("./doclock.js").LockSnapshot} snapshot */
  #view(snapshot) {
    const { isTurn, isSlow, givingTo, lastHolder } = this.#memory;
    const memory = {
      isTurn,
      isSlow,
      givingTo,
      lastHolder,
      isOffline: this.hasAttribute("offline") || !navigator.onLine,
      shownVersion: this.#version,
      canTakeOver: this.hasAttribute("can-take-over"),
      isViewOnly: this.hasAttribute("view-only"),
      page: { copy: this.#hooks.text !== undefined, compare: this.#hooks.compare !== undefined },
      nameOf: (/** @type {string} */ ownerId) => this.#memory.nameOf(ownerId),
    };
    return viewOf(snapshot, memory, this.#say, this.#clock.now());
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape" && this.#form && this.matches(":focus-within")) return this.#close();
    if (event.key !== "F6" || this.state !== "beingAsked") return;
    event.preventDefault();
    const isHere = this.matches(":focus-within");
    if (isHere) return this.#cameFrom?.focus();
    this.#cameFrom = /** @type {HTMLElement | null} */ (document.activeElement);
    this.#buttons.focus();
  }

  /** @param {"ask" | "keep"} form */
  #open(form) {
    this.#form = this.#form === form ? null : form;
    this.#parts.input.value = "";
    this.#draw();
    if (this.#form) this.#parts.input.focus();
  }

  #close() {
    const form = this.#form;
    this.#form = null;
    this.#draw();
    if (form) this.#buttons.focusOn(form);
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    const form = this.#form;
    const message = this.#parts.input.value.trim() || undefined;
    // The focus goes back before the form goes away, so that it is never nowhere.
    this.#close();
    if (form === "ask") this.#run(() => this.#ask(message));
    if (form === "keep") this.#run((handle) => this.#withAsk((id) => handle.answer(id, false, { message })));
  }

  /** @param {BannerAction} action */
  #press(action) {
    const save = this.#hooks.save && { documentVersion: this.#hooks.save };
    switch (action) {
      case "ask":
      case "keep":
        return this.#open(action);
      case "done":
        return this.#run((handle) => handle.release(save));
      case "grant":
        return this.#run((handle) => this.#withAsk((id) => handle.answer(id, true, save)));
      case "wait":
        return this.#run((handle) => handle.acquire({ wait: true }));
      case "leave":
        return this.#run((handle) => handle.cancelWait());
      case "cancel":
        return this.#run((handle) => handle.cancelAsk());
      case "takeOver":
      case "editHere":
        return this.#run((handle) => handle.takeOver());
      case "load":
      case "again":
        return this.#run((handle) => handle.acquire());
      case "copy":
        return this.#run(() => this.#copy());
      case "compare":
        return this.#hooks.compare?.();
    }
  }

  async #copy() {
    // Pages that came without TLS, from another host than this one, have no clipboard.
    if (!navigator.clipboard) throw Object.assign(new Error("There is no clipboard"), { code: "NO_CLIPBOARD" });
    await navigator.clipboard.writeText(this.#hooks.text?.() ?? "");
    this.#tell(this.#say.copied());
  }

  /** @param {string} [message] */
  async #ask(message) {
    const name = this.#handle?.getSnapshot().holder?.name ?? this.#say.someone;
    const told = await this.#handle?.ask(message);
    if (!told) return;
    if (told.outcome === "granted") this.#memory.turn();
    else this.#tell(this.#say.outcome({ ...told, name }));
  }

  /** @param {(handoverId: string) => Promise<void>} answer */
  async #withAsk(answer) {
    const [ask] = this.#handle?.getSnapshot().asks ?? [];
    if (!ask) return;
    this.#memory.givingTo = ask.by.name ?? this.#say.someone;
    try {
      await answer(ask.handoverId);
    } finally {
      this.#memory.givingTo = null;
    }
  }

  /**
   * Does what a button says; what goes wrong is shown and told to the page.
   *
   * @param {(handle: LockHandle) => Promise<unknown>} work
   */
  #run(work) {
    this.#tell("");
    if (!this.#handle) return;
    work(this.#handle).catch((error) => {
      if (error?.code === "ABORTED") return;
      this.#tell(this.#say.failed({ code: error?.code ?? "SAVE_FAILED" }));
      this.dispatchEvent(new CustomEvent("doclock-error", { detail: error }));
    });
  }

  /** @param {string} note what is shown until the next action, and said once */
  #tell(note) {
    this.#note = note;
    if (note) this.#announcer.say("polite", note);
    this.#draw();
  }
}

/** @param {Element} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

if (globalThis.customElements && !customElements.get("doclock-banner")) customElements.define("doclock-banner", DocLockBanner);
