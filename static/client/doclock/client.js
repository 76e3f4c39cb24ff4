// What all locks and rooms of a page share: the connection, the session, the token, and the page itself.

import { Subscribers } from "../project-lock/events.js";
import { Stopwatch, systemClock } from "../project-lock/timing.js";
import { Connection } from "./connection.js";
import { DocLockError } from "./errors.js";
import { Http } from "./http.js";
import { Lock } from "./lock.js";
import { Page } from "./page.js";
import { Room } from "./room.js";
import { Session } from "./session.js";
import { Tokens } from "./tokens.js";

/**
 * @typedef {import("../doclock.js").CreateDocLockOptions} CreateDocLockOptions
 * @typedef {import("../doclock.js").DocLockEvent} DocLockEvent
 * @typedef {import("./lock.js").Answer} Answer
 * @typedef {import("./wire.js").Message} Message
 */

/** A page that goes leaves its locks for this long, so that a reload finds them. */
const LINGER_MS = 3_000;

export class Client {
  clock;
  connection;
  session;
  page;
  isClosed = false;
  /** @type {Map<string, Room>} */
  #rooms = new Map();
  /** @type {import("./session.js").HeldNote[] | undefined} */
  #notes;
  #options;
  #http;
  #tokens;
  #subscribers;

  /** @param {CreateDocLockOptions} options */
  constructor(options) {
    const { clock = systemClock, jitter = () => Math.random(), random = () => crypto.randomUUID() } = options;
    this.#options = options;
    this.clock = clock;
    this.#subscribers = new Subscribers(options.onListenerError ?? ((error) => console.error(error)));
    this.#tokens = new Tokens(options, clock);
    // Looked up when they are needed, so that making a client touches nothing.
    const base = () => (options.url ?? globalThis.location.origin).replace(/\/+$/, "");
    const fetch = () => options.fetch ?? /** @type {import("../doclock.js").FetchLike} */ (globalThis.fetch.bind(globalThis));
    this.#http = new Http({ base, fetch, tokens: this.#tokens, clock });
    this.session = new Session({
      storage: () => (options.storage === undefined ? globalThis.sessionStorage : options.storage),
      locks: () => this.#navigator?.locks,
      clock,
      newId: random,
    });
    this.connection = new Connection({
      clock,
      jitter,
      base,
      tokens: this.#tokens,
      WebSocket: () => (options.WebSocket === undefined ? globalThis.WebSocket : options.WebSocket),
      guarded: this.guarded,
      onMessage: (message) => this.#rooms.get(message.room)?.receive(message),
      onState: () => this.#eachRoom((room) => room.connectionChanged()),
    });
    this.page = new Page(clock, () => ({ window: options.window ?? globalThis.window, document: options.document ?? globalThis.document }), {
      hide: () => this.#hide(),
      show: () => this.#show(),
      wake: () => this.#wake(),
      input: () => this.#eachLock((lock) => lock.check()),
      activity: () => this.#eachLock((lock) => lock.activityChanged()),
    });
  }

  /** Runs code of the caller's, whose failure is reported and goes no further. @type {(callback: () => unknown) => void} */
  guarded = (callback) => this.#subscribers.guarded(callback);

  /** @param {DocLockEvent} event */
  tell(event) {
    this.#subscribers.tell(/** @type {any} */ (event));
  }

  /** @param {(event: DocLockEvent) => unknown} listener */
  subscribeLockEvents(listener) {
    return this.#subscribers.subscribe(/** @type {any} */ (listener));
  }

  // Rooms and locks

  /** @param {string} name */
  room(name) {
    if (typeof name !== "string" || name === "") throw new TypeError("A room is named by a text that is not empty");
    const room = this.#rooms.get(name) ?? new Room(this, name);
    this.#rooms.set(name, room);
    return room;
  }

  /**
   * @param {string} roomName
   * @param {import("../doclock.js").LockOptions} options
   */
  lock(roomName, { document = "main", ...options } = {}) {
    const room = this.room(roomName);
    const lock = room.handles.get(document) ?? new Lock(this, room, document);
    room.handles.set(document, lock);
    lock.configure(options);
    return lock;
  }

  /** Something is to be watched or held. */
  start() {
    if (this.isClosed) throw new DocLockError("The client is closed", { code: "CLOSED" });
    this.page.start();
    this.connection.want();
  }

  /** Tries again at once, if anything is watched or held. */
  connect() {
    if (this.#isWatching) this.connection.want();
    this.connection.wake();
  }

  get #isWatching() {
    return [...this.#rooms.values()].some((room) => room.isWatched);
  }

  /** A room is watched by nobody any more. */
  left() {
    if (!this.#isWatching) this.connection.drop();
  }

  /**
   * By the socket where there is one, otherwise by HTTP. All commands may be sent again: the server knows this page by
   * its session, so that the second of two does nothing new.
   *
   * @param {string} type
   * @param {string} room
   * @param {string} document
   * @param {Record<string, any>} fields
   * @returns {Promise<Answer>}
   */
  async command(type, room, document, fields) {
    await this.connection.settled();
    if (this.connection.isConnected && !HTTP_ONLY.has(type)) {
      const watch = new Stopwatch(this.clock);
      try {
        return { reply: await this.connection.request({ type, room, document, ...fields }), watch };
      } catch (error) {
        if (!(error instanceof DocLockError && error.code === "UNREACHABLE")) throw error;
      }
    }
    const watch = new Stopwatch(this.clock);
    return { reply: await this.#http.command(type, room, document, fields), watch };
  }

  /**
   * @template T
   * @param {string} room
   * @param {import("../doclock.js").WithLockOptions} options
   * @param {(held: {lease: import("../doclock.js").DocLockLease, fencingToken: number, signal: AbortSignal}) => T | PromiseLike<T>} work
   * @returns {Promise<T>}
   */
  async withLock(room, { wait, signal: given, ...options }, work) {
    const lock = this.lock(room, options);
    const wasHeld = lock.canEdit;
    const lease = await lock.acquire({ wait, signal: given });
    try {
      return await lock.works.run((signal) => work({ lease, fencingToken: lease.fencingToken, signal }), given);
    } finally {
      // Work inside an editor that holds the lock anyway leaves it to the editor.
      if (!wasHeld) await lock.release().catch(() => {});
    }
  }

  /** @param {(lock: Lock) => void} work */
  #eachLock(work) {
    this.#eachRoom((room) => room.handles.forEach(work));
  }

  /** @param {(room: Room) => void} work */
  #eachRoom(work) {
    for (const room of [...this.#rooms.values()]) work(room);
  }

  // The page goes and comes back

  #wake() {
    this.#eachLock((lock) => lock.check());
    this.connection.wake();
  }

  #hide() {
    /** @type {import("./session.js").HeldNote[]} */
    const held = [];
    this.#eachRoom((room) => {
      for (const [document, lock] of room.handles) {
        const lease = lock.suspend();
        if (!lease) continue;
        held.push({ room: room.name, document, leaseId: lease.leaseId });
        this.#sayGoodbye(room.name, document, { lease_id: lease.leaseId, hold: lease.hold, linger_ms: LINGER_MS });
      }
    });
    if (held.length > 0) this.session.leaveNotes(held);
    this.#notes = held;
    this.connection.drop();
    this.session.suspend();
  }

  /** A page that was put away and is shown again, as it was. */
  #show() {
    if (this.isClosed || !this.#isWatching) return;
    this.connection.want();
    for (const { room, document } of this.#notes ?? []) this.resume(room, document);
  }

  /**
   * Takes up the lock of a document that this page, or the one before a reload, held a moment ago.
   *
   * @param {string} room
   * @param {string} document
   */
  async resume(room, document) {
    await this.session.ready();
    this.#notes ??= this.session.takeNotes();
    const note = this.#notes.find((note) => note.room === room && note.document === document);
    if (!note) return;
    this.#notes = this.#notes.filter((other) => other !== note);
    await this.room(room).handles.get(document)?.resume(note.leaseId);
  }

  /**
   * Sent as the page goes, when nothing else is sent any more.
   *
   * @param {string} room
   * @param {string} document
   * @param {Record<string, unknown>} fields
   */
  #sayGoodbye(room, document, fields) {
    const url = `${this.#http.address(room, document)}/release`;
    const body = JSON.stringify({ ...fields, access_token: this.#tokens.current });
    const navigator = this.#navigator;
    if (navigator?.sendBeacon?.(url, body)) return;
    const fetch = this.#options.fetch ?? globalThis.fetch;
    this.guarded(() => fetch(url, { method: "POST", headers: { "content-type": "text/plain" }, body, keepalive: true }).catch(() => {}));
  }

  /** @returns {CreateDocLockOptions["navigator"]} */
  get #navigator() {
    return this.#options.navigator ?? /** @type {any} */ (globalThis.navigator);
  }

  /**
   * A lock of this browser alone, where that is wanted while the server is away.
   *
   * @param {string} room
   * @param {string} document
   * @param {() => void} onLost
   */
  async holdLocally(room, document, onLost) {
    if (this.#options.offline !== "local") return undefined;
    const { holdLocally } = await import("./local.js");
    return holdLocally({ room, document, onLost, clock: this.clock, navigator: this.#navigator, session: this.session.id });
  }

  async close() {
    if (this.isClosed) return;
    const locks = [...this.#rooms.values()].flatMap((room) => [...room.handles.values()]);
    const released = locks.map((lock) => lock.release().catch(() => {}));
    this.isClosed = true;
    await Promise.all(released);
    this.connection.drop();
    this.page.stop();
    this.session.suspend();
  }
}

/** What the socket has no message for. */
const HTTP_ONLY = new Set(["look", "look_handover"]);
