// What just happened in the room, from the frames that tell it.

/**
 * @typedef {object} Happening
 * @property {number} id
 * @property {number} at
 * @property {"locked" | "unlocked" | "saved" | "joined" | "left"} type
 * @property {string} ownerId
 * @property {string | null} name
 * @property {string} [document]
 * @property {string} [reason] how a lock ended
 * @property {number} [fencingToken]
 * @property {string} [version]
 */

const MOST = 50;

export class Happenings {
  /** @type {readonly Happening[]} newest first */
  list = [];
  #lastId = 0;
  #room;
  /** @type {Map<string, {ownerId: string, name: string | null}>} who held a document, by document and token */
  #holders = new Map();

  /** @param {string} room */
  constructor(room) {
    this.#room = room;
  }

  /** @param {Record<string, any>} frame @returns {boolean} whether anything is new */
  hear(frame) {
    if (frame.room !== this.#room) return false;
    if (frame.type === "subscribed" || frame.type === "snapshot") {
      for (const lock of frame.locks ?? []) this.#remember(lock);
      const missed = (frame.events ?? []).filter((/** @type {Record<string, any>} */ event) => this.#tell({ room: this.#room, ...event }));
      return missed.length > 0;
    }
    return this.#tell(frame);
  }

  /** @param {Record<string, any>} lock */
  #remember({ document, fencing_token, holder }) {
    this.#holders.set(`${document} ${fencing_token}`, { ownerId: holder.owner_id, name: holder.name });
  }

  /** @param {Record<string, any>} frame */
  #tell({ type, document, lock, fencing_token: fencingToken, reason, document_version: version, participant }) {
    if (type === "DocumentLocked") {
      this.#remember(lock);
      return this.#add({ type: "locked", document, fencingToken: lock.fencing_token, ...this.#holder(document, lock.fencing_token) });
    }
    if (type === "DocumentUnlocked") return this.#add({ type: "unlocked", document, reason, fencingToken, ...this.#holder(document, fencingToken) });
    if (type === "DocumentSaved") return this.#saved({ type: "saved", document, version, fencingToken, ...this.#holder(document, fencingToken) });
    const person = participant && { ownerId: participant.owner_id, name: participant.name };
    if (type === "ParticipantJoined") return this.#add({ type: "joined", ...person });
    if (type === "ParticipantLeft") return this.#add({ type: "left", ...person });
    return false;
  }

  /** @param {string} document @param {number} token */
  #holder(document, token) {
    return this.#holders.get(`${document} ${token}`) ?? { ownerId: "", name: null };
  }

  /** @param {Omit<Happening, "id" | "at">} happening */
  #add(happening) {
    this.list = [{ id: (this.#lastId += 1), at: Date.now(), ...happening }, ...this.list].slice(0, MOST);
    return true;
  }

  /** Saves come as fast as someone types: those of one lock in a row are one line. @param {Omit<Happening, "id" | "at">} saved */
  #saved(saved) {
    const [last, ...rest] = this.list;
    if (last?.type !== "saved" || last.document !== saved.document || last.fencingToken !== saved.fencingToken) return this.#add(saved);
    this.list = [{ ...last, at: Date.now(), version: saved.version }, ...rest];
    return true;
  }
}
