/**
 * @typedef {import("../project-lock.js").ProjectLockManager} ProjectLockManager
 * @typedef {{free: () => Promise<void>, stolen: Promise<unknown>}} WebLock
 */

/**
 * Asks for the Web Lock and answers at once: `null` when someone else has it. It is held until `free` is called.
 *
 * The request is not queued. `ifAvailable` tells a lock that is held from a lock manager that does not answer, and only
 * the second is a reason to fall back: the file must not become a way around a lock that someone holds.
 *
 * @param {ProjectLockManager} manager
 * @param {string} name
 * @returns {Promise<WebLock | null>}
 */
export function requestWebLock(manager, name) {
  return new Promise((resolve, reject) => {
    /** @type {Promise<unknown>} */
    const whole = manager.request(name, { mode: "exclusive", ifAvailable: true }, (lock) => {
      if (lock === null) return resolve(null);
      return new Promise((letGo) => {
        const free = async () => {
          letGo(undefined);
          // The request settles once the browser has freed the lock, so that whoever asks next gets it.
          await whole.catch(() => {});
        };
        // A request that was granted fails only if someone steals its lock.
        const stolen = new Promise((resolveStolen) => whole.catch(resolveStolen));
        resolve({ free, stolen });
      });
    });
    whole.catch(reject);
  });
}

/**
 * Whether anyone in this browser holds the Web Lock; `false` where the lock manager cannot say.
 *
 * @param {ProjectLockManager} manager
 * @param {string} name
 */
export async function isWebLockHeld(manager, name) {
  try {
    const { held } = await manager.query();
    return (held ?? []).some((lock) => lock.name === name);
  } catch {
    return false;
  }
}
