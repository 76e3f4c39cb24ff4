// Locks among the tabs of this browser, while the server is away. Loaded only where `offline: "local"` asks for it.

import { createProjectLocks } from "../project-lock.js";

/** @typedef {{lease: import("../doclock.js").DocLockLease, release(): Promise<void>}} LocalHold */

/**
 * @param {{room: string, document: string, onLost: () => void, clock: import("../project-lock.js").ProjectLockClock,
 *   navigator: import("../doclock.js").CreateDocLockOptions["navigator"], session: string}} options
 * @returns {Promise<LocalHold | undefined>} nothing if another tab has it
 */
export async function holdLocally({ room, document, onLost, clock, navigator, session }) {
  // A JSON list: no two documents share a name, whatever is in theirs.
  const locks = createProjectLocks({ navigator, clock, lockName: `doclock ${JSON.stringify([room, document])}` });
  try {
    const { lease } = await locks.acquireProjectLock({ autoRenew: true, retryPolicy: { maxAttempts: 1 } });
    locks.subscribeLockEvents(({ type }) => type === "lock:readonly-entered" && onLost());
    const { leaseId, ownerId, acquiredAt, expiresAt, ttlMillis, source, strategy, viaFallback } = lease;
    return {
      lease: Object.freeze({
        ...{ leaseId, ownerId, acquiredAt, expiresAt, ttlMillis, source, strategy, viaFallback },
        ...{ room, document, sessionId: session, hold: 1, fencingToken: 0, metadata: null },
      }),
      release: () => locks.releaseProjectLock({ lease, force: true }).catch(() => {}),
    };
  } catch {
    return undefined;
  }
}
