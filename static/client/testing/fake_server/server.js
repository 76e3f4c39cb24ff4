// The server as a whole: who is connected, in which rooms, and what they are told.

import { Engine } from "./engine.js";
import { Refusal } from "./refusal.js";

/**
 * @typedef {import("./engine.js").Fields} Fields
 * @typedef {import("./engine.js").Lock} Lock
 * @typedef {import("./socket.js").Connection} Connection
 * @typedef {import("./tokens.js").Caller} Caller
 */

/** Who goes and is back within this has not left. */
const PRESENCE_MS = 2_000;
const PING_MS = 10_000;
/** How many locks or events a message tells at once. */
const PAGE = 100;

export class Server {
  url = "http://doclock.test";
  isUp = true;
  /** @type {Set<Connection>} */
  connections = new Set();
  #ids = 0;
  /** @type {Map<string, number>} */
  #revoked = new Map();

  /** @param {import("../../project-lock.js").ProjectLockClock} clock */
  constructor(clock) {
    this.clock = clock;
    this.engine = new Engine(clock);
    this.engine.publish = (message, lock) => this.#publish(message, lock);
    this.engine.whisper = (ownerId, message) => this.#whisper(ownerId, message);
  }

  newId() {
    this.#ids += 1;
    return `00000000-0000-4000-8000-${String(this.#ids).padStart(12, "0")}`;
  }

  /** @param {string} ownerId */
  revoke(ownerId) {
    this.#revoked.set(ownerId, this.clock.now());
    for (const connection of [...this.connections]) if (connection.caller?.ownerId === ownerId) connection.close(4401, "TOKEN_REVOKED");
  }

  /** @param {Caller} caller */
  mustNotBeRevoked({ ownerId, issuedAt }) {
    if (issuedAt <= (this.#revoked.get(ownerId) ?? -1)) throw new Refusal(401, "TOKEN_REVOKED");
  }

  /**
   * @param {Fields} message
   * @param {Lock} [lock]
   */
  #publish(message, lock) {
    for (const connection of this.connections) if (connection.rooms.has(message.room)) connection.send(this.#shown(message, connection, lock));
  }

  /**
   * @param {Fields} message
   * @param {Connection} connection
   * @param {Lock} [lock]
   */
  #shown({ lease_id: _, owner_id: __, session_id: ___, at: ____, ...message }, { caller }, lock) {
    return lock ? { ...message, lock: this.engine.view(lock, /** @type {Caller} */ (caller)) } : message;
  }

  /**
   * @param {string} ownerId
   * @param {Fields} message
   */
  #whisper(ownerId, message) {
    for (const connection of this.connections) if (connection.caller?.ownerId === ownerId) connection.send(message);
  }

  /**
   * @param {Connection} connection
   * @param {string} room
   * @param {{epoch: string, sequence: number} | undefined} after
   * @param {unknown} id
   */
  subscribe(connection, room, after, id) {
    const { engine } = this;
    const isNew = !this.participants(room).some(({ owner_id }) => owner_id === connection.caller?.ownerId);
    connection.rooms.add(room);
    const { caller } = connection;
    if (isNew && caller) this.#presence("ParticipantJoined", room, caller, connection);
    const recovered = after?.epoch === engine.epoch && after.sequence <= engine.sequence;
    const missed = engine.log.filter((event) => event.room === room && event.sequence > (after?.sequence ?? 0));
    const all = recovered
      ? missed.map(({ lock, ...event }) => this.#shown(event, connection, lock))
      : engine.locksOf(room).map((lock) => engine.view(lock, /** @type {Caller} */ (caller)));
    const page = () => ({ [recovered ? "events" : "locks"]: all.splice(0, PAGE), more: all.length > 0 });
    const told = { id, room, epoch: engine.epoch, sequence: engine.sequence, recovered, participants: this.participants(room) };
    connection.send({ type: "subscribed", ...told, ...page() });
    while (all.length > 0) connection.send({ type: "snapshot", room, ...page() });
    return undefined;
  }

  /**
   * @param {Connection} connection
   * @param {string} room
   */
  leave(connection, room) {
    connection.rooms.delete(room);
    const { caller } = connection;
    if (!caller) return;
    this.clock.setTimeout(() => {
      if (!this.participants(room).some(({ owner_id }) => owner_id === caller.ownerId)) this.#presence("ParticipantLeft", room, caller);
    }, PRESENCE_MS);
  }

  /** @param {string} room */
  participants(room) {
    const here = [...this.connections].flatMap(({ rooms, caller }) => (rooms.has(room) && caller ? [caller] : []));
    return [...new Map(here.map(({ ownerId: owner_id, name }) => [owner_id, { owner_id, name }])).values()];
  }

  /**
   * @param {string} type
   * @param {string} room
   * @param {Caller} caller
   * @param {Connection} [except]
   */
  #presence(type, room, { ownerId: owner_id, name }, except) {
    for (const connection of this.connections) {
      if (connection !== except && connection.rooms.has(room)) connection.send({ type, room, participant: { owner_id, name } });
    }
  }

  /**
   * Renews the lock with every ping that this connection answers.
   *
   * @param {Lock} lock
   * @param {Connection} connection
   */
  keep(lock, connection) {
    if (lock.keeper === connection) return;
    lock.keeper = connection;
    const ping = () => {
      const isLive = this.engine.document(lock.room, lock.document).lock === lock;
      if (!isLive || lock.keeper !== connection || !connection.isReachable || !this.isUp) return;
      connection.send(this.engine.keep(lock));
      this.clock.setTimeout(ping, Math.min(PING_MS, (lock.ttl * 1000) / 3));
    };
    this.clock.setTimeout(ping, Math.min(PING_MS, (lock.ttl * 1000) / 3));
  }

  /** @param {Connection} connection */
  disconnected(connection) {
    if (!this.connections.delete(connection)) return;
    this.engine.left(connection, { keepsPlace: false });
    for (const room of [...connection.rooms]) this.leave(connection, room);
  }
}
