import { Refusal } from "./refusal.js";

/**
 * @typedef {import("./engine.js").Document} Document
 * @typedef {import("./engine.js").Fields} Fields
 * @typedef {import("./engine.js").Lock} Lock
 * @typedef {import("./tokens.js").Caller} Caller
 * @typedef {{id: string, doc: Document, lock: Lock, by: Caller, session: string | null, message: string | null, outcome: string,
 *   note: string | null, notify: (lock: Lock) => void, timer: unknown, until: number, heard: (() => void)[]}} Handover
 */

const ANSWER_MS = 30_000;

export class Handovers {
  #engine;
  /** @type {Map<string, Handover>} */
  #all = new Map();

  /** @param {import("./engine.js").Engine} engine */
  constructor(engine) {
    this.#engine = engine;
  }

  /** @param {Lock} lock */
  openFor(lock) {
    return this.#open(lock).map((handover) => this.#shown(handover));
  }

  /** @param {Lock} lock */
  #open(lock) {
    return [...this.#all.values()].filter((one) => one.lock === lock && one.outcome === "open");
  }

  /** @param {Handover} handover */
  #shown({ id, by, message, until }) {
    return { handover_id: id, by: { owner_id: by.ownerId, name: by.name }, message, expires_in_ms: until - this.#engine.clock.now() };
  }

  /**
   * @param {Caller} by
   * @param {Document} doc
   * @param {Fields} fields
   * @param {(lock: Lock) => void} notify what to do with the lock if it is handed over
   */
  ask(by, doc, { message = null, session_id = null }, notify) {
    const { lock } = doc;
    if (!lock) throw new Refusal(404, "LOCK_NOT_FOUND");
    const { clock } = this.#engine;
    const id = `handover-${this.#all.size + 1}`;
    /** @type {Handover} */
    const handover = {
      ...{ id, doc, lock, by, session: session_id, message, outcome: "open", note: null, notify, heard: [], until: clock.now() + ANSWER_MS },
      timer: clock.setTimeout(() => this.#unanswered(handover), ANSWER_MS),
    };
    this.#all.set(id, handover);
    const { room, document } = doc;
    this.#engine.whisper(lock.owner.ownerId, { type: "HandoverAsked", room, document, ...this.#shown(handover) });
    return { handover_id: id, expires_in_ms: ANSWER_MS, outcome: "open" };
  }

  /** @param {Handover} handover */
  #unanswered(handover) {
    // Nobody is there: only heartbeats of the page itself keep the lock now.
    handover.lock.keeper = null;
    this.#settle(handover, "unanswered");
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  answer(caller, doc, { handover_id, grant, document_version, message }) {
    const handover = this.#get(handover_id);
    if (handover.outcome !== "open") return { outcome: handover.outcome };
    if (handover.lock.owner.ownerId !== caller.ownerId) throw new Refusal(403, "NOT_OWNER");
    if (!grant) this.#settle(handover, "denied", message);
    else {
      this.#engine.end(doc, "handed_over", caller.ownerId, document_version, false);
      const lock = this.#engine.grant(doc, handover.by, handover.session, { ttl_seconds: handover.lock.ttl }, 5_000);
      this.#settle(handover, "granted", message);
      handover.notify(lock);
      this.moot(handover.lock);
    }
    return { outcome: handover.outcome };
  }

  /**
   * @param {Caller} caller
   * @param {string} id
   */
  cancel(caller, id) {
    const handover = this.#get(id);
    if (handover.by.ownerId !== caller.ownerId) throw new Refusal(404, "NOT_FOUND");
    if (handover.outcome === "open") this.#settle(handover, "cancelled");
    return { outcome: handover.outcome };
  }

  /**
   * The outcome, once there is one or the time is over.
   *
   * @param {string} id
   * @param {number} waitMs
   */
  async look(id, waitMs) {
    const handover = this.#get(id);
    if (handover.outcome === "open") {
      await new Promise((/** @type {(nothing?: unknown) => void} */ resolve) => {
        handover.heard.push(resolve);
        this.#engine.clock.setTimeout(resolve, waitMs);
      });
    }
    return { handover_id: id, outcome: handover.outcome, message: handover.note };
  }

  /** The lock they were aimed at has ended. @param {Lock} lock */
  moot(lock) {
    for (const handover of this.#open(lock)) this.#settle(handover, "moot");
  }

  /** @param {string} id */
  #get(id) {
    const handover = this.#all.get(id);
    if (!handover) throw new Refusal(404, "NOT_FOUND");
    return handover;
  }

  /**
   * @param {Handover} handover
   * @param {string} outcome
   * @param {string | null} [note]
   */
  #settle(handover, outcome, note = null) {
    this.#engine.clock.clearTimeout(handover.timer);
    Object.assign(handover, { outcome, note });
    const { room, document } = handover.doc;
    const told = { type: "HandoverAnswered", handover_id: handover.id, room, document, outcome, message: note };
    for (const ownerId of new Set([handover.by.ownerId, handover.lock.owner.ownerId])) this.#engine.whisper(ownerId, told);
    for (const heard of handover.heard) heard();
  }
}
