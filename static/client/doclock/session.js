// One session per tab. It is kept where a reload finds it, in sessionStorage, which a browser copies when a tab is
// duplicated: a Web Lock on its name tells the copy from the original.

/** @typedef {import("../doclock.js").CreateDocLockOptions} CreateDocLockOptions */
/** @typedef {{room: string, document: string, leaseId: string}} HeldNote */

const ID = "doclock.session";
const NOTES = "doclock.held";

/** A page that comes back later than this finds its lock gone, whatever the linger was. */
const NOTES_LAST_MS = 10_000;

export class Session {
  /** Empty until `ready` has resolved. */
  id = "";
  #storage;
  #locks;
  #clock;
  #newId;
  /** @type {Promise<string> | undefined} */
  #claim;
  /** @type {() => void} */
  #free = () => {};

  /**
   * @param {{storage: () => CreateDocLockOptions["storage"], locks: () => import("../project-lock.js").ProjectLockManager | undefined,
   *   clock: {now(): number}, newId: () => string}} environment
   */
  constructor({ storage, locks, clock, newId }) {
    this.#storage = storage;
    this.#locks = locks;
    this.#clock = clock;
    this.#newId = newId;
  }

  /** Resolves to the session's id, once it is sure that no other tab has it. */
  ready() {
    this.#claim ??= this.#settle();
    return this.#claim;
  }

  /** Lets the guard go, so that a reloaded page finds it free and a browser may keep this page for later. */
  suspend() {
    this.#free();
    this.#claim = undefined;
  }

  async #settle() {
    const stored = this.id || this.#read(ID);
    if (stored && (await this.#guard(stored))) this.id = stored;
    else await this.#guard((this.id = this.#newId()));
    this.#write(ID, this.id);
    return this.id;
  }

  /**
   * @param {string} id
   * @returns {Promise<boolean>} false if another tab has it
   */
  #guard(id) {
    const locks = this.#locks();
    // Without Web Locks two tabs may share a session; the server tells the older one, by `hold`.
    if (!locks) return Promise.resolve(true);
    return new Promise((resolve) => {
      locks
        .request(`${ID}.${id}`, { mode: "exclusive", ifAvailable: true }, (lock) => {
          resolve(lock !== null);
          return lock && new Promise((free) => (this.#free = () => free(undefined)));
        })
        .catch(() => resolve(true));
    });
  }

  /**
   * Remembers what this page holds, for the page that a reload makes.
   *
   * @param {HeldNote[]} held
   */
  leaveNotes(held) {
    this.#write(NOTES, JSON.stringify({ session: this.id, at: this.#clock.now(), held }));
  }

  /** @returns {HeldNote[]} what the page before this one held a moment ago */
  takeNotes() {
    try {
      const { session, at, held } = JSON.parse(this.#read(NOTES) ?? "{}");
      this.#storage()?.removeItem(NOTES);
      return session === this.id && Math.abs(this.#clock.now() - at) < NOTES_LAST_MS ? held : [];
    } catch {
      return [];
    }
  }

  // Storage may be forbidden, and throws then: the session lasts as long as the page does.

  /** @param {string} key */
  #read(key) {
    try {
      return this.#storage()?.getItem(key) ?? undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * @param {string} key
   * @param {string} value
   */
  #write(key, value) {
    try {
      this.#storage()?.setItem(key, value);
    } catch {
      // As above.
    }
  }
}
