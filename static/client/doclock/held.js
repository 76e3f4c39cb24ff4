// A lock that this page holds: its deadline, and the heartbeats that move it. The server renews by itself while the socket
// answers its pings (`keep`), which browsers do even for pages that stand still; this heartbeats when it does not.

import { Deadline } from "./deadline.js";
import { during, endingOf } from "./errors.js";
import { persist } from "./retry.js";
import { leaseOf } from "./wire.js";

/**
 * @typedef {import("./lock.js").Answer} Answer
 * @typedef {import("./lock.js").Lock} Lock
 */

const HEARTBEAT_MS = 10_000;
/** While the server renews by itself, a heartbeat is sent only when that is overdue. */
const OVERDUE = 1.5;

export class Held {
  lease;
  /** When this page has to stop editing, by its own time of day; for showing only. */
  deadlineMs = 0;
  /** Whether a heartbeat is on its way. */
  isRenewing = false;
  /** Nobody answered an ask: only a person at the keyboard keeps the lock now. */
  isUnattended = false;
  #lock;
  #client;
  #deadline;
  #isOver = false;
  /** @type {unknown} */
  #heartbeat;
  /** @type {unknown} */
  #ending;
  #nap = new AbortController();

  /**
   * @param {Lock} lock
   * @param {import("./client.js").Client} client
   * @param {Answer} answer the grant
   */
  constructor(lock, client, { reply, watch }) {
    this.#lock = lock;
    this.#client = client;
    this.lease = leaseOf(reply);
    this.#deadline = new Deadline(client.clock, reply, watch);
  }

  editableMs() {
    return this.#deadline.editableMs();
  }

  get #heartbeatMs() {
    const most = Math.min(this.#lock.options.heartbeatMs ?? HEARTBEAT_MS, this.lease.ttlMillis / 3);
    return this.#client.connection.isConnected && !this.isUnattended ? most * OVERDUE : most;
  }

  /** Forgets it: nothing more is sent or told. */
  stop() {
    this.#isOver = true;
    this.#nap.abort();
    this.#clear();
  }

  #clear() {
    this.#client.clock.clearTimeout(this.#heartbeat);
    this.#client.clock.clearTimeout(this.#ending);
  }

  /** Plans the next heartbeat, and what is to be done if none succeeds. */
  schedule() {
    const { clock, page } = this.#client;
    this.#clear();
    if (this.#isOver) return;
    const beat = () => this.isUnattended && page.activity !== "active" ? undefined : this.renew().catch(() => {});
    this.#heartbeat = clock.setTimeout(beat, this.#heartbeatMs);
    const editable = this.editableMs();
    this.deadlineMs = Math.round(clock.now() + editable);
    // Once it is over there is nothing left to wait for; the lock has been told.
    if (editable > 0) this.#ending = clock.setTimeout(() => this.#lock.check() || this.schedule(), editable);
  }

  /** @param {import("./wire.js").Message} message the server has renewed it by itself */
  extended(message) {
    if (message.lease_id !== this.lease.leaseId) return;
    this.#deadline.extended(message);
    this.#renewed({ expiresAt: Date.parse(message.expires_at) });
  }

  /** The connection is another one: the server has to be told that it keeps this lock. */
  reconnected() {
    this.#nap.abort();
    if (!this.isRenewing) this.renew().catch(() => {});
  }

  /**
   * Sends a heartbeat, again if no answer comes. Rejects when the lock is lost, or when the server cannot be reached:
   * then the next heartbeat tries anew.
   *
   * @param {Record<string, unknown>} [fields] that go with it
   */
  async renew(fields) {
    const { clock } = this.#client;
    const { leaseId: lease_id, hold } = this.lease;
    const keep = this.isUnattended ? undefined : "connection";
    const send = () => this.#lock.send("extend", { lease_id, hold, keep, ...fields });
    const signal = () => (this.#nap = new AbortController()).signal;
    const onRetry = (/** @type {unknown} */ error) =>
      this.#client.tell({ type: "lock:warning", warning: "heartbeat-delayed", lease: this.lease, error: during(error, "renew") });
    this.isRenewing = true;
    this.#lock.changed();
    try {
      const { reply, watch } = await persist(clock, send, { signal, onRetry });
      if (this.#isOver) return;
      this.isRenewing = false;
      this.#deadline = new Deadline(clock, reply, watch);
      this.#renewed(leaseOf(reply));
      this.#lock.asks.replace(reply.handovers);
    } catch (reason) {
      const error = during(reason, "renew");
      if (this.#isOver) throw error;
      this.isRenewing = false;
      this.#client.tell({ type: "lock:error", operation: "renew", error, retryable: error.retryable });
      const ending = endingOf(error);
      if (ending) this.#lock.lost(ending, error);
      this.schedule();
      this.#lock.changed();
      throw error;
    }
  }

  /** @param {Partial<import("../doclock.js").DocLockLease>} change */
  #renewed(change) {
    this.lease = Object.freeze({ ...this.lease, ...change });
    this.#client.tell({ type: "lock:renewed", lease: this.lease });
    this.started();
    this.#lock.renewed();
  }

  started() {
    this.schedule();
    this.#client.tell({ type: "lock:renew-scheduled", lease: this.lease, nextHeartbeatInMs: this.#heartbeatMs });
  }
}
