// What has been typed and not saved, so that a reload or a crash of the tab does not lose it.

/** @typedef {{text: string, base: string | null}} Draft */

const PREFIX = "doclock-demo.draft.";

export class Drafts {
  #storage;
  #room;

  /** @param {Storage} storage @param {string} room */
  constructor(storage, room) {
    this.#storage = storage;
    this.#room = room;
  }

  /** @param {string} document */
  #key(document) {
    return `${PREFIX}${this.#room}/${document}`;
  }

  /** @param {string} document @returns {Draft | null} */
  get(document) {
    return JSON.parse(this.#storage.getItem(this.#key(document)) ?? "null");
  }

  /** @param {string} document @param {Draft | null} draft */
  put(document, draft) {
    if (draft) this.#storage.setItem(this.#key(document), JSON.stringify(draft));
    else this.#storage.removeItem(this.#key(document));
  }

  /** Forgets all: they are another tab's. @param {Storage} storage */
  static clear(storage) {
    for (const key of Object.keys(storage)) if (key.startsWith(PREFIX)) storage.removeItem(key);
  }
}
