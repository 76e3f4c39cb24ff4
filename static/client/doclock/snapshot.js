/**
 * @typedef {import("../doclock.js").LockReason} LockReason
 * @typedef {import("../doclock.js").LockSnapshot} LockSnapshot
 * @typedef {"idle" | "acquiring" | "waiting" | "held" | "releasing" | "readonly"} OwnState
 */

/**
 * What a lock shows: what this page has or wants of it, and what the room says.
 *
 * @param {{state: OwnState, reason: LockReason | null, by: string | null, documentVersion: string | null, position: number | null,
 *   held: import("./held.js").Held | undefined, local: import("./local.js").LocalHold | undefined, asks: import("./asks.js").Asks}} own
 * @param {import("../doclock.js").RoomLock | undefined} lock
 * @param {import("./client.js").Client} client
 * @returns {LockSnapshot}
 */
export function snapshotOf({ state, held: kept, local, asks, ...own }, lock, { connection, page }) {
  // One whose time is over may still be confirmed, but nobody may act on it until then.
  const held = state === "readonly" ? undefined : kept;
  const lease = held?.lease ?? local?.lease ?? null;
  const canEdit = state === "held";
  return {
    ...own,
    state: canEdit && held?.isRenewing ? "renewing" : state,
    canEdit,
    lease,
    fencingToken: held?.lease.fencingToken ?? null,
    holder: lock?.holder ?? null,
    holderToken: lock?.fencingToken ?? null,
    isYou: lease !== null || (lock?.isYou ?? false),
    activity: lease ? page.activity : (lock?.activity ?? null),
    activeAt: lock?.activeAt ?? null,
    asks: asks.open,
    asked: asks.own,
    deadlineMs: held?.deadlineMs ?? null,
    isLocal: local !== undefined,
    connection: connection.state,
    connectionLost: connection.isLost,
  };
}
