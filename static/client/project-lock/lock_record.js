// What is in `project/.lock`, and what that means for someone who wants the lock.

/**
 * @typedef {{kind: "none"} | {kind: "unreadable", why: string}
 *   | {kind: "record", leaseId: string, ownerId: string, expiresAt: number, writtenAt: number}} Found
 * @typedef {{kind: "free"} | {kind: "unreadable", why: string} | {kind: "taken", leftMs: number}} Verdict
 */

/** A record has about 150 characters; what is larger is not read. */
const MAX_BYTES = 4_096;

/** No lease lasts longer than this from the moment it is written. */
export const MAX_LEASE_MS = 300_000;

/**
 * @param {File} file
 * @returns {Promise<Found>}
 */
export async function parse(file) {
  // Made by someone who has not written yet, or who was gone before.
  if (file.size === 0) return { kind: "none" };
  if (file.size > MAX_BYTES) return { kind: "unreadable", why: `it has ${file.size} bytes` };
  const text = await file.text();
  try {
    const { leaseId, ownerId, expiresAt } = JSON.parse(text);
    if (typeof leaseId === "string" && typeof ownerId === "string" && Number.isFinite(expiresAt)) {
      return { kind: "record", leaseId, ownerId, expiresAt, writtenAt: file.lastModified ?? 0 };
    }
    return { kind: "unreadable", why: "it lacks leaseId, ownerId or expiresAt" };
  } catch {
    return { kind: "unreadable", why: "it is not JSON" };
  }
}

/**
 * Overdue, ours or no lock file: free to take. Anyone else's: taken until it is overdue.
 *
 * @param {Found} found
 * @param {number} now
 * @param {string} [mine] the lease this service held before
 * @returns {Verdict}
 */
export function judge(found, now, mine) {
  if (found.kind === "none") return { kind: "free" };
  if (found.kind === "unreadable") return found;
  if (found.leaseId === mine || now >= found.expiresAt) return { kind: "free" };
  // Compared with the later of the two: after the clock was set back, a good record looks as if it came from the future,
  // and its holder still counts on it.
  if (found.expiresAt > Math.max(now, found.writtenAt) + MAX_LEASE_MS) {
    return { kind: "unreadable", why: "no lease lasts that long" };
  }
  return { kind: "taken", leftMs: found.expiresAt - now };
}
