// One document's lock, seen from this page. Its states:
//
//   idle -> acquiring -> held <-> renewing      a lock of this page; `renewing` while a heartbeat is on its way
//                |        | |
//             waiting     | +-> readonly        lost; or, as `offline`, in doubt until the server says
//                         +---> releasing -> idle
//
// Acquiring and releasing go one after the other, however they are called: a view that is mounted twice must not release
// what its second life has just acquired. Nothing here takes a lost lock back by itself.

import { Stopwatch, sleep } from "../project-lock/timing.js";
import { Asks } from "./asks.js";
import { DocLockError, during, endingOf, isTrouble } from "./errors.js";
import { Held } from "./held.js";
import { Store } from "./store.js";

/**
 * @typedef {import("../doclock.js").AcquireOptions} AcquireOptions
 * @typedef {import("../doclock.js").DocLockLease} DocLockLease
 * @typedef {import("../doclock.js").LockOptions} LockOptions
 * @typedef {import("../doclock.js").LockReason} LockReason
 * @typedef {import("../doclock.js").LockSnapshot} LockSnapshot
 * @typedef {import("../doclock.js").VersionOrSave} VersionOrSave
 * @typedef {import("./wire.js").Message} Message
 * @typedef {{reply: Message, watch: Stopwatch}} Answer a reply, and the time since before it was asked for
 * @typedef {"idle" | "acquiring" | "waiting" | "held" | "releasing" | "readonly"} OwnState
 */

const RETRY_DELAYS_MS = [500, 1_000];
/** Between two requests that stand in line by HTTP, if the server answers at once. */
const POLL_PAUSE_MS = 1_000;

export class Lock {
  /** @type {LockOptions} */
  options = {};
  store;
  #client;
  #room;
  #document;
  /** @type {OwnState} */
  #state = "idle";
  /** @type {LockReason | null} */
  #reason = null;
  /** @type {string | null} */
  #by = null;
  /** @type {Held | undefined} */
  #held;
  /** @type {import("./local.js").LocalHold | undefined} */
  #local;
  /** @type {number | undefined} the token that was lost, whose ending may yet be explained */
  #lostToken;
  /** @type {number | null} */
  #position = null;
  /** @type {string | null} */
  #documentVersion = null;
  /** @type {Promise<unknown>} */
  #tail = Promise.resolve();
  /** @type {AbortController | undefined} ends the acquiring that is under way */
  #acquiring;
  /** @type {((message?: Message) => void) | undefined} */
  #turn;
  /** @type {(() => void) | undefined} */
  #unwatch;
  /** @type {unknown} */
  #idleTimer;
  /** @type {Set<AbortController>} aborted when this page has to stop */
  #works = new Set();

  /**
   * @param {import("./client.js").Client} client
   * @param {import("./room.js").Room} room
   * @param {string} document
   */
  constructor(client, room, document) {
    this.#client = client;
    this.#room = room;
    this.#document = document;
    this.store = new Store(() => this.#build(), client.guarded);
    this.asks = new Asks(this, client);
  }

  /**
   * Options that are given take the place of those given before.
   *
   * @param {LockOptions} options
   */
  configure(options) {
    this.options = { ...this.options, ...options };
    this.#watchIdleness();
  }

  get canEdit() {
    return this.#state === "held";
  }

  get lease() {
    return this.#held?.lease ?? this.#local?.lease;
  }

  get state() {
    return this.#state;
  }

  changed() {
    this.store.changed();
  }

  getSnapshot() {
    // Someone is about to draw: a page that slept must not show what was true before. Who draws is told afterwards.
    if (this.#isOverdue()) {
      this.#state = "readonly";
      this.#reason = "offline";
      this.store.outdate();
      queueMicrotask(() => this.#enterReadonly("offline", null, "renew-failed"));
    }
    return this.store.getSnapshot();
  }

  /** @param {() => unknown} listener */
  subscribe(listener) {
    const unwatch = this.#room.watch();
    const unsubscribe = this.store.subscribe(listener);
    this.#client.resume(this.#room.name, this.#document);
    return () => {
      unsubscribe();
      unwatch();
    };
  }

  /**
   * Sends a message about this document, as this session.
   *
   * @param {string} type
   * @param {Record<string, unknown>} [fields]
   * @returns {Promise<Answer>}
   */
  async send(type, fields = {}) {
    const session_id = await this.#client.session.ready();
    return this.#client.command(type, this.#room.name, this.#document, { session_id, ...fields });
  }

  // Acquiring

  /**
   * @param {AcquireOptions} [options]
   * @param {Record<string, unknown>} [takeover] fields of a take-over
   * @returns {Promise<DocLockLease>}
   */
  acquire(options = {}, takeover) {
    return this.#enqueue(() => this.#acquire(options, takeover));
  }

  /** @param {{expectedToken?: number}} [options] */
  takeOver({ expectedToken } = {}) {
    const expected_token = expectedToken ?? this.#room.lockOf(this.#document)?.fencingToken;
    return this.acquire({}, { takeover: true, expected_token });
  }

  /**
   * @param {AcquireOptions} options
   * @param {Record<string, unknown>} [takeover]
   * @returns {Promise<DocLockLease>}
   */
  async #acquire({ wait = false, signal }, takeover) {
    if (this.canEdit && !this.check()) return /** @type {DocLockLease} */ (this.lease);
    const acquiring = new AbortController();
    const abort = () => acquiring.abort();
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    this.#acquiring = acquiring;
    this.#forget();
    this.#engage("acquiring");
    try {
      const answer = await (wait ? this.#inLine(acquiring.signal) : this.#attempt("lock", takeover, acquiring.signal));
      this.#granted(answer);
      if (acquiring.signal.aborted) {
        await this.#release(undefined, "aborted");
        throw aborted();
      }
      return /** @type {Held} */ (this.#held).lease;
    } catch (reason) {
      const error = during(reason, "acquire");
      if (error.code === "UNREACHABLE" && (await this.#acquireLocally(error))) return /** @type {DocLockLease} */ (this.lease);
      this.#refused(error);
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#acquiring = undefined;
    }
  }

  /** @param {DocLockError} error */
  #refused(error) {
    const reason = endingOf(error);
    if (error.problem?.lock) this.#room.seen(error.problem.lock, error.problem.is_you);
    this.#settle("idle", reason === "forbidden" ? reason : error.code === "UNAUTHORIZED" ? "unauthorized" : null);
    this.#client.tell({ type: "lock:error", operation: "acquire", error, retryable: error.retryable });
    if (error.code === "UNREACHABLE") {
      this.#client.tell({ type: "lock:readonly-entered", reason: "acquire-timeout", lastError: error });
    }
  }

  /**
   * @param {string} type `lock` or `wait`
   * @param {Record<string, unknown> | undefined} fields
   * @param {AbortSignal} signal
   */
  async #attempt(type, fields, signal) {
    const { ttlSeconds: ttl_seconds, metadata } = this.options;
    for (let retry = 0; ; retry += 1) {
      if (signal.aborted) throw aborted();
      this.#client.tell({ type: "lock:attempt", strategy: "server", retry });
      try {
        return await this.send(type, { ttl_seconds, metadata, keep: "connection", ...fields });
      } catch (error) {
        const delayMs = RETRY_DELAYS_MS[retry];
        if (!isTrouble(error) || delayMs === undefined) throw error;
        this.#client.tell({ type: "lock:waiting", retry: retry + 1, delayMs });
        await sleep(this.#client.clock, delayMs, signal).catch(() => {});
      }
    }
  }

  /**
   * Stands in line until it is this page's turn. With a new connection it stands where it stood: the server knows the
   * session.
   *
   * @param {AbortSignal} signal
   */
  async #inLine(signal) {
    for (;;) {
      const answer = await this.#attempt("wait", undefined, signal).catch((error) => this.#polled(error));
      if (answer?.reply.lease_id) return answer;
      this.#position = answer?.reply.position ?? this.#position;
      this.#state = "waiting";
      this.changed();
      const granted = await this.#nextTurn(signal, !answer);
      if (signal.aborted) {
        await this.send("cancel_wait").catch(() => {});
        throw aborted();
      }
      const claimed = granted && (await this.#claim(granted));
      if (claimed) return claimed;
    }
  }

  /**
   * A request that stood in line by HTTP and was not served keeps its place while it asks again.
   *
   * @param {DocLockError} error
   * @returns {Answer | undefined}
   */
  #polled(error) {
    if (error.code !== "LOCK_HELD") throw error;
    this.#room.seen(error.problem?.lock, error.problem?.is_you);
    this.#position = error.problem?.position ?? null;
    return undefined;
  }

  /**
   * Resolves with `granted`, or with nothing when it is time to ask again.
   *
   * @param {AbortSignal} signal
   * @param {boolean} isPolling
   * @returns {Promise<Message | undefined>}
   */
  async #nextTurn(signal, isPolling) {
    if (isPolling) return void (await sleep(this.#client.clock, POLL_PAUSE_MS, signal).catch(() => {}));
    const turn = new Promise((/** @type {(message?: Message) => void} */ resolve) => {
      this.#turn = resolve;
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve());
    });
    return turn.finally(() => (this.#turn = undefined));
  }

  /**
   * Takes what was granted without having been asked for just now. It is lost if that takes more than a few seconds.
   *
   * @param {Message} message
   * @returns {Promise<Answer | undefined>}
   */
  async #claim({ lock: { lease_id, hold } }) {
    return this.send("extend", { lease_id, hold, keep: "connection" }).catch((error) => {
      if (endingOf(error)) return undefined;
      throw error;
    });
  }

  /** @param {Answer} answer */
  #granted(answer) {
    this.#engage("held");
    this.#held?.stop();
    this.#held = new Held(this, this.#client, answer);
    this.#client.page.touch();
    this.#reason = this.#by = this.#position = null;
    this.#lostToken = undefined;
    this.#room.seen(answer.reply, true);
    this.told(answer.reply);
    this.#documentVersion = answer.reply.document_version ?? this.#documentVersion;
    this.#client.tell({ type: "lock:acquired", lease: this.#held.lease });
    this.#held.tellSchedule();
    this.#watchIdleness();
    if (!this.check()) this.changed();
  }

  async cancelWait() {
    this.#acquiring?.abort();
    await this.#tail;
  }

  // Keeping

  /** What a heartbeat's answer says besides the lease. @param {Message} reply */
  told({ handovers }) {
    if (handovers) this.asks.replace(handovers);
  }

  /** The server has renewed the lock: whatever was doubted, it is this page's. */
  renewed() {
    if (this.#state === "readonly") {
      this.#state = "held";
      this.#reason = this.#by = null;
      this.#watchIdleness();
    }
    this.changed();
  }

  #isOverdue() {
    return this.#state === "held" && this.#held !== undefined && this.#held.editableMs() <= 0;
  }

  /** Turns read-only if the time is over. Returns whether it has. */
  check() {
    if (!this.#isOverdue()) return false;
    this.#enterReadonly("offline", null, "renew-failed");
    return true;
  }

  /**
   * The lock has ended, by the word of the server.
   *
   * @param {LockReason} reason
   * @param {DocLockError | null} error
   * @param {string | null} [by]
   */
  lost(reason, error, by = null) {
    const lease = this.lease;
    this.#lostToken = lease?.fencingToken;
    this.#forget();
    if (lease && reason === "expired") this.#client.tell({ type: "lock:expired", lease });
    if (this.#state === "releasing") return;
    const isNews = this.#state !== "readonly";
    this.#settle("readonly", reason, by);
    if (isNews) this.#enterReadonly(reason, error, "lease-stale");
  }

  /**
   * @param {LockReason} reason
   * @param {DocLockError | null} error
   * @param {"renew-failed" | "lease-stale"} why
   */
  #enterReadonly(reason, error, why) {
    this.#state = "readonly";
    this.#reason = reason;
    this.#client.clock.clearTimeout(this.#idleTimer);
    this.changed();
    this.#client.tell({ type: "lock:readonly-entered", reason: why, lastError: error });
    const by = this.#by;
    this.#client.guarded(() => this.options.onReadonly?.(Object.freeze({ reason, by, error })));
    for (const work of this.#works) work.abort(error ?? new DocLockError(`The lock is lost: ${reason}`, { code: "NOT_HELD" }));
  }

  /** @param {string} version */
  async saved(version) {
    const held = this.#mustHold("renew");
    this.#client.page.touch();
    this.#documentVersion = version;
    await held.renew({ document_version: version });
  }

  /** What the person at this page does has changed. */
  activityChanged() {
    const { activity } = this.#client.page;
    if (activity === "active" && this.#held) this.#held.isUnattended = false;
    if (this.canEdit) this.#held?.renew({ activity }).catch(() => {});
  }

  #watchIdleness() {
    const { clock, page } = this.#client;
    const { idleReleaseMs = 0 } = this.options;
    clock.clearTimeout(this.#idleTimer);
    if (idleReleaseMs === 0 || !this.canEdit) return;
    const over = () => {
      if (page.idleMs() < idleReleaseMs) return this.#watchIdleness();
      this.#enqueue(() => this.#release(undefined, "idle")).catch(() => {});
    };
    this.#idleTimer = clock.setTimeout(over, idleReleaseMs - page.idleMs());
  }

  // Releasing

  /** @param {{documentVersion?: VersionOrSave}} [options] */
  release({ documentVersion } = {}) {
    this.#acquiring?.abort();
    return this.#enqueue(() => this.#release(documentVersion, "completed"));
  }

  /**
   * @param {VersionOrSave | undefined} save
   * @param {"completed" | "aborted" | "idle"} why
   */
  async #release(save, why) {
    const lease = this.lease;
    if (this.#local) await this.#local.release().catch(() => {});
    if (!this.#held || !lease) return this.#settle("idle", null);
    await this.letGo(async (document_version) => {
      this.#client.tell({ type: "lock:release-requested", lease, reason: why });
      const unlock = () => this.send("unlock", { lease_id: lease.leaseId, document_version });
      try {
        await this.#persist(unlock);
        this.#client.tell({ type: "lock:released", lease });
      } catch (reason) {
        if (endingOf(reason)) return;
        const error = during(reason, "release");
        this.#client.tell({ type: "lock:error", operation: "release", error, retryable: error.retryable });
        this.#client.tell({ type: "lock:readonly-entered", reason: "release-failed", lastError: error });
        this.#settle("idle", null);
        throw error;
      }
    }, save);
    this.#settle("idle", why === "idle" ? "idle" : null);
  }

  /**
   * Refuses typing, saves, then does what ends the lock. If the save fails the page goes on editing.
   *
   * @param {(version: string | undefined) => Promise<unknown>} end
   * @param {VersionOrSave} [save]
   */
  async letGo(end, save) {
    const before = this.#state;
    this.#state = "releasing";
    this.changed();
    try {
      const version = typeof save === "function" ? await save() : save;
      await end(version ?? undefined);
      this.#documentVersion = version ?? this.#documentVersion;
    } catch (error) {
      if (this.#state === "releasing") {
        this.#state = this.#held ? before : "idle";
        if (!this.check()) this.changed();
      }
      throw error;
    }
  }

  /** Someone asked, and nobody at this page has answered. */
  leftUnanswered() {
    if (this.#held) this.#held.isUnattended = true;
  }

  /** The lock has gone to the one who asked for it. */
  handedOver() {
    this.#settle("idle", "handed_over");
  }

  /**
   * @template T
   * @param {() => Promise<T>} send
   */
  async #persist(send) {
    for (const delayMs of [...RETRY_DELAYS_MS, undefined]) {
      try {
        return await send();
      } catch (error) {
        if (!isTrouble(error) || delayMs === undefined) throw error;
        await sleep(this.#client.clock, delayMs);
      }
    }
  }

  // The page goes and comes back

  /** The page is put away. @returns {DocLockLease | undefined} what it held, which lingers for a moment */
  suspend() {
    const lease = this.#held?.lease;
    if (!lease || this.#state === "idle") return undefined;
    this.#forget();
    this.#enterReadonly("offline", null, "renew-failed");
    return lease;
  }

  /**
   * The page is back: takes up the lock it held, if that lingers. Not by heartbeat, because the goodbye may come late and
   * would end it: locking again makes `hold` grow, which the goodbye then does not fit.
   *
   * @param {string} leaseId
   */
  resume(leaseId) {
    return this.#enqueue(async () => {
      if (this.#held || this.#local) return;
      this.#engage("acquiring");
      try {
        const { reply } = await this.send("look");
        if (reply.lock?.lease_id !== leaseId) return this.#settle("readonly", "released");
        this.#granted(await this.send("lock", { keep: "connection" }));
        // It ended between the two: what came is a new lock, which nobody wanted.
        if (this.lease?.leaseId !== leaseId) await this.#release(undefined, "aborted");
      } catch {
        this.#settle("readonly", "offline");
      }
    });
  }

  // What comes from outside

  connectionChanged() {
    if (this.#client.connection.isConnected) {
      this.#held?.reconnected();
      this.#turn?.();
      this.#leaveLocal();
    }
    this.changed();
  }

  roomChanged() {
    const lock = this.#room.lockOf(this.#document);
    if (lock && !this.canEdit) this.#documentVersion = lock.documentVersion ?? this.#documentVersion;
    this.changed();
  }

  /** @param {Message} message about this document */
  receive(message) {
    const { type, fencing_token, reason, by, document_version } = message;
    const { id } = this.#client.session;
    if (type === "extended") this.#held?.extended(message);
    else if (type === "LockWaiting" && (message.session_id ?? id) === id) this.#position = message.position;
    else if (type === "granted" && message.lock.holder.session_id === id) this.#grantedUnasked(message);
    else if (type === "HandoverAsked" || type === "HandoverAnswered") this.asks.receive(message);
    else if (type === "DocumentUnlocked") this.#unlocked(fencing_token, reason, by ?? null);
    this.#documentVersion = document_version ?? this.#documentVersion;
    this.roomChanged();
  }

  /** @param {Message} message */
  #grantedUnasked(message) {
    if (this.#turn) return this.#turn(message);
    if (this.#held?.lease.leaseId === message.lock.lease_id) return;
    this.#enqueue(async () => {
      const answer = await this.#claim(message);
      if (answer) this.#granted(answer);
      this.asks.settled({ outcome: answer ? "granted" : "moot", message: null });
    }).catch(() => {});
  }

  /**
   * @param {number} token
   * @param {LockReason} reason
   * @param {string | null} by
   */
  #unlocked(token, reason, by) {
    if (this.#held?.lease.fencingToken === token) {
      // What this page is doing itself it will hear of by the answer.
      if (this.#state === "releasing" && (reason === "released" || reason === "handed_over")) return;
      this.lost(reason, null, by);
    } else if (this.#lostToken === token && this.#state === "readonly") {
      this.#reason = reason;
      this.#by = by;
    }
  }

  // Without a server

  /** @param {DocLockError} error */
  async #acquireLocally(error) {
    if (!this.#client.local) return false;
    const hold = await this.#client.local(this.#room.name, this.#document, () => this.lost("expired", null));
    if (!hold) return false;
    this.#local = hold;
    this.#state = "held";
    this.#reason = this.#by = null;
    this.#client.tell({ type: "lock:warning", warning: "fallback-engaged", error });
    this.#client.tell({ type: "lock:acquired", lease: hold.lease });
    this.changed();
    return true;
  }

  /** The server is back, and it alone decides: asks it for the lock that this browser had among its own tabs. */
  #leaveLocal() {
    if (!this.#local) return;
    this.#enqueue(async () => {
      const local = this.#local;
      if (!local) return;
      try {
        const answer = await this.#attempt("lock", undefined, new AbortController().signal);
        this.#local = undefined;
        this.#granted(answer);
      } catch (reason) {
        const error = during(reason, "acquire");
        if (isTrouble(error)) return;
        if (error.problem?.lock) this.#room.seen(error.problem.lock, error.problem.is_you);
        this.lost("offline", error);
      }
      await local.release().catch(() => {});
    }).catch(() => {});
  }

  // Helpers

  /**
   * Runs work that must stop when the lock is lost.
   *
   * @template T
   * @param {(signal: AbortSignal) => T | PromiseLike<T>} work
   * @param {AbortSignal} [given] which may stop it too
   */
  async guard(work, given) {
    const controller = new AbortController();
    const abort = () => controller.abort(given?.reason);
    given?.addEventListener("abort", abort);
    this.#works.add(controller);
    try {
      return await work(controller.signal);
    } finally {
      given?.removeEventListener("abort", abort);
      this.#works.delete(controller);
    }
  }

  /** @param {import("../doclock.js").DocLockOperation} operation */
  #mustHold(operation) {
    this.check();
    if (this.#held && this.#state !== "readonly") return this.#held;
    throw new DocLockError("This page does not hold the lock", { code: "NOT_HELD", operation });
  }

  /** @param {OwnState} state */
  #engage(state) {
    this.#unwatch ??= this.#room.watch();
    this.#state = state;
    this.changed();
  }

  /** Ends what was held, without a word. */
  #forget() {
    this.#held?.stop();
    this.#held = undefined;
    this.#local = undefined;
    this.asks.clear();
    this.#client.clock.clearTimeout(this.#idleTimer);
  }

  /**
   * @param {"idle" | "readonly"} state
   * @param {LockReason | null} reason
   * @param {string | null} [by]
   */
  #settle(state, reason, by = null) {
    this.#forget();
    this.#state = state;
    this.#reason = reason;
    this.#by = by;
    this.#position = null;
    this.#unwatch?.();
    this.#unwatch = undefined;
    this.changed();
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #enqueue(work) {
    if (this.#client.isClosed) return Promise.reject(new DocLockError("The client is closed", { code: "CLOSED" }));
    const done = this.#tail.then(work);
    this.#tail = done.catch(() => {});
    return done;
  }

  /** @returns {LockSnapshot} */
  #build() {
    const { connection, page } = this.#client;
    const held = this.#state === "readonly" ? undefined : this.#held;
    const lease = held?.lease ?? this.#local?.lease ?? null;
    const lock = this.#room.lockOf(this.#document);
    const isOwn = held !== undefined || this.#local !== undefined;
    return {
      state: this.#state === "held" && held?.isRenewing ? "renewing" : this.#state,
      canEdit: this.canEdit,
      reason: this.#reason,
      by: this.#by,
      lease,
      fencingToken: held?.lease.fencingToken ?? null,
      holder: lock?.holder ?? null,
      holderToken: lock?.fencingToken ?? null,
      isYou: isOwn || (lock?.isYou ?? false),
      activity: isOwn ? page.activity : (lock?.activity ?? null),
      activeAt: lock?.activeAt ?? null,
      position: this.#position,
      asks: this.asks.open,
      asked: this.asks.own,
      deadlineMs: held ? this.#deadlineMs(held) : null,
      documentVersion: this.#documentVersion,
      isLocal: this.#local !== undefined,
      connection: connection.state,
      connectionLost: connection.isLost,
    };
  }

  /** @type {{expiresAt: number, deadlineMs: number} | undefined} */
  #shownDeadline;

  /**
   * The same number for the same renewal: counted anew each time, it would differ by the moment it was read.
   *
   * @param {Held} held
   */
  #deadlineMs(held) {
    if (this.#shownDeadline?.expiresAt !== held.lease.expiresAt) {
      this.#shownDeadline = { expiresAt: held.lease.expiresAt, deadlineMs: Math.round(this.#client.clock.now() + held.editableMs()) };
    }
    return this.#shownDeadline.deadlineMs;
  }
}

const aborted = () => new DocLockError("It was aborted", { code: "ABORTED", operation: "acquire" });
