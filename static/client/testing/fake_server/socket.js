// The server's end of a WebSocket, and the page's end that fits it.

import { Refusal, mustKnow } from "./refusal.js";
import { iso } from "./engine.js";
import { mustEdit, mustSee, readToken } from "./tokens.js";

/**
 * @typedef {import("./engine.js").Fields} Fields
 * @typedef {import("./engine.js").Lock} Lock
 * @typedef {import("./tokens.js").Caller} Caller
 * @typedef {import("./network.js").Tab} Tab
 */

const LOCK_FIELDS = ["session_id", "ttl_seconds", "request_id", "takeover", "expected_token", "capacity", "metadata", "document_version"];
const NAMED = ["session_id", "lease_id", "request_id"];

/** What each message may say, besides `type`, `id`, `room` and `document`. @type {Record<string, string[]>} */
export const FIELDS = {
  lock: [...LOCK_FIELDS, "keep"],
  wait: [...LOCK_FIELDS, "keep"],
  extend: [...NAMED, "hold", "ttl_seconds", "metadata", "activity", "document_version", "keep"],
  unlock: [...NAMED, "document_version"],
  cancel_wait: ["session_id"],
  ask_handover: ["session_id", "message"],
  cancel_handover: ["handover_id"],
  answer_handover: ["handover_id", "grant", "document_version", "message"],
};

export class Connection {
  /** @type {Caller | undefined} */
  caller;
  rooms = new Set();
  #server;
  #socket;
  /** @type {unknown} */
  #ending;

  /**
   * @param {import("./server.js").Server} server
   * @param {FakeSocket} socket
   */
  constructor(server, socket) {
    this.#server = server;
    this.#socket = socket;
  }

  /** @param {string | undefined} token */
  authenticate(token) {
    const { clock, engine } = this.#server;
    try {
      const caller = readToken(token, clock.now());
      this.#server.mustNotBeRevoked(caller);
      const isFirst = !this.caller;
      this.caller = caller;
      clock.clearTimeout(this.#ending);
      this.#ending = clock.setTimeout(() => this.close(4401, "TOKEN_EXPIRED"), caller.expiresAt - clock.now());
      if (!isFirst) return;
      const { ownerId: owner_id, name, role } = caller;
      const limits = { message_bytes: 16_384, rooms: 128 };
      this.send({ type: "welcome", epoch: engine.epoch, server_time: iso(clock.now()), ping_ms: 10_000, limits, owner_id, name, role });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.close(4401, error.problem.code);
    }
  }

  /** @param {Fields} message */
  send(message) {
    this.#socket.deliver(JSON.stringify(message));
  }

  /**
   * @param {number} code
   * @param {string} reason
   */
  close(code, reason) {
    this.#socket.end(code, reason);
  }

  /** The page is gone, or cannot be reached. */
  gone() {
    this.#server.clock.clearTimeout(this.#ending);
    this.#server.disconnected(this);
  }

  get isReachable() {
    return this.#socket.isReachable;
  }

  /** @param {string} text */
  receive(text) {
    /** @type {Fields} */
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return this.close(4400, "BAD_JSON");
    }
    const { id } = message;
    if (message.type === "ping") return this.send({ type: "pong", id, server_time: iso(this.#server.clock.now()) });
    if (message.type === "auth") {
      this.authenticate(message.token);
      return id === undefined ? undefined : this.send({ type: "ok", id });
    }
    try {
      const reply = this.#serve(message);
      if (reply) this.send({ type: "ok", id, ...reply });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status: _, ...problem } = error.problem;
      this.send({ type: "error", id, ...problem, server_time: iso(this.#server.clock.now()) });
    }
  }

  /** @param {Fields} message */
  #serve({ type, id, room, document = "main", ...fields }) {
    const { engine } = this.#server;
    const caller = /** @type {Caller} */ (this.caller);
    mustSee(caller, room);
    if (type === "subscribe") return this.#server.subscribe(this, room, fields.after, id);
    if (type === "unsubscribe") return this.#server.leave(this, room) ?? {};
    if (!FIELDS[type]) throw new Refusal(422, "INVALID_FIELD", { field: "type" });
    mustKnow(fields, FIELDS[type]);
    mustEdit(caller);
    const doc = engine.document(room, document);
    const granted = (/** @type {Lock} */ lock) => this.#granted(lock);
    if (type === "lock") return this.#kept(engine.lock(caller, doc, fields), doc.lock, fields);
    if (type === "wait") return this.#kept(engine.wait(caller, doc, fields, this, granted), doc.lock, fields);
    if (type === "extend") return this.#kept(engine.extend(caller, doc, fields), doc.lock, fields);
    if (type === "unlock") return engine.unlock(caller, doc, fields);
    if (type === "cancel_wait") return engine.cancelWait(caller, doc, fields);
    if (type === "ask_handover") return engine.handovers.ask(caller, doc, fields, granted);
    if (type === "cancel_handover") return engine.handovers.cancel(caller, fields.handover_id);
    return engine.handovers.answer(caller, doc, fields);
  }

  /** @param {Lock} lock */
  #granted(lock) {
    const { room, document } = lock;
    this.send({ type: "granted", room, document, lock: this.#server.engine.view(lock, lock.owner) });
  }

  /**
   * @param {Fields} reply
   * @param {Lock | null} lock
   * @param {Fields} fields
   */
  #kept(reply, lock, { keep }) {
    if (lock && reply.lease_id === lock.leaseId && keep === "connection") this.#server.keep(lock, this);
    return reply;
  }
}

/** The page's end: what `new WebSocket` gives. */
export class FakeSocket {
  readyState = 0;
  protocol = "";
  /** @type {((event: any) => unknown) | null} */
  onopen = null;
  /** @type {((event: any) => unknown) | null} */
  onmessage = null;
  /** @type {((event: any) => unknown) | null} */
  onclose = null;
  /** @type {((event: any) => unknown) | null} */
  onerror = null;
  #tab;
  #connection;

  /**
   * @param {import("./server.js").Server} server
   * @param {Tab} tab
   * @param {string[]} protocols
   */
  constructor(server, tab, protocols) {
    this.#tab = tab;
    this.#connection = new Connection(server, this);
    tab.sockets.add(this);
    const token = protocols.find((protocol) => protocol.startsWith("bearer."))?.slice("bearer.".length);
    queueMicrotask(() => {
      if (this.readyState !== 0) return;
      // A server that is down refuses; a network that is cut says nothing.
      if (tab.isCut) return;
      if (!server.isUp) return this.end(1006, "");
      this.readyState = 1;
      this.protocol = "doclock.v1";
      server.connections.add(this.#connection);
      tab.run(() => this.onopen?.({ type: "open" }));
      if (token !== undefined) this.#connection.authenticate(token);
    });
  }

  get isReachable() {
    return this.readyState === 1 && !this.#tab.isCut;
  }

  /** @param {string} data */
  send(data) {
    if (this.readyState === 0) throw new DOMException("It is still connecting", "InvalidStateError");
    queueMicrotask(() => this.isReachable && this.#connection.receive(data));
  }

  /** @param {string} data */
  deliver(data) {
    queueMicrotask(() => {
      if (this.isReachable) this.#tab.run(() => this.readyState === 1 && this.onmessage?.({ type: "message", data }));
    });
  }

  /** @param {number} [code] */
  close(code = 1005) {
    if (this.readyState > 1) return;
    this.readyState = 3;
    this.#tab.sockets.delete(this);
    // Where the network is cut the server does not hear of it.
    if (!this.#tab.isCut) this.#connection.gone();
    queueMicrotask(() => this.#tab.run(() => this.onclose?.({ type: "close", code, reason: "", wasClean: true })));
  }

  /**
   * Closed by the server or by the network.
   *
   * @param {number} code
   * @param {string} reason
   */
  end(code, reason) {
    if (this.readyState > 1) return;
    // What was sent before comes before.
    queueMicrotask(() => {
      if (this.readyState > 1) return;
      this.readyState = 3;
      this.#tab.sockets.delete(this);
      this.#connection.gone();
      this.#tab.run(() => this.onclose?.({ type: "close", code, reason, wasClean: code !== 1006 }));
    });
  }
}
