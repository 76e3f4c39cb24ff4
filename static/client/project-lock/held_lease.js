// One lease from its grant to its end: heartbeats, renewing, expiry, release.

import { asFailure, failure } from "./errors.js";
import { ANSWER_MS, sleep, within } from "./timing.js";

/**
 * @typedef {import("../project-lock.js").ProjectLockLease} ProjectLockLease
 * @typedef {import("../project-lock.js").ProjectLockError} ProjectLockError
 * @typedef {import("../project-lock.js").ProjectLockErrorCode} ProjectLockErrorCode
 * @typedef {import("../project-lock.js").ProjectLockOperation} ProjectLockOperation
 * @typedef {import("../project-lock.js").ProjectLockReadonlyReason} ProjectLockReadonlyReason
 * @typedef {import("../project-lock.js").ProjectLockReleaseOptions} ProjectLockReleaseOptions
 * @typedef {import("./holds.js").Hold} Hold
 * @typedef {import("./service.js").Context} Context
 * @typedef {"released" | "given-up" | "expired" | "stale"} Ending
 */

/** The heartbeat is due this long before the lease ends. */
const HEARTBEAT_LEAD_MS = 5_000;

/** A heartbeat this late is worth a warning: browsers delay the timers of hidden pages by up to a second. */
const LATE_MS = 1_000;

/** Timers may stand still while a laptop sleeps. Looking this often, a page soon knows that it has slept. */
const LOOK_EVERY_MS = 1_000;

const RENEW_TRIES = 2;
const RENEW_DELAY_MS = 500;
const RELEASE_DELAYS_MS = [500, 1_000, 2_000];

export class HeldLease {
  #context;
  #hold;
  #lifetime;
  #autoRenew;
  #renewIntervalMs;
  /** @type {unknown} */
  #timer;
  #isReadonly = false;
  #isRenewing = false;
  /** @type {Promise<unknown>} */
  #lastRenewal = Promise.resolve();
  /** @type {Promise<void> | undefined} */
  #release;
  /** @type {{how: Ending, error: ProjectLockError} | undefined} */
  #end;
  /** @type {() => void} */
  #resolveLost = () => {};

  /** Resolves when the lease has run out or was taken away. */
  lost = new Promise((/** @type {(nothing: void) => void} */ resolve) => {
    this.#resolveLost = resolve;
  });

  /**
   * Called with the error when this lease turns read-only.
   *
   * @type {(error: ProjectLockError) => void}
   */
  onReadonly = () => {};

  /**
   * @param {Context} context
   * @param {Hold} hold
   * @param {{autoRenew?: boolean, renewIntervalMs?: number}} options
   */
  constructor(context, hold, { autoRenew = false, renewIntervalMs = Infinity }) {
    this.#context = context;
    this.#hold = hold;
    this.#lifetime = hold.lifetime;
    this.#autoRenew = autoRenew;
    this.#renewIntervalMs = renewIntervalMs;
    const viaFallback = hold.strategy === "file-lock";
    /** @type {ProjectLockLease} */
    this.lease = Object.freeze({
      leaseId: hold.leaseId,
      ownerId: context.ownerId,
      acquiredAt: context.clock.now(),
      expiresAt: hold.lifetime.expiresAt,
      ttlMillis: hold.ttlMillis,
      source: viaFallback ? "opfs-lock" : "web-lock",
      strategy: hold.strategy,
      viaFallback,
    });
  }

  /** How the lease ended; nothing while it has not. */
  get ending() {
    return this.#end?.how;
  }

  /** Whether the caller may count on it: neither ended, nor being released, nor read-only. */
  get isGood() {
    return !this.#end && !this.#release && !this.#isReadonly;
  }

  /** Tells that the lease was acquired, and watches over it from now on. */
  start() {
    this.#context.tell({ type: "lock:acquired", lease: this.lease });
    this.#tellSchedule();
    this.#watch();
    this.#hold.stolen?.then(() => {
      if (!this.#end && !this.#release) this.#lose(failure("lease-stale", "renew", "The Web Lock was stolen"));
    });
  }

  /** From now on the lease runs out unless it is renewed by a call. */
  stopHeartbeat() {
    this.#autoRenew = false;
  }

  /** Notices an expiry that no timer has noticed yet. */
  checkExpiry() {
    if (!this.#end && !this.#release && this.#lifetime.isOver()) this.#expire();
  }

  /** Lets go of a read-only lease whose caller wants a new one. */
  giveUp() {
    this.#finish("given-up", failure("lease-mismatch", "renew", "The lease was given up"));
    this.#hold.drop();
  }

  /**
   * @param {number} [span] how long from now; as long as the lease was granted for if not given
   * @returns {Promise<ProjectLockLease>}
   */
  renew(span = this.#hold.ttlMillis) {
    const renewal = this.#lastRenewal.then(async () => {
      this.#isRenewing = true;
      try {
        return await this.#renew(span);
      } finally {
        this.#isRenewing = false;
      }
    });
    this.#lastRenewal = renewal.catch(() => {});
    return renewal;
  }

  /** @param {number} span */
  async #renew(span) {
    this.#mustNotBeRefused();
    for (let tries = 1; ; tries += 1) {
      this.#mustNotHaveEnded();
      this.#context.tell({ type: "lock:attempt", strategy: this.#hold.strategy, retry: tries - 1 });
      try {
        const lifetime = await this.#within(this.#hold.extend(this.#lifetime, span));
        this.#mustNotHaveEnded();
        return this.#renewed(lifetime);
      } catch (error) {
        if (this.#end) throw this.#end.error;
        const known = asFailure(error, "renew");
        if (known.code === "lease-stale") throw this.#lose(known);
        this.#tellError(known, "renew");
        if (this.#release) throw known;
        if (tries === RENEW_TRIES) throw this.#renewFailed(known);
        this.#context.tell({ type: "lock:warning", warning: "heartbeat-delayed", lease: this.lease });
        await sleep(this.#context.clock, RENEW_DELAY_MS);
      }
    }
  }

  /** Fails, and says so, for a lease that cannot be renewed any more. */
  #mustNotBeRefused() {
    if (this.#end) throw this.#told(this.#end.error.code, "renew", this.#end.error.message);
    if (this.#release) throw this.#told("lease-mismatch", "renew", "The lease is being released");
    if (this.#isReadonly) throw this.#told("lease-stale", "renew", "The lease is read-only; acquire a new one");
  }

  /** Fails for a lease that has ended while it was being renewed, of which everyone was told then. */
  #mustNotHaveEnded() {
    this.checkExpiry();
    if (this.#end) throw this.#end.error;
  }

  /** @param {import("./timing.js").Lifetime} lifetime */
  #renewed(lifetime) {
    this.#lifetime = lifetime;
    this.lease = Object.freeze({ ...this.lease, expiresAt: lifetime.expiresAt });
    this.#tellSchedule();
    this.#context.tell({ type: "lock:renewed", lease: this.lease });
    return this.lease;
  }

  /** @param {ProjectLockError} cause */
  #renewFailed(cause) {
    const error = failure("renew-failed", "renew", "The project lock could not be renewed", cause);
    this.#enterReadonly("renew-failed", cause, error);
    return error;
  }

  /**
   * Gives the lease back. Calling it again joins the release that is under way.
   *
   * @param {Pick<ProjectLockReleaseOptions, "reason" | "force">} options
   */
  release(options) {
    this.#release ??= this.#releaseWithRetries(options);
    return this.#release;
  }

  /** @param {Parameters<HeldLease["release"]>[0]} options */
  async #releaseWithRetries({ reason = "completed", force = false }) {
    this.#context.clock.clearTimeout(this.#timer);
    this.#context.tell({ type: "lock:release-requested", lease: this.lease, reason });
    await this.#lastRenewal;
    if (this.#end) return;
    for (let tries = 0; ; tries += 1) {
      try {
        await this.#within(this.#hold.free(this.#lifetime));
        return this.#released();
      } catch (error) {
        const known = asFailure(error, "release");
        this.#tellError(known, "release");
        if (force) return this.#released();
        if (tries === RELEASE_DELAYS_MS.length) throw this.#releaseFailed(known);
        await sleep(this.#context.clock, RELEASE_DELAYS_MS[tries]);
      }
    }
  }

  #released() {
    this.#finish("released", failure("lease-mismatch", "renew", "The lease has been released"));
    this.#context.tell({ type: "lock:released", lease: this.lease });
  }

  /** @param {ProjectLockError} cause */
  #releaseFailed(cause) {
    const error = failure("release-failed", "release", "The project lock could not be released", cause);
    this.giveUp();
    this.#enterReadonly("release-failed", cause, error);
    return error;
  }

  #expire() {
    const error = failure("lease-expired", "renew", "The lease has expired");
    // Whoever lets a lease run out has lost nothing. Whoever wanted to keep it must stop writing.
    const wasWanted = (this.#autoRenew || this.#isRenewing) && !this.#isReadonly;
    this.#finish("expired", error);
    this.#hold.drop();
    this.#context.tell({ type: "lock:expired", lease: this.lease });
    if (!wasWanted) return;
    this.#tellError(error, "renew");
    this.#enterReadonly("lease-stale", error, error);
  }

  /** @param {ProjectLockError} error */
  #lose(error) {
    this.#finish("stale", error);
    this.#hold.drop();
    this.#tellError(error, "renew");
    this.#enterReadonly("lease-stale", error, error);
    return error;
  }

  /**
   * @param {Ending} how
   * @param {ProjectLockError} error what a later renewal fails with
   */
  #finish(how, error) {
    this.#context.clock.clearTimeout(this.#timer);
    this.#end = { how, error };
    if (how === "expired" || how === "stale") this.#resolveLost();
  }

  /**
   * @param {ProjectLockReadonlyReason} reason
   * @param {ProjectLockError} lastError
   * @param {ProjectLockError} error what the caller gets
   */
  #enterReadonly(reason, lastError, error) {
    if (this.#isReadonly && reason !== "release-failed") return;
    this.#isReadonly = true;
    this.#context.enterReadonly(reason, lastError);
    this.onReadonly(error);
  }

  #watch() {
    const ms = Math.max(0, Math.min(LOOK_EVERY_MS, this.#untilHeartbeat(), this.#lifetime.left()));
    this.#timer = this.#context.clock.setTimeout(() => this.#look(), ms);
  }

  #look() {
    this.checkExpiry();
    if (this.#end || this.#release) return;
    const untilHeartbeat = this.#untilHeartbeat();
    if (untilHeartbeat <= 0) this.#heartbeat(-untilHeartbeat);
    this.#watch();
  }

  /** How long until the next heartbeat, which never comes if nobody wants one or one is running. */
  #untilHeartbeat() {
    const isWanted = this.#autoRenew && !this.#isRenewing && !this.#isReadonly;
    return isWanted ? this.#heartbeatAfter() - this.#lifetime.elapsed() : Infinity;
  }

  #heartbeatAfter() {
    return Math.max(0, Math.min(this.#renewIntervalMs, this.#lifetime.span - HEARTBEAT_LEAD_MS));
  }

  /** @param {number} lateBy */
  #heartbeat(lateBy) {
    if (lateBy > LATE_MS) this.#context.tell({ type: "lock:warning", warning: "heartbeat-delayed", lease: this.lease });
    this.#isRenewing = true;
    // Its failure is told by events, and by the lease turning read-only.
    this.renew().catch(() => {});
  }

  #tellSchedule() {
    const nextHeartbeatInMs = this.#heartbeatAfter();
    this.#context.tell({ type: "lock:renew-scheduled", lease: this.lease, nextHeartbeatInMs });
  }

  /**
   * @param {ProjectLockError} error
   * @param {ProjectLockOperation} operation
   */
  #tellError(error, operation) {
    this.#context.tell({ type: "lock:error", operation, error, retryable: error.retryable });
  }

  /**
   * @param {ProjectLockErrorCode} code
   * @param {ProjectLockOperation} operation
   * @param {string} message
   */
  #told(code, operation, message) {
    const error = failure(code, operation, message);
    this.#tellError(error, operation);
    return error;
  }

  /**
   * @template T
   * @param {Promise<T>} answer
   */
  #within(answer) {
    return within(this.#context.clock, ANSWER_MS, answer);
  }
}
