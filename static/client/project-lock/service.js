// The service: at most one lease at a time, and who is told of what.

import { Acquisition } from "./acquire.js";
import { failure } from "./errors.js";
import { Subscribers } from "./events.js";
import { HeldLease } from "./held_lease.js";
import { LockFile } from "./lock_file.js";
import { MAX_LEASE_MS } from "./lock_record.js";
import { systemClock } from "./timing.js";

/**
 * @typedef {import("../project-lock.js").CreateProjectLocksOptions} CreateProjectLocksOptions
 * @typedef {import("../project-lock.js").ProjectLockAcquireOptions} ProjectLockAcquireOptions
 * @typedef {import("../project-lock.js").ProjectLockClock} ProjectLockClock
 * @typedef {import("../project-lock.js").ProjectLockError} ProjectLockError
 * @typedef {import("../project-lock.js").ProjectLockErrorCode} ProjectLockErrorCode
 * @typedef {import("../project-lock.js").ProjectLockEvent} ProjectLockEvent
 * @typedef {import("../project-lock.js").ProjectLockLease} ProjectLockLease
 * @typedef {import("../project-lock.js").ProjectLockManager} ProjectLockManager
 * @typedef {import("../project-lock.js").ProjectLockOperation} ProjectLockOperation
 * @typedef {import("../project-lock.js").ProjectLockReadonlyReason} ProjectLockReadonlyReason
 */

/**
 * What the parts of the service share.
 *
 * @typedef {object} Context
 * @property {ProjectLockClock} clock
 * @property {string} name of the Web Lock
 * @property {string} ownerId
 * @property {() => string} newId
 * @property {() => ProjectLockManager | undefined} manager
 * @property {LockFile} file
 * @property {(event: ProjectLockEvent) => void} tell
 * @property {(error: ProjectLockError) => void} tellFallback
 * @property {(reason: ProjectLockReadonlyReason, lastError: ProjectLockError) => void} enterReadonly
 */

export class ProjectLockService {
  #options;
  #subscribers;
  /** @type {Context | undefined} */
  #sharedContext;
  /** @type {HeldLease | undefined} the last one, which may have ended */
  #held;
  /** @type {Promise<unknown>} */
  #lastRelease = Promise.resolve();
  #isAcquiring = false;
  #hasToldFallback = false;

  /** @param {CreateProjectLocksOptions} options */
  constructor(options) {
    this.#options = options;
    this.#subscribers = new Subscribers(options.onListenerError ?? ((error) => console.error(error)));
  }

  /** @type {import("../project-lock.js").ProjectLocks["subscribeLockEvents"]} */
  subscribe(listener) {
    return this.#subscribers.subscribe(listener);
  }

  /** @param {ProjectLockAcquireOptions} options */
  async acquire(options = {}) {
    const { lease } = await this.#acquire(options);
    return { lease, didFallback: lease.viaFallback };
  }

  /** @param {ProjectLockAcquireOptions} options */
  async #acquire(options) {
    this.#held?.checkExpiry();
    if (this.#isAcquiring || this.#held?.isGood) {
      throw this.#told("lease-mismatch", "acquire", "This service holds the project lock, or is acquiring it");
    }
    this.#isAcquiring = true;
    try {
      await this.#lastRelease;
      const before = this.#held;
      if (before && !before.ending) before.giveUp();
      const hold = await new Acquisition(this.#context, options, before?.lease.leaseId).run();
      if (hold.strategy === "web-lock") this.#hasToldFallback = false;
      const held = new HeldLease(this.#context, hold, options);
      this.#held = held;
      held.start();
      return held;
    } finally {
      this.#isAcquiring = false;
    }
  }

  /** @param {import("../project-lock.js").ProjectLockRenewOptions} options */
  async renew({ lease, extendByMs }) {
    if (extendByMs !== undefined && !(extendByMs > 0 && extendByMs <= MAX_LEASE_MS)) {
      throw new RangeError(`extendByMs must be more than 0 and at most ${MAX_LEASE_MS}`);
    }
    const held = this.#heldAs(lease);
    if (!held) throw this.#told("lease-mismatch", "renew", "This service does not hold that lease");
    return held.renew(extendByMs);
  }

  /** @param {import("../project-lock.js").ProjectLockReleaseOptions} options */
  async release({ lease, reason, force }) {
    const held = this.#heldAs(lease);
    if (!held) {
      // One of our own before the last: it has ended long since, and releasing twice is no error.
      if (lease.ownerId === this.#context.ownerId) return;
      throw this.#told("lease-mismatch", "release", "This service does not hold that lease");
    }
    held.checkExpiry();
    if (held.ending === "expired" && !force) throw this.#told("lease-expired", "release", "The lease has expired");
    if (held.ending) return;
    const release = held.release({ reason, force });
    this.#lastRelease = release.catch(() => {});
    await release;
  }

  /**
   * @template T
   * @param {import("../project-lock.js").WithProjectLockOptions} options
   * @param {import("../project-lock.js").ProjectLockWork<T>} work
   */
  async with({ onReadonly, ...options }, work) {
    let isToldOf = false;
    const subscription = this.subscribe((event) => {
      if (event.type !== "lock:readonly-entered" || isToldOf) return;
      isToldOf = true;
      return onReadonly?.(event);
    });
    try {
      const held = await this.#acquire({ ...options, autoRenew: true });
      return await this.#workWith(held, options.signal, work);
    } finally {
      subscription.unsubscribe();
    }
  }

  /**
   * Runs the work under the lease, and releases it when the work is done. A work that goes on after it was told to end
   * is waited for as long as the lease is good: until then nobody else may write.
   *
   * @template T
   * @param {HeldLease} held
   * @param {AbortSignal | undefined} signal
   * @param {import("../project-lock.js").ProjectLockWork<T>} work
   */
  async #workWith(held, signal, work) {
    const ending = new AbortController();
    /** @type {ProjectLockError | undefined} */
    let lockError;
    held.onReadonly = (error) => {
      lockError ??= error;
      ending.abort(error);
    };
    const abort = () => {
      held.stopHeartbeat();
      ending.abort(signal?.reason);
    };
    signal?.addEventListener("abort", abort);
    // Aborted by someone who was told of the grant: too late to stop that, and too early for the listener.
    if (signal?.aborted) abort();
    const [outcome] = await Promise.race([
      Promise.allSettled([Promise.resolve().then(() => work(held.lease, { signal: ending.signal }))]),
      held.lost.then(() => []),
    ]);
    signal?.removeEventListener("abort", abort);
    held.checkExpiry();
    // A release that fails does not undo the work; events and `onReadonly` tell of it.
    held.onReadonly = () => {};
    const reason = outcome?.status === "fulfilled" ? "completed" : "aborted";
    if (!held.ending) await this.release({ lease: held.lease, reason }).catch(() => {});
    if (outcome?.status === "rejected") throw outcome.reason;
    if (lockError) throw lockError;
    if (outcome) return outcome.value;
    throw failure("web-lock-aborted", "renew", "The work was aborted, and did not end before its lease did", signal?.reason);
  }

  /** @param {ProjectLockLease} lease */
  #heldAs(lease) {
    return this.#held?.lease.leaseId === lease.leaseId ? this.#held : undefined;
  }

  /** Made at first use, so that making a service touches nothing. */
  get #context() {
    this.#sharedContext ??= this.#makeContext();
    return this.#sharedContext;
  }

  /** @returns {Context} */
  #makeContext() {
    const { clock = systemClock, random = () => crypto.randomUUID(), directory, lockName = "project-lock" } = this.#options;
    const navigator = /** @type {CreateProjectLocksOptions["navigator"]} */ (this.#options.navigator ?? globalThis.navigator);
    const root = async () => {
      const found = typeof directory === "function" ? await directory() : directory;
      return found ?? /** @type {StorageManager} */ (navigator?.storage).getDirectory();
    };
    return {
      clock,
      name: lockName,
      ownerId: random(),
      newId: random,
      manager: () => navigator?.locks,
      file: new LockFile(root, clock),
      tell: (event) => this.#subscribers.tell(event),
      tellFallback: (error) => this.#tellFallback(error),
      enterReadonly: (reason, lastError) => this.#enterReadonly(reason, lastError),
    };
  }

  /**
   * Told once, until Web Locks have worked again: an editor that saves every few seconds would say it each time.
   *
   * @param {ProjectLockError} error
   */
  #tellFallback(error) {
    if (this.#hasToldFallback) return;
    this.#hasToldFallback = true;
    this.#subscribers.tell({ type: "lock:warning", warning: "fallback-engaged", error });
  }

  /**
   * @param {ProjectLockReadonlyReason} reason
   * @param {ProjectLockError} lastError
   */
  #enterReadonly(reason, lastError) {
    this.#subscribers.tell({ type: "lock:readonly-entered", reason, lastError });
    const record = { name: /** @type {const} */ ("autosave.lock.readonly"), reason, at: this.#context.clock.now() };
    this.#subscribers.guarded(() => this.#options.onTelemetry?.(record));
  }

  /**
   * @param {ProjectLockErrorCode} code
   * @param {ProjectLockOperation} operation
   * @param {string} message
   */
  #told(code, operation, message) {
    const error = failure(code, operation, message);
    this.#subscribers.tell({ type: "lock:error", operation, error, retryable: error.retryable });
    return error;
  }
}
