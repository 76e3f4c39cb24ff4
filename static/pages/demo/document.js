// One open document: its text, what of it is saved, and its lock. The rules that keep words from being lost:
//
// 1. Who gets the lock claims its token at the back end and only then counts on the text (`#claim`).
// 2. Text that is not saved never goes away by itself: it stays in the editor, or is set aside as `kept`.
// 3. "Saved" is said only of exactly the text that the back end has confirmed.
// 4. The text is swapped only for someone who asked to edit or to see the newest, never under a reader.

import { isNewer } from "/client/banner/versions.js";
import { Refused } from "./backend.js";

/**
 * @typedef {import("/client/doclock.js").LockHandle} LockHandle
 * @typedef {"saved" | "unsaved" | "saving" | "failed" | "refused"} SaveState
 */

const TYPING_PAUSE_MS = 500;
/** Who types without a pause is saved every so often all the same. */
const MOST_UNSAVED_MS = 2_000;
const RETRY_MS = 1_000;

export class OpenDocument {
  name;
  text = "";
  /** @type {string | null} of what the text began as, or was last saved as */
  version = null;
  /** @type {"loading" | "ready" | "failed"} */
  status = "loading";
  /** @type {SaveState} */
  saveState = "saved";
  /** @type {Refused | null} why the last save was refused */
  refusal = null;
  /** @type {string | null} text of this page that could not stay in the editor */
  kept = null;
  isFollowing = false;
  #savedText = "";
  /** @type {string | null} sent, and no answer came: it may have been saved */
  #inDoubt = null;
  /** @type {number | null} */
  #claimed = null;
  /** @type {Promise<void> | null} */
  #claiming = null;
  /** @type {Promise<void> | null} */
  #saving = null;
  #isStartedByTyping = false;
  #timer = 0;
  /** @type {number | null} */
  #unsavedSince = null;
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /** @type {() => void} */
  #unsubscribe = () => {};
  #isClosed = false;

  /**
   * @param {string} name
   * @param {{lock: LockHandle, backend: import("./backend.js").Backend, drafts: import("./drafts.js").Drafts}} environment
   */
  constructor(name, { lock, backend, drafts }) {
    this.name = name;
    this.lock = lock;
    this.backend = backend;
    this.drafts = drafts;
  }

  async open() {
    this.#unsubscribe = this.lock.subscribe(() => this.#lockChanged());
    await this.load();
  }

  close() {
    this.#isClosed = true;
    this.#unsubscribe();
    clearTimeout(this.#timer);
  }

  /** @param {() => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed() {
    for (const listener of [...this.#listeners]) listener();
  }

  get isDirty() {
    return this.text !== this.#savedText;
  }

  /** Whether the room has been told of a newer version than the one shown. */
  get isNewer() {
    return isNewer(this.lock.getSnapshot().documentVersion, this.version);
  }

  get isEditable() {
    const { state, canEdit, holder, connection, fencingToken, reason } = this.lock.getSnapshot();
    if (this.status !== "ready") return false;
    if (canEdit) return this.#claimed === fencingToken || this.#isStartedByTyping;
    if (state === "acquiring") return this.#isStartedByTyping;
    return state === "idle" && holder === null && connection === "connected" && reason !== "forbidden" && !this.isNewer;
  }

  // Loading

  async load() {
    this.status = "loading";
    this.#changed();
    try {
      const { text, version } = await this.backend.load(this.name);
      const draft = this.drafts.get(this.name);
      this.text = this.#savedText = text;
      this.version = version;
      // Of another version than it began as, what was typed cannot just go on.
      if (draft && draft.text !== text && draft.base === version) this.text = draft.text;
      else if (draft && draft.text !== text) this.kept = draft.text;
      this.saveState = this.isDirty ? "unsaved" : "saved";
      this.status = "ready";
      this.#lockChanged();
    } catch {
      this.status = "failed";
    }
    this.#changed();
  }

  /** Shows the newest version to a reader who asked for it. */
  async refresh() {
    const loaded = await this.backend.load(this.name);
    if (!this.lock.getSnapshot().canEdit) this.#take(loaded);
    this.#changed();
  }

  /** @param {boolean} isFollowing */
  follow(isFollowing) {
    this.isFollowing = isFollowing;
    this.#lockChanged();
    this.#changed();
  }

  /** @returns {Promise<string>} the newest text, without touching this one */
  async newest() {
    return (await this.backend.load(this.name)).text;
  }

  /** @param {import("./backend.js").Loaded} loaded */
  #take({ text, version }) {
    const isOurs = version === this.version || text === this.#inDoubt;
    if (text !== this.text && !isOurs) {
      if (this.isDirty) this.kept = this.text;
      this.text = text;
    }
    this.#savedText = text;
    this.#inDoubt = null;
    this.version = version;
    this.saveState = this.isDirty ? "unsaved" : "saved";
    this.#keepDraft();
  }

  // The lock

  #lockChanged() {
    const { canEdit, fencingToken, state, holder } = this.lock.getSnapshot();
    if (canEdit && fencingToken !== null && this.status === "ready") {
      if (this.#claimed !== fencingToken) this.#claiming ??= this.#claim(fencingToken).finally(() => (this.#claiming = null));
      else if (this.isDirty && this.saveState !== "saving") this.#saveSoon();
    } else if (state !== "acquiring" && state !== "releasing") {
      this.#isStartedByTyping = false;
      clearTimeout(this.#timer);
      if (this.isDirty && this.saveState !== "refused") this.saveState = "unsaved";
      if (this.isFollowing && holder && !this.isDirty && this.isNewer) this.refresh().catch(() => {});
    }
    this.#changed();
  }

  /** @param {number} token */
  async #claim(token) {
    const isOver = () => this.#isClosed || this.lock.getSnapshot().fencingToken !== token;
    while (!isOver()) {
      try {
        const loaded = await this.backend.load(this.name, token);
        if (isOver()) return;
        this.#take(loaded);
        this.#claimed = token;
        this.refusal = null;
        if (this.isDirty) this.#saveSoon();
        return this.#changed();
      } catch (error) {
        if (error instanceof Refused) return this.#refused(error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  /** @param {string} text as it is now in the editor */
  typed(text) {
    this.text = text;
    this.saveState = this.isDirty ? "unsaved" : "saved";
    this.#keepDraft();
    if (this.lock.getSnapshot().canEdit) this.#saveSoon();
    else this.#startEditing();
    this.#changed();
  }

  async #startEditing() {
    if (this.#isStartedByTyping) return;
    this.#isStartedByTyping = true;
    try {
      await this.lock.acquire();
    } catch (error) {
      this.#isStartedByTyping = false;
      // Someone was faster: what was typed must not look like part of their text.
      if (/** @type {any} */ (error).code === "LOCK_HELD") this.#setAside();
      this.#changed();
    }
  }

  #setAside() {
    if (!this.isDirty) return;
    this.kept = this.text;
    this.text = this.#savedText;
    this.saveState = "saved";
    this.drafts.put(this.name, { text: this.kept, base: null });
  }

  discardKept() {
    this.kept = null;
    this.#keepDraft();
    this.#changed();
  }

  /** Puts what was set aside back into the editor, in place of what is there. */
  putBack() {
    if (this.kept === null || !this.isEditable) return;
    const text = this.kept;
    this.kept = null;
    this.typed(text);
  }

  #keepDraft() {
    this.drafts.put(this.name, this.isDirty ? { text: this.text, base: this.version } : this.kept === null ? null : { text: this.kept, base: null });
  }

  // Saving

  #saveSoon() {
    clearTimeout(this.#timer);
    this.#unsavedSince ??= Date.now();
    const most = Math.max(0, this.#unsavedSince + MOST_UNSAVED_MS - Date.now());
    this.#timer = window.setTimeout(() => this.#saveWhileTyping(), Math.min(TYPING_PAUSE_MS, most));
  }

  async #saveWhileTyping() {
    const { canEdit, fencingToken } = this.lock.getSnapshot();
    if (!canEdit || this.#claimed !== fencingToken || !this.isDirty) return;
    try {
      await this.#saveOnce();
      await this.lock.saved(/** @type {string} */ (this.version)).catch(() => {});
      if (this.isDirty) this.#saveSoon();
    } catch {
      clearTimeout(this.#timer);
      if (this.saveState === "failed") this.#timer = window.setTimeout(() => this.#saveWhileTyping(), RETRY_MS);
    }
  }

  /** Saves what is not saved, for whoever is about to give the lock away. @returns {Promise<string | undefined>} */
  saveNow = async () => {
    clearTimeout(this.#timer);
    await this.#claiming;
    await this.#saving?.catch(() => {});
    if (this.isDirty) await this.#saveOnce();
    return this.version ?? undefined;
  };

  /** Sends what is not saved as the page goes, without waiting. */
  saveAtOnce() {
    const { canEdit, fencingToken } = this.lock.getSnapshot();
    if (!canEdit || fencingToken === null || this.#claimed !== fencingToken || !this.isDirty) return;
    this.backend.save(this.name, { fencingToken, text: this.text }, { keepalive: true }).catch(() => {});
  }

  /** One save after the other: two at once could arrive in the wrong order. */
  async #saveOnce() {
    await this.#saving?.catch(() => {});
    this.#saving = this.#send().finally(() => (this.#saving = null));
    await this.#saving;
  }

  async #send() {
    const { fencingToken } = this.lock.getSnapshot();
    if (fencingToken === null) throw new Error("The lock is gone");
    const { text } = this;
    this.#unsavedSince = null;
    this.saveState = "saving";
    this.#changed();
    try {
      this.version = await this.backend.save(this.name, { fencingToken, text });
      this.#savedText = text;
      this.#inDoubt = null;
      this.saveState = this.isDirty ? "unsaved" : "saved";
      this.#keepDraft();
    } catch (error) {
      if (error instanceof Refused) this.#refused(error);
      else {
        this.#inDoubt = text;
        this.saveState = "failed";
      }
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** @param {Refused} refusal */
  #refused(refusal) {
    this.refusal = refusal;
    this.saveState = "refused";
    this.#changed();
  }

  /** A save with the token of an earlier lock, as a page would send it that slept through losing it. */
  async saveLate() {
    const { fencingToken: newest } = await this.backend.load(this.name);
    const token = newest - 1;
    if (token < 1) return { token: null, refusal: null };
    try {
      await this.backend.save(this.name, { fencingToken: token, text: `${this.text}\n(late)` });
      return { token, refusal: null };
    } catch (error) {
      if (error instanceof Refused) return { token, refusal: error };
      throw error;
    }
  }
}
