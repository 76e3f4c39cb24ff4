// A room as the server tells it: who is there and which documents are locked. It is watched while anyone looks at it or
// holds a lock in it, and read on from where it was after the connection was gone.

import { Store } from "./store.js";
import { DocLockError, during } from "./errors.js";
import { participantOf, roomLock } from "./wire.js";

/**
 * @typedef {import("../doclock.js").Participant} Participant
 * @typedef {import("../doclock.js").RoomLock} RoomLock
 * @typedef {import("../doclock.js").RoomSnapshot} RoomSnapshot
 * @typedef {import("./lock.js").Lock} Lock
 * @typedef {import("./wire.js").Message} Message
 */

/** A room that nobody watches is left after this, so that a view that is drawn anew does not leave and join. */
const LINGER_MS = 1_000;
/** A room that could not be joined for now, because there are too many, is tried again after this. */
const REJOIN_MS = 5_000;

export class Room {
  name;
  store;
  /** @type {Map<string, Lock>} */
  handles = new Map();
  #client;
  /** @type {Map<string, readonly RoomLock[]>} by document */
  #locks = new Map();
  /** @type {readonly RoomLock[] | undefined} all of them, made when someone asks */
  #list;
  /** @type {readonly Participant[]} */
  #participants = Object.freeze([]);
  /** @type {{epoch: string, sequence: number} | undefined} how far it was told in full */
  #position;
  /** @type {{epoch: string, sequence: number} | undefined} how far it is told once all pages have come */
  #reached;
  #isLive = false;
  /** @type {DocLockError | null} */
  #error = null;
  #watchers = 0;
  #isJoined = false;
  /** @type {unknown} */
  #leaving;

  /**
   * @param {import("./client.js").Client} client
   * @param {string} name
   */
  constructor(client, name) {
    this.#client = client;
    this.name = name;
    this.store = new Store(() => this.#build(), client.guarded);
    /** @type {import("../doclock.js").RoomHandle} */
    this.handle = Object.freeze({
      subscribe: (/** @type {() => unknown} */ listener) => this.#subscribe(listener),
      getSnapshot: () => this.store.getSnapshot(),
    });
  }

  /** @param {() => unknown} listener */
  #subscribe(listener) {
    const unwatch = this.watch();
    const unsubscribe = this.store.subscribe(listener);
    return () => {
      unsubscribe();
      unwatch();
    };
  }

  get isWatched() {
    return this.#watchers > 0 || this.#leaving !== undefined;
  }

  /** Watches the room until what it returns is called. */
  watch() {
    const { clock } = this.#client;
    clock.clearTimeout(this.#leaving);
    this.#leaving = undefined;
    this.#watchers += 1;
    this.#client.start();
    if (!this.#isJoined) this.join();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#watchers -= 1;
      if (this.#watchers === 0) this.#leaving = clock.setTimeout(() => this.#leave(), LINGER_MS);
    };
  }

  #leave() {
    this.#leaving = undefined;
    if (this.#isJoined) this.#client.connection.request({ type: "unsubscribe", room: this.name }).catch(() => {});
    this.#isJoined = false;
    // What is not watched is not known: the next one to look starts anew.
    this.#position = undefined;
    this.#reset([], []);
    this.#isLive = false;
    this.store.changed();
    this.#client.left();
  }

  /** Subscribes, from where it was told last. Called again with each new connection. */
  async join() {
    this.#isJoined = this.#client.connection.isConnected;
    if (!this.#isJoined) return;
    this.#reached = undefined;
    try {
      await this.#client.connection.request({ type: "subscribe", room: this.name, after: this.#position });
      this.#error = null;
    } catch (error) {
      const refusal = during(error, "watch");
      // Without a connection it is joined again with the next one.
      if (!refusal.problem) return;
      this.#error = refusal;
      if (refusal.retryable) this.#client.clock.setTimeout(() => this.isWatched && this.join(), REJOIN_MS);
    }
    this.store.changed();
  }

  /** The connection is gone or another one. */
  connectionChanged() {
    if (this.#client.connection.isConnected) this.join();
    else this.#isJoined = false;
    this.store.changed();
    for (const lock of this.handles.values()) lock.connectionChanged();
  }

  /**
   * The lock that the document's handle speaks of: the oldest.
   *
   * @param {string} document
   * @returns {RoomLock | undefined}
   */
  lockOf(document) {
    return this.#locks.get(document)?.[0];
  }

  /**
   * A lock that an answer spoke of. Where the room is told live that is older news; without a socket it is all there is.
   *
   * @param {Message | undefined} lock
   * @param {boolean} [isYou]
   */
  seen(lock, isYou) {
    if (!lock || this.#isJoined) return;
    const told = roomLock(lock, isYou ? lock.holder.owner_id : this.#client.connection.me);
    this.#replace(told.document, () => [told]);
    this.store.changed();
  }

  /** @param {Message} message */
  receive(message) {
    const { type, document } = message;
    if (type === "subscribed" || type === "snapshot") this.#told(message);
    else if (type === "ParticipantJoined" || type === "ParticipantLeft") this.#moved(message);
    else if (typeof message.sequence === "number") {
      if (this.#position) this.#position = { ...this.#position, sequence: message.sequence };
      this.#apply(message);
    } else if (type === "LockActivity") {
      this.#change(document, (lock) => ({ ...lock, activity: message.activity, activeAt: Date.parse(message.active_at) }));
    }
    if (document) this.handles.get(document)?.receive(message);
    this.store.changed();
  }

  /** @param {Message} message `subscribed` or one of its pages */
  #told(message) {
    if (message.type === "subscribed") {
      this.#reached = { epoch: message.epoch, sequence: message.sequence };
      this.#isLive = true;
      if (!message.recovered) this.#reset([], message.participants);
      else this.#participants = this.#people(message.participants);
    }
    for (const lock of message.locks ?? []) this.#put(lock);
    for (const event of message.events ?? []) {
      this.#apply(event);
      if (event.document) this.handles.get(event.document)?.receive(event);
    }
    // Only now: if the connection goes before the last page, it is all told again.
    if (!message.more) this.#position = this.#reached;
    for (const lock of this.handles.values()) lock.roomChanged();
  }

  /** @param {Message} event */
  #apply({ type, document, lock, fencing_token, document_version }) {
    if (type === "DocumentLocked") this.#put(lock);
    if (type === "DocumentUnlocked") this.#replace(document, (all) => all.filter(({ fencingToken }) => fencingToken !== fencing_token));
    if (type === "DocumentSaved") this.#change(document, (one) => ({ ...one, documentVersion: document_version }), fencing_token);
  }

  /** @param {Message} lock */
  #put(lock) {
    const told = roomLock(lock, this.#client.connection.me);
    this.#replace(told.document, (all) => [...all.filter(({ fencingToken }) => fencingToken !== told.fencingToken), told]);
  }

  /**
   * @param {string} document
   * @param {(lock: RoomLock) => RoomLock} change
   * @param {number} [token] of the lock that changes; without it all of the document
   */
  #change(document, change, token) {
    const changed = (/** @type {RoomLock} */ lock) =>
      token === undefined || lock.fencingToken === token ? Object.freeze(change(lock)) : lock;
    this.#replace(document, (all) => all.map(changed));
  }

  /**
   * @param {string} document
   * @param {(locks: readonly RoomLock[]) => RoomLock[]} change
   */
  #replace(document, change) {
    const locks = change(this.#locks.get(document) ?? []);
    if (locks.length > 0) this.#locks.set(document, locks);
    else this.#locks.delete(document);
    this.#list = undefined;
  }

  /** @param {Message} message */
  #moved({ type, participant }) {
    const others = this.#participants.filter(({ ownerId }) => ownerId !== participant.owner_id);
    if (type === "ParticipantJoined") others.push(participantOf(participant, this.#client.connection.me));
    this.#participants = Object.freeze(others);
  }

  /** @param {Message[]} participants */
  #people(participants) {
    return Object.freeze(participants.map((participant) => participantOf(participant, this.#client.connection.me)));
  }

  /**
   * @param {Message[]} locks
   * @param {Message[]} participants
   */
  #reset(locks, participants) {
    this.#locks.clear();
    this.#list = undefined;
    for (const lock of locks) this.#put(lock);
    this.#participants = this.#people(participants);
  }

  /** @returns {RoomSnapshot} */
  #build() {
    this.#list ??= Object.freeze([...this.#locks.values()].flat());
    const { state, isLost } = this.#client.connection;
    return {
      locks: this.#list,
      participants: this.#participants,
      connection: state,
      connectionLost: isLost,
      isLive: this.#isLive,
      error: this.#error,
    };
  }
}
