// The server's words, as this client shows them: camelCase, frozen, times in milliseconds.

/**
 * @typedef {import("../doclock.js").DocLockLease} DocLockLease
 * @typedef {import("../doclock.js").HandoverAsk} HandoverAsk
 * @typedef {import("../doclock.js").Holder} Holder
 * @typedef {import("../doclock.js").Participant} Participant
 * @typedef {import("../doclock.js").RoomLock} RoomLock
 * @typedef {Record<string, any>} Message
 */

/** @param {string | null | undefined} text */
const time = (text) => (text ? Date.parse(text) : null);

/**
 * @param {Message} holder
 * @returns {Holder}
 */
const holderOf = ({ owner_id, session_id, name, kind }) =>
  Object.freeze({ ownerId: owner_id, sessionId: session_id ?? null, name: name ?? null, kind: kind ?? "person" });

/**
 * @param {Message} lock
 * @param {string | null} me
 * @returns {RoomLock}
 */
export const roomLock = (lock, me) =>
  Object.freeze({
    document: lock.document,
    fencingToken: lock.fencing_token,
    holder: holderOf(lock.holder),
    isYou: lock.holder.owner_id === me,
    acquiredAt: Date.parse(lock.acquired_at),
    expiresAt: Date.parse(lock.expires_at),
    activity: lock.activity ?? "active",
    activeAt: time(lock.active_at),
    metadata: lock.metadata ?? null,
    documentVersion: lock.document_version ?? null,
  });

/**
 * @param {Message} lock
 * @returns {DocLockLease}
 */
export const leaseOf = (lock) =>
  Object.freeze({
    leaseId: lock.lease_id,
    hold: lock.hold,
    room: lock.room,
    document: lock.document,
    fencingToken: lock.fencing_token,
    ownerId: lock.holder.owner_id,
    sessionId: lock.holder.session_id,
    acquiredAt: Date.parse(lock.acquired_at),
    expiresAt: Date.parse(lock.expires_at),
    ttlMillis: lock.ttl_seconds * 1000,
    metadata: lock.metadata ?? null,
    source: /** @type {const} */ ("server"),
    strategy: /** @type {const} */ ("server"),
    viaFallback: false,
  });

/**
 * @param {Message} participant
 * @param {string | null} me
 * @returns {Participant}
 */
export const participantOf = ({ owner_id, name }, me) =>
  Object.freeze({ ownerId: owner_id, name: name ?? null, isYou: owner_id === me });

/**
 * @param {Message} ask
 * @returns {HandoverAsk}
 */
export const askOf = ({ handover_id, by, message }) =>
  Object.freeze({
    handoverId: handover_id,
    by: Object.freeze(typeof by === "string" ? { ownerId: by, name: null } : { ownerId: by.owner_id, name: by.name ?? null }),
    message: message ?? null,
  });
