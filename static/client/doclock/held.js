// A lock that this page holds: its deadline, and the heartbeats that move it. The server renews by itself while the socket
// answers its pings (`keep`), which browsers do even for pages that stand still; this heartbeats when it does not.

import { sleep } from "../project-lock/timing.js";
import { Deadline } from "./deadline.js";
import { during, endingOf, isTrouble } from "./errors.js";
import { leaseOf } from "./wire.js";

/**
 * @typedef {import("./lock.js").Answer} Answer
 * @typedef {import("./lock.js").Lock} Lock
 * @typedef {import("../doclock.js").DocLockError} DocLockError
 * @typedef {import("../doclock.js").LockReason} LockReason
 */

const HEARTBEAT_MS = 10_000;
const RETRIES = 2;
const RETRY_MS = 500;
/** While the server renews by itself, a heartbeat is sent only when that is overdue. */
const OVERDUE = 1.5;

export class Held {
  lease;
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
    this.#deadline = new Deadline(client.clock, /** @type {any} */ (reply), watch);
    this.#schedule();
  }

  editableMs() {
    return this.#deadline.editableMs();
  }

  get heartbeatMs() {
    const wished = this.#lock.options.heartbeatMs ?? HEARTBEAT_MS;
    const most = Math.min(wished, this.lease.ttlMillis / 3);
    return this.#client.connection.isConnected && !this.isUnattended ? most * OVERDUE : most;
  }

  /** Forgets it: nothing more is sent or told. */
  stop() {
    this.#isOver = true;
    this.#client.clock.clearTimeout(this.#heartbeat);
    this.#client.clock.clearTimeout(this.#ending);
    this.#nap.abort();
  }

  #schedule() {
    const { clock } = this.#client;
    clock.clearTimeout(this.#heartbeat);
    clock.clearTimeout(this.#ending);
    if (this.#isOver) return;
    const beat = () => (this.isUnattended && this.#client.page.activity !== "active" ? undefined : this.renew().catch(() => {}));
    this.#heartbeat = clock.setTimeout(beat, this.heartbeatMs);
    const editable = this.editableMs();
    // Once it is over there is nothing left to wait for; the lock has been told.
    if (editable > 0) this.#ending = clock.setTimeout(() => this.#lock.check() || this.#schedule(), editable);
  }

  /**
   * The server has renewed it by itself.
   *
   * @param {any} message
   */
  extended(message) {
    if (message.lease_id !== this.lease.leaseId) return;
    this.#deadline.extended(message);
    this.#renewed({ expiresAt: Date.parse(message.expires_at) });
  }

  /** The connection is another one: the server has to be told that it keeps this lock. */
  reconnected() {
    this.#nap.abort();
    if (!this.isRenewing) this.renew().catch(() => {});
    else this.#schedule();
  }

  /**
   * Sends a heartbeat, again if no answer comes. Rejects when the lock is lost, or when the server cannot be reached:
   * then the next heartbeat tries anew.
   *
   * @param {Record<string, unknown>} [fields] that go with it
   */
  async renew(fields = {}) {
    const { leaseId: lease_id, hold } = this.lease;
    const keep = this.isUnattended ? undefined : "connection";
    this.isRenewing = true;
    this.#lock.changed();
    try {
      const answer = await this.#persist(() => this.#lock.send("extend", { lease_id, hold, keep, ...fields }));
      if (this.#isOver) return;
      this.isRenewing = false;
      this.#deadline = new Deadline(this.#client.clock, /** @type {any} */ (answer.reply), answer.watch);
      this.#renewed(leaseOf(answer.reply));
      this.#lock.told(answer.reply);
    } catch (reason) {
      const error = during(reason, "renew");
      if (this.#isOver) throw error;
      this.isRenewing = false;
      const ending = endingOf(error);
      this.#client.tell({ type: "lock:error", operation: "renew", error, retryable: error.retryable });
      if (ending) this.#lock.lost(ending, error);
      else this.#schedule();
      this.#lock.changed();
      throw error;
    }
  }

  /**
   * @template T
   * @param {() => Promise<T>} send
   */
  async #persist(send) {
    for (let retry = 0; ; retry += 1) {
      try {
        return await send();
      } catch (error) {
        if (!isTrouble(error) || retry === RETRIES || this.#isOver) throw error;
        this.#client.tell({ type: "lock:warning", warning: "heartbeat-delayed", lease: this.lease, error: during(error, "renew") });
        this.#nap = new AbortController();
        await sleep(this.#client.clock, RETRY_MS * 2 ** retry, this.#nap.signal).catch(() => {});
      }
    }
  }

  /** @param {Partial<import("../doclock.js").DocLockLease>} change */
  #renewed(change) {
    this.lease = Object.freeze({ ...this.lease, ...change });
    this.#client.tell({ type: "lock:renewed", lease: this.lease });
    this.#schedule();
    this.tellSchedule();
    this.#lock.renewed();
  }

  tellSchedule() {
    this.#client.tell({ type: "lock:renew-scheduled", lease: this.lease, nextHeartbeatInMs: this.heartbeatMs });
  }
}
