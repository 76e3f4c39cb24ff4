// The rules of locking, as docs/api.md tells them: one lock per document, its line, its handovers, and the log.

import { Refusal } from "./refusal.js";
import { Handovers } from "./handovers.js";

/**
 * @typedef {import("./tokens.js").Caller} Caller
 * @typedef {Record<string, any>} Fields
 * @typedef {{room: string, document: string, leaseId: string, hold: number, token: number, owner: Caller, session: string | null,
 *   acquiredAt: number, expiresAt: number, ttl: number, activity: string, activeAt: number, metadata: unknown, lingers: boolean,
 *   keeper: object | null, timer: unknown}} Lock
 * @typedef {{caller: Caller, session: string | null, fields: Fields, expiresAt: number, seat: object | null,
 *   notify: (lock: Lock) => void, position: number}} Ticket `seat` is the socket or request it stands for
 * @typedef {{room: string, document: string, token: number, version: string | null, lock: Lock | null, line: Ticket[],
 *   ended: Map<string, {owner: string, session: string | null, reason: string}>}} Document
 */

const TICKET_MS = 15_000;
const CLAIM_MS = 5_000;
const CODES = /** @type {Record<string, string>} */ ({ released: "LEASE_RELEASED", expired: "LEASE_EXPIRED" });

export class Engine {
  epoch = "fake-epoch-1";
  sequence = 0;
  /** @type {Fields[]} */
  log = [];
  /** @type {Map<string, Document>} */
  documents = new Map();
  /** @type {(message: Fields, lock?: Lock) => void} tells a room */
  publish = () => {};
  /** @type {(ownerId: string, message: Fields, lock?: Lock) => void} tells one person */
  whisper = () => {};
  #leases = 0;

  /** @param {import("../../project-lock.js").ProjectLockClock} clock */
  constructor(clock) {
    this.clock = clock;
    this.handovers = new Handovers(this);
  }

  /**
   * @param {string} room
   * @param {string} document
   * @returns {Document}
   */
  document(room, document) {
    const key = JSON.stringify([room, document]);
    const found = this.documents.get(key) ?? { room, document, token: 0, version: null, lock: null, line: [], ended: new Map() };
    this.documents.set(key, found);
    return found;
  }

  /** @param {string} room */
  locksOf(room) {
    return [...this.documents.values()].flatMap(({ lock }) => (lock?.room === room ? [lock] : []));
  }

  /**
   * @param {Lock} lock
   * @param {Caller} viewer
   */
  view(lock, viewer) {
    const isPrivy = viewer.ownerId === lock.owner.ownerId || viewer.role === "admin";
    const now = this.clock.now();
    return {
      room: lock.room,
      document: lock.document,
      ...(isPrivy && { lease_id: lock.leaseId }),
      hold: lock.hold,
      fencing_token: lock.token,
      holder: { owner_id: lock.owner.ownerId, ...(isPrivy && { session_id: lock.session }), name: lock.owner.name, kind: lock.owner.kind },
      acquired_at: iso(lock.acquiredAt),
      expires_at: iso(lock.expiresAt),
      expires_in_ms: Math.max(0, lock.expiresAt - now),
      ttl_seconds: lock.ttl,
      activity: lock.activity,
      active_at: iso(lock.activeAt),
      metadata: lock.metadata,
      document_version: this.document(lock.room, lock.document).version,
    };
  }

  /**
   * @param {Lock} lock
   * @param {Caller} caller
   * @param {boolean} [resumed]
   */
  answer(lock, caller, resumed = false) {
    return { ...this.view(lock, caller), resumed, handovers: this.handovers.openFor(lock), server_time: iso(this.clock.now()) };
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  lock(caller, doc, fields) {
    const { session_id = null, ttl_seconds, metadata, document_version, takeover = false, expected_token } = fields;
    mustBeTtl(ttl_seconds);
    const { lock } = doc;
    if (lock && isSame(lock, caller, session_id)) {
      lock.hold += 1;
      Object.assign(lock, { ttl: ttl_seconds ?? lock.ttl, metadata: metadata ?? lock.metadata });
      this.#extend(lock);
      return this.answer(lock, caller, true);
    }
    if (lock) {
      const isYou = lock.owner.ownerId === caller.ownerId;
      const mayTake = isYou || caller.role === "admin" || caller.permissions.includes("takeover");
      const isExpected = expected_token === undefined || expected_token === lock.token;
      if (takeover && !mayTake) throw new Refusal(403, "ROLE_FORBIDS");
      if (!takeover || !isExpected) throw this.held(caller, doc, session_id);
      this.end(doc, "taken_over", caller.ownerId, undefined, false);
    }
    doc.version ??= document_version ?? null;
    return this.answer(this.grant(doc, caller, session_id, fields), caller);
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {string | null} session
   */
  held(caller, doc, session) {
    const lock = /** @type {Lock} */ (doc.lock);
    const ticket = doc.line.find((one) => one.caller.ownerId === caller.ownerId && one.session === session);
    return new Refusal(409, "LOCK_HELD", {
      lock: this.view(lock, caller),
      is_you: lock.owner.ownerId === caller.ownerId,
      retry_after_ms: lock.expiresAt - this.clock.now(),
      ...(ticket && { position: doc.line.indexOf(ticket) + 1 }),
    });
  }

  /**
   * @param {Document} doc
   * @param {Caller} owner
   * @param {string | null} session
   * @param {Fields} fields
   * @param {number} [livesMs] until it is claimed
   * @returns {Lock}
   */
  grant(doc, owner, session, { ttl_seconds: ttl = 30, metadata = null }, livesMs = ttl * 1000) {
    const now = this.clock.now();
    doc.token += 1;
    this.#leases += 1;
    /** @type {Lock} */
    const lock = {
      ...{ room: doc.room, document: doc.document, leaseId: `lease-${this.#leases}`, hold: 1, token: doc.token, owner, session },
      ...{ acquiredAt: now, expiresAt: 0, ttl, activity: "active", activeAt: now, metadata, lingers: false, keeper: null, timer: 0 },
    };
    doc.lock = lock;
    this.#live(lock, now + livesMs);
    this.append({ type: "DocumentLocked", room: doc.room, document: doc.document }, lock);
    return lock;
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  extend(caller, doc, fields) {
    mustBeTtl(fields.ttl_seconds);
    const lock = this.named(caller, doc, fields);
    lock.ttl = fields.ttl_seconds ?? lock.ttl;
    lock.metadata = fields.metadata ?? lock.metadata;
    this.#extend(lock);
    if (fields.activity && fields.activity !== lock.activity) {
      Object.assign(lock, { activity: fields.activity, activeAt: this.clock.now() });
      const { room, document, activity, activeAt } = lock;
      this.publish({ type: "LockActivity", room, document, activity, active_at: iso(activeAt) });
    }
    if (fields.document_version !== undefined && fields.document_version !== doc.version) this.#saved(doc, lock, fields.document_version);
    return this.answer(lock, caller);
  }

  /**
   * The server's own renewal, while the socket that keeps the lock is there.
   *
   * @param {Lock} lock
   */
  keep(lock) {
    this.#extend(lock);
    const { room, document, leaseId, expiresAt } = lock;
    const now = this.clock.now();
    return {
      ...{ type: "extended", room, document, lease_id: leaseId },
      ...{ expires_at: iso(expiresAt), expires_in_ms: expiresAt - now, server_time: iso(now) },
    };
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  unlock(caller, doc, fields) {
    const lock = this.named(caller, doc, fields);
    this.end(doc, "released", caller.ownerId, fields.document_version);
    return { document: doc.document, released: true, fencing_token: lock.token, server_time: iso(this.clock.now()) };
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  release(caller, doc, { linger_ms = 0, lease_id, hold }) {
    if (lease_id === undefined || hold === undefined) throw new Refusal(422, "INVALID_FIELD", { field: "hold" });
    const lock = this.named(caller, doc, { lease_id, hold, session_id: doc.lock?.session });
    if (linger_ms === 0) return this.unlock(caller, doc, { lease_id, session_id: lock.session });
    lock.lingers = true;
    lock.keeper = null;
    this.#live(lock, Math.min(lock.expiresAt, this.clock.now() + linger_ms));
    return this.answer(lock, caller);
  }

  /**
   * The caller's live lock that the fields name; refuses as docs/api.md says.
   *
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  named(caller, doc, { lease_id, session_id, hold }) {
    const { lock } = doc;
    const isMine = lock?.owner.ownerId === caller.ownerId;
    const fits =
      (lease_id === undefined || lock?.leaseId === lease_id) &&
      (session_id === undefined ? lease_id !== undefined || lock?.session === null : lock?.session === session_id) &&
      (hold === undefined || lock?.hold === hold);
    if (lock && isMine && fits) return lock;
    const ended = lease_id && doc.ended.get(lease_id);
    if (ended && ended.owner === caller.ownerId) throw new Refusal(409, CODES[ended.reason] ?? "LEASE_REVOKED");
    if (isMine) throw new Refusal(409, "LEASE_MISMATCH");
    throw lock ? new Refusal(403, "NOT_OWNER") : new Refusal(404, "LOCK_NOT_FOUND");
  }

  /**
   * @param {Document} doc
   * @param {string} reason
   * @param {string | null} by
   * @param {string} [version]
   * @param {boolean} [toTheLine] false if it goes to someone at once
   */
  end(doc, reason, by, version, toTheLine = true) {
    const lock = /** @type {Lock} */ (doc.lock);
    this.clock.clearTimeout(lock.timer);
    doc.lock = null;
    doc.version = version ?? doc.version;
    doc.ended.set(lock.leaseId, { owner: lock.owner.ownerId, session: lock.session, reason });
    const { room, document } = doc;
    const told = { type: "DocumentUnlocked", room, document, fencing_token: lock.token, reason, by, document_version: doc.version };
    this.append({ ...told, lease_id: lock.leaseId, owner_id: lock.owner.ownerId });
    if (reason !== "handed_over") this.handovers.moot(lock);
    if (toTheLine) this.serveLine(doc);
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   * @param {object} seat
   * @param {(lock: Lock) => void} notify
   */
  wait(caller, doc, { wait_ms: _, ...fields }, seat, notify) {
    const session = fields.session_id ?? null;
    if (!doc.lock || isSame(doc.lock, caller, session)) return { ...this.lock(caller, doc, fields), granted: true };
    let ticket = doc.line.find((one) => one.caller.ownerId === caller.ownerId && one.session === session);
    if (!ticket) doc.line.push((ticket = { caller, session, fields, expiresAt: 0, seat, notify, position: doc.line.length + 1 }));
    Object.assign(ticket, { seat, notify, expiresAt: Infinity });
    return { granted: false, position: doc.line.indexOf(ticket) + 1, server_time: iso(this.clock.now()) };
  }

  /**
   * @param {Caller} caller
   * @param {Document} doc
   * @param {Fields} fields
   */
  cancelWait(caller, doc, { session_id = null }) {
    const before = doc.line.length;
    doc.line = doc.line.filter((one) => one.caller.ownerId !== caller.ownerId || one.session !== session_id);
    this.#tellPositions(doc);
    return { cancelled: doc.line.length < before };
  }

  /**
   * Whoever stood in line by this socket has gone, and so has the place. One that stood by a request keeps it for a
   * moment, in which it may ask again.
   *
   * @param {object} seat
   * @param {{keepsPlace: boolean}} options
   */
  left(seat, { keepsPlace }) {
    for (const doc of this.documents.values()) {
      const ticket = doc.line.find((one) => one.seat === seat);
      if (!ticket) continue;
      Object.assign(ticket, { seat: null, expiresAt: this.clock.now() + TICKET_MS });
      if (!keepsPlace) doc.line = doc.line.filter((one) => one !== ticket);
      this.#tellPositions(doc);
    }
  }

  /** @param {Document} doc */
  serveLine(doc) {
    doc.line = doc.line.filter(({ expiresAt }) => expiresAt > this.clock.now());
    const next = doc.line.shift();
    if (next) next.notify(this.grant(doc, next.caller, next.session, next.fields, CLAIM_MS));
    this.#tellPositions(doc);
  }

  /** @param {Document} doc */
  #tellPositions({ room, document, line }) {
    line.forEach((ticket, index) => {
      if (ticket.position === index + 1) return;
      ticket.position = index + 1;
      this.whisper(ticket.caller.ownerId, { type: "LockWaiting", room, document, session_id: ticket.session, position: index + 1 });
    });
  }

  /**
   * @param {Fields} event
   * @param {Lock} [lock] that the event shows
   */
  append(event, lock) {
    this.sequence += 1;
    const owner = lock && { lease_id: lock.leaseId, owner_id: lock.owner.ownerId, fencing_token: lock.token, session_id: lock.session };
    // The lock as it was at that moment, for whoever reads the log later.
    const then = lock && { ...lock, owner: { ...lock.owner } };
    this.log.push({ ...event, ...owner, sequence: this.sequence, at: this.clock.now(), lock: then });
    this.publish({ sequence: this.sequence, ...event }, lock);
  }

  /**
   * @param {Document} doc
   * @param {Lock} lock
   * @param {string} version
   */
  #saved(doc, lock, version) {
    doc.version = version;
    const { room, document } = doc;
    const by = lock.owner.ownerId;
    this.append({ type: "DocumentSaved", room, document, fencing_token: lock.token, document_version: version, by });
  }

  /** @param {Lock} lock */
  #extend(lock) {
    lock.lingers = false;
    this.#live(lock, this.clock.now() + lock.ttl * 1000);
  }

  /**
   * @param {Lock} lock
   * @param {number} until
   */
  #live(lock, until) {
    this.clock.clearTimeout(lock.timer);
    lock.expiresAt = until;
    this.#expireIn(lock, until - this.clock.now());
  }

  /**
   * @param {Lock} lock
   * @param {number} ms
   */
  #expireIn(lock, ms) {
    lock.timer = this.clock.setTimeout(() => {
      const doc = this.document(lock.room, lock.document);
      if (doc.lock === lock) this.end(doc, lock.lingers ? "released" : "expired", lock.lingers ? lock.owner.ownerId : null);
    }, ms);
  }

  /** The server is away: nothing expires. */
  pause() {
    for (const { lock } of this.documents.values()) if (lock) this.clock.clearTimeout(lock.timer);
  }

  /** The server is back: whoever held a lock when it went has the whole ttl to come back. */
  goOn() {
    for (const { lock } of this.documents.values()) if (lock) this.#live(lock, this.clock.now() + (lock.lingers ? 3_000 : lock.ttl * 1000));
  }
}

/**
 * @param {Lock} lock
 * @param {Caller} caller
 * @param {string | null} session
 */
const isSame = (lock, caller, session) => session !== null && lock.owner.ownerId === caller.ownerId && lock.session === session;

/** @param {unknown} ttl */
function mustBeTtl(ttl) {
  if (ttl === undefined) return;
  if (!Number.isInteger(ttl) || Number(ttl) < 1 || Number(ttl) > 300) throw new Refusal(422, "INVALID_FIELD", { field: "ttl_seconds" });
}

/** @param {number} ms */
export const iso = (ms) => new Date(ms).toISOString();
