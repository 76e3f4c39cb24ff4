// The two things a lease can rest on, behind one face.

import { Lifetime } from "./timing.js";

/**
 * @typedef {object} Hold
 * @property {string} leaseId
 * @property {"web-lock" | "file-lock"} strategy
 * @property {number} ttlMillis
 * @property {Lifetime} lifetime the one it was granted with
 * @property {Promise<unknown>} [stolen] resolves when the browser has taken it away
 * @property {(lifetime: Lifetime, span: number) => Promise<Lifetime>} extend
 * @property {(lifetime: Lifetime) => Promise<void>} free gives it back; may fail, and be tried again
 * @property {() => void} drop lets go of what has run out
 */

export const WEB_LEASE_MS = 25_000;
export const FILE_LEASE_MS = 30_000;

/** @implements {Hold} */
export class WebHold {
  strategy = /** @type {const} */ ("web-lock");
  ttlMillis = WEB_LEASE_MS;
  #clock;
  #lock;

  /**
   * @param {import("../project-lock.js").ProjectLockClock} clock
   * @param {string} leaseId
   * @param {import("./web_lock.js").WebLock} lock
   */
  constructor(clock, leaseId, lock) {
    this.#clock = clock;
    this.#lock = lock;
    this.leaseId = leaseId;
    this.stolen = lock.stolen;
    this.lifetime = new Lifetime(clock, WEB_LEASE_MS);
  }

  /**
   * @param {Lifetime} lifetime
   * @param {number} span
   */
  async extend(lifetime, span) {
    // Nobody else reads the lease of a Web Lock: it is ours until we let go.
    return new Lifetime(this.#clock, span, lifetime.expiresAt);
  }

  async free() {
    await this.#lock.free();
  }

  drop() {
    this.#lock.free();
  }
}

/** @implements {Hold} */
export class FileHold {
  strategy = /** @type {const} */ ("file-lock");
  ttlMillis = FILE_LEASE_MS;
  #context;

  /**
   * @param {{file: import("./lock_file.js").LockFile, ownerId: string}} context
   * @param {string} leaseId
   * @param {Lifetime} lifetime
   */
  constructor(context, leaseId, lifetime) {
    this.#context = context;
    this.leaseId = leaseId;
    this.lifetime = lifetime;
  }

  /**
   * @param {Lifetime} lifetime
   * @param {number} span
   */
  extend(lifetime, span) {
    const { file, ownerId } = this.#context;
    return file.extend({ leaseId: this.leaseId, ownerId, span, lifetime });
  }

  /** @param {Lifetime} lifetime */
  free(lifetime) {
    return this.#context.file.remove({ leaseId: this.leaseId, lifetime });
  }

  drop() {
    // Overdue or someone else's: either way not ours to remove.
  }
}
