// One document's lock, seen from this page. Its states:
//
//   idle -> acquiring -> held <-> renewing      a lock of this page; `renewing` while a heartbeat is on its way
//                |        | |
//             waiting     | +-> readonly        lost; or, as `offline`, in doubt until the server says
//                         +---> releasing -> idle
//
// Acquiring and releasing go one after the other, however they are called: a view that is mounted twice must not release
// what its second life has just acquired. Nothing here takes a lost lock back by itself.

import { Asks } from "./asks.js";
import { DocLockError, during, endingOf, isTrouble } from "./errors.js";
import { Held } from "./held.js";
import { Idleness } from "./idleness.js";
import { Line, aborted } from "./line.js";
import { persist } from "./retry.js";
import { snapshotOf } from "./snapshot.js";
import { Store } from "./store.js";
import { Works } from "./works.js";

/**
 * @typedef {import("../doclock.js").AcquireOptions} AcquireOptions
 * @typedef {import("../doclock.js").DocLockLease} DocLockLease
 * @typedef {import("../doclock.js").LockOptions} LockOptions
 * @typedef {import("../doclock.js").LockReason} LockReason
 * @typedef {import("../doclock.js").VersionOrSave} VersionOrSave
 * @typedef {import("./wire.js").Message} Message
 * @typedef {import("../project-lock/timing.js").Stopwatch} Stopwatch
 * @typedef {{reply: Message, watch: Stopwatch}} Answer a reply, and the time since before it was asked for
 * @typedef {import("./snapshot.js").OwnState} OwnState
 */

export class Lock {
  /** @type {LockOptions} */
  options = {};
  handle;
  works = new Works();
  #store;
  #client;
  #room;
  #document;
  #line;
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
  /** @type {string | null} */
  #documentVersion = null;
  /** @type {Promise<unknown>} */
  #tail = Promise.resolve();
  /** @type {AbortController | undefined} ends the acquiring that is under way */
  #acquiring;
  /** @type {(() => void) | undefined} */
  #unwatch;
  #idleness;

  /**
   * @param {import("./client.js").Client} client
   * @param {import("./room.js").Room} room
   * @param {string} document
   */
  constructor(client, room, document) {
    this.#client = client;
    this.#room = room;
    this.#document = document;
    this.#store = new Store(() => this.#build(), client.guarded);
    this.#line = new Line(this, client);
    this.#idleness = new Idleness(client);
    const asks = (this.asks = new Asks(this, client));
    // Functions of their own and not methods, so that they can be passed on.
    /** @type {import("../doclock.js").LockHandle} */
    const handle = {
      room: room.name,
      document,
      acquire: (options) => this.acquire(options),
      release: (options) => this.release(options),
      saved: (version) => this.saved(version),
      ask: (message) => asks.ask(message),
      cancelAsk: () => asks.cancel(),
      answer: (handoverId, grant, options) => asks.answer(handoverId, grant, options),
      takeOver: (options) => this.takeOver(options),
      cancelWait: () => this.cancelWait(),
      subscribe: (listener) => this.#subscribe(listener),
      getSnapshot: () => this.#getSnapshot(),
    };
    this.handle = Object.freeze(handle);
  }

  /** @param {LockOptions} options that take the place of those given before */
  configure(options) {
    this.options = { ...this.options, ...options };
    this.#watchIdleness();
  }

  get canEdit() {
    return this.#state === "held";
  }

  get #lease() {
    return this.#held?.lease ?? this.#local?.lease;
  }

  changed() {
    this.#store.changed();
  }

  #getSnapshot() {
    // Someone is about to draw: a page that slept must not show what was true before. Who draws is told afterwards.
    if (this.#isOverdue()) {
      this.#state = "readonly";
      this.#reason = "offline";
      this.#store.outdate();
      queueMicrotask(() => this.#enterReadonly("offline", "renew-failed"));
    }
    return this.#store.getSnapshot();
  }

  /** @param {() => unknown} listener */
  #subscribe(listener) {
    const unwatch = this.#room.watch();
    const unsubscribe = this.#store.subscribe(listener);
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
  async send(type, fields) {
    const session_id = await this.#client.session.ready();
    return this.#client.command(type, this.#room.name, this.#document, { session_id, ...fields });
  }

  // Acquiring

  /**
   * @param {AcquireOptions} [options]
   * @param {Record<string, unknown>} [takeover] fields of a take-over
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
  async #acquire({ wait, signal: given }, takeover) {
    if (this.canEdit && !this.check()) return /** @type {DocLockLease} */ (this.#lease);
    const acquiring = (this.#acquiring = new AbortController());
    const { signal } = acquiring;
    const abort = () => acquiring.abort();
    given?.addEventListener("abort", abort);
    if (given?.aborted) abort();
    this.#forget();
    this.#engage("acquiring");
    try {
      this.#granted(await (wait ? this.#line.stand(signal) : this.#line.ask("lock", signal, takeover)));
      if (signal.aborted) {
        await this.#release(undefined, "aborted");
        throw aborted();
      }
    } catch (reason) {
      const error = during(reason, "acquire");
      if (error.code !== "UNREACHABLE" || !(await this.#acquireLocally(error))) throw this.#failed(error);
    } finally {
      given?.removeEventListener("abort", abort);
      this.#acquiring = undefined;
    }
    return /** @type {DocLockLease} */ (this.#lease);
  }

  waits() {
    this.#state = "waiting";
    this.changed();
  }

  /** @param {DocLockError} error */
  refusedBy({ problem }) {
    this.#room.seen(problem?.lock, problem?.is_you);
  }

  /** @param {DocLockError} error */
  #failed(error) {
    const reason = endingOf(error);
    this.refusedBy(error);
    this.#settle("idle", reason === "forbidden" ? reason : error.code === "UNAUTHORIZED" ? "unauthorized" : null);
    this.#client.tell({ type: "lock:error", operation: "acquire", error, retryable: error.retryable });
    if (error.code === "UNREACHABLE") this.#client.tell({ type: "lock:readonly-entered", reason: "acquire-timeout", lastError: error });
    return error;
  }

  /** @param {Answer} answer */
  #granted(answer) {
    const { reply } = answer;
    this.#forget();
    this.#held = new Held(this, this.#client, answer);
    this.#client.page.touch();
    this.#reason = this.#by = null;
    this.#lostToken = undefined;
    this.#room.seen(reply, true);
    this.#documentVersion = reply.document_version ?? this.#documentVersion;
    this.#client.tell({ type: "lock:acquired", lease: this.#held.lease });
    this.#held.started();
    this.#engage("held");
    this.#watchIdleness();
    this.asks.replace(reply.handovers);
    this.check();
  }

  async cancelWait() {
    this.#acquiring?.abort();
    await this.#tail;
  }

  // Keeping

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
    return this.canEdit && this.#held !== undefined && this.#held.editableMs() <= 0;
  }

  /** Turns read-only if the time is over. Returns whether it has. */
  check() {
    const isOverdue = this.#isOverdue();
    if (isOverdue) this.#enterReadonly("offline", "renew-failed");
    return isOverdue;
  }

  /**
   * The lock has ended, by the word of the server.
   *
   * @param {LockReason} reason
   * @param {DocLockError | null} [error]
   * @param {string | null} [by]
   */
  lost(reason, error = null, by = null) {
    const lease = this.#lease;
    const isNews = this.#state !== "readonly";
    this.#lostToken = lease?.fencingToken;
    if (lease && reason === "expired") this.#client.tell({ type: "lock:expired", lease });
    // A save before the hand-over may still be on its way: its page is not told to stop twice.
    if (this.#state === "releasing") return this.#forget();
    this.#settle("readonly", reason, by);
    if (isNews) this.#enterReadonly(reason, "lease-stale", error);
  }

  /**
   * @param {LockReason} reason
   * @param {"renew-failed" | "lease-stale"} why
   * @param {DocLockError | null} [error]
   */
  #enterReadonly(reason, why, error = null) {
    this.#state = "readonly";
    this.#reason = reason;
    this.#idleness.stop();
    this.changed();
    this.#client.tell({ type: "lock:readonly-entered", reason: why, lastError: error });
    const info = Object.freeze({ reason, by: this.#by, error });
    this.#client.guarded(() => this.options.onReadonly?.(info));
    this.works.stop(error ?? notHeld("renew"));
  }

  /** @param {string} version */
  async saved(version) {
    this.check();
    if (!this.#held || this.#state === "readonly") throw notHeld("renew");
    this.#client.page.touch();
    this.#documentVersion = version;
    await this.#held.renew({ document_version: version });
  }

  /** What the person at this page does has changed. */
  activityChanged() {
    const { activity } = this.#client.page;
    if (activity === "active") this.attended(true);
    if (this.canEdit) this.#held?.renew({ activity }).catch(() => {});
  }

  /** @param {boolean} isAttended false: someone asked, and nobody at this page has answered */
  attended(isAttended) {
    if (this.#held) this.#held.isUnattended = !isAttended;
  }

  #watchIdleness() {
    if (!this.canEdit) return;
    this.#idleness.watch(this.options.idleReleaseMs ?? 0, () => this.#enqueue(() => this.#release(undefined, "idle")).catch(() => {}));
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
    const lease = this.#held?.lease;
    await this.#local?.release();
    if (!lease) return this.#settle("idle", null);
    await this.letGo(async (document_version) => {
      this.#client.tell({ type: "lock:release-requested", lease, reason: why });
      try {
        await persist(this.#client.clock, () => this.send("unlock", { lease_id: lease.leaseId, document_version }));
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
    this.#settle("idle", why === "idle" ? why : null);
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

  /** The lock has gone to the one who asked for it. */
  handedOver() {
    this.#settle("idle", "handed_over");
  }

  // The page goes and comes back

  /**
   * The page is put away, mostly for good: that nobody may type is shown, but not counted as a lock that was lost.
   *
   * @returns {DocLockLease | undefined} what it held, which lingers for a moment
   */
  suspend() {
    const lease = this.#held?.lease;
    if (!lease) return undefined;
    this.#forget();
    this.#state = "readonly";
    this.#reason = "offline";
    this.changed();
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
      if (this.#lease) return;
      // A page that was reloaded has nothing on its screen that could be lost; it starts as any other.
      const isKept = this.#state === "readonly";
      const gone = (/** @type {LockReason} */ reason) => {
        this.#settle(isKept ? "readonly" : "idle", isKept ? reason : null);
        if (isKept) this.#enterReadonly(reason, "lease-stale");
      };
      this.#engage("acquiring");
      try {
        const { reply } = await this.send("look");
        if (reply.lock?.lease_id !== leaseId) return gone("released");
        const answer = await this.send("lock", { keep: "connection" });
        this.#granted(answer);
        // It ended between the two: what came is a new lock, which nobody wanted.
        if (answer.reply.lease_id !== leaseId) await this.#release(undefined, "aborted");
      } catch {
        gone("offline");
      }
    });
  }

  // What comes from outside

  connectionChanged() {
    if (this.#client.connection.isConnected) {
      this.#held?.reconnected();
      this.#line.turn();
      if (this.#local) this.#enqueue(() => this.#leaveLocal());
    } else this.#held?.schedule();
    this.changed();
  }

  roomChanged() {
    const lock = this.#room.lockOf(this.#document);
    if (lock && !this.canEdit) this.#documentVersion = lock.documentVersion ?? this.#documentVersion;
    this.changed();
  }

  /** @param {Message} message about this document */
  receive(message) {
    const { type, document_version } = message;
    const { id } = this.#client.session;
    if (type === "extended") this.#held?.extended(message);
    else if (type === "LockWaiting" && (message.session_id ?? id) === id) this.#line.position = message.position;
    else if (type === "granted" && message.lock.holder.session_id === id) this.#grantedLater(message);
    else if (type === "HandoverAsked" || type === "HandoverAnswered") this.asks.receive(message);
    else if (type === "DocumentUnlocked") this.#unlocked(message);
    this.#documentVersion = document_version ?? this.#documentVersion;
    this.roomChanged();
  }

  /** @param {Message} granted */
  #grantedLater(granted) {
    if (this.#line.turn(granted) || this.#lease?.leaseId === granted.lock.lease_id) return;
    this.#enqueue(async () => {
      const answer = await this.#line.claim(granted);
      if (answer) this.#granted(answer);
      this.asks.settled(answer ? "granted" : "moot");
    }).catch(() => {});
  }

  /** @param {Message} event */
  #unlocked({ fencing_token, reason, by = null }) {
    if (this.#held?.lease.fencingToken === fencing_token) {
      // What this page is doing itself it will hear of by the answer.
      if (this.#state !== "releasing" || (reason !== "released" && reason !== "handed_over")) this.lost(reason, null, by);
    } else if (this.#lostToken === fencing_token && this.#state === "readonly") {
      this.#reason = reason;
      this.#by = by;
    }
  }

  // Without a server

  /** @param {DocLockError} error */
  async #acquireLocally(error) {
    this.#local = await this.#client.holdLocally(this.#room.name, this.#document, () => this.lost("expired"));
    if (!this.#local) return false;
    this.#reason = this.#by = null;
    this.#client.tell({ type: "lock:warning", warning: "fallback-engaged", error });
    this.#client.tell({ type: "lock:acquired", lease: this.#local.lease });
    this.#engage("held");
    return true;
  }

  /** The server is back, and it alone decides: asks it for the lock that this browser had among its own tabs. */
  async #leaveLocal() {
    const local = this.#local;
    if (!local) return;
    try {
      this.#granted(await this.#line.ask("lock", new AbortController().signal));
    } catch (reason) {
      const error = during(reason, "acquire");
      if (isTrouble(error)) return;
      this.refusedBy(error);
      this.lost("offline", error);
    }
    await local.release();
  }

  // Helpers

  /** @param {OwnState} state */
  #engage(state) {
    this.#unwatch ??= this.#room.watch();
    this.#state = state;
    this.changed();
  }

  /** Ends what was held, without a word. */
  #forget() {
    this.#held?.stop();
    this.#held = this.#local = undefined;
    this.asks.clear();
    this.#idleness.stop();
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

  #build() {
    const own = { state: this.#state, reason: this.#reason, by: this.#by, documentVersion: this.#documentVersion };
    const parts = { position: this.#line.position, held: this.#held, local: this.#local, asks: this.asks };
    return snapshotOf({ ...own, ...parts }, this.#room.lockOf(this.#document), this.#client);
  }
}

/** @param {import("../doclock.js").DocLockOperation} operation */
const notHeld = (operation) => new DocLockError("This page does not hold the lock", { code: "NOT_HELD", operation });
