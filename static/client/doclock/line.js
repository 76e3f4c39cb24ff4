// Getting a lock: asking for it once, or standing in line for it.

import { DocLockError, endingOf } from "./errors.js";
import { pause, persist } from "./retry.js";

/**
 * @typedef {import("./lock.js").Answer} Answer
 * @typedef {import("./lock.js").Lock} Lock
 * @typedef {import("./wire.js").Message} Message
 */

/** Between two requests that stand in line by HTTP, if the server answers at once. */
const POLL_PAUSE_MS = 1_000;

export class Line {
  /** @type {number | null} */
  position = null;
  #lock;
  #client;
  /** @type {((granted?: Message) => void) | undefined} */
  #turn;

  /**
   * @param {Lock} lock
   * @param {import("./client.js").Client} client
   */
  constructor(lock, client) {
    this.#lock = lock;
    this.#client = client;
  }

  /**
   * Asks for the lock, or with `wait` for a place in its line.
   *
   * @param {"lock" | "wait"} type
   * @param {AbortSignal} signal
   * @param {Record<string, unknown>} [fields]
   */
  ask(type, signal, fields) {
    const { ttlSeconds: ttl_seconds, metadata } = this.#lock.options;
    const send = (/** @type {number} */ retry) => {
      if (signal.aborted) throw aborted();
      this.#client.tell({ type: "lock:attempt", strategy: "server", retry });
      return this.#lock.send(type, { ttl_seconds, metadata, keep: "connection", ...fields });
    };
    const onRetry = (/** @type {unknown} */ _, /** @type {number} */ retry, /** @type {number} */ delayMs) =>
      this.#client.tell({ type: "lock:waiting", retry, delayMs });
    return persist(this.#client.clock, send, { signal: () => signal, onRetry });
  }

  /**
   * Stands in line until it is this page's turn. With a new connection it stands where it stood: the server knows the
   * session.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<Answer>}
   */
  async stand(signal) {
    try {
      for (;;) {
        const answer = await this.ask("wait", signal).catch((error) => this.#polled(error));
        if (answer?.reply.lease_id) return answer;
        if (answer) this.position = answer.reply.position;
        this.#lock.waits();
        const granted = await (answer ? this.#nextTurn(signal) : pause(this.#client.clock, POLL_PAUSE_MS, signal));
        if (signal.aborted) {
          await this.#lock.send("cancel_wait").catch(() => {});
          throw aborted();
        }
        const claimed = granted && (await this.claim(granted));
        if (claimed) return claimed;
      }
    } finally {
      this.position = null;
    }
  }

  /**
   * A request that stood in line by HTTP and was not served keeps its place while it asks again.
   *
   * @param {DocLockError} error
   * @returns {undefined}
   */
  #polled(error) {
    if (error.code !== "LOCK_HELD") throw error;
    this.#lock.refusedBy(error);
    this.position = error.problem?.position ?? null;
  }

  /**
   * Resolves with `granted`, or with nothing when it is time to ask again.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<Message | undefined | void>}
   */
  #nextTurn(signal) {
    return new Promise((/** @type {(granted?: Message) => void} */ resolve) => {
      this.#turn = resolve;
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve());
    });
  }

  /**
   * It is this page's turn, or without a message: it has to ask again. Returns whether it stands in line at all.
   *
   * @param {Message} [granted]
   */
  turn(granted) {
    this.#turn?.(granted);
    const stood = this.#turn !== undefined;
    this.#turn = undefined;
    return stood;
  }

  /**
   * Takes what was granted without having been asked for just now: it is lost if that takes more than a few seconds.
   *
   * @param {Message} granted
   * @returns {Promise<Answer | undefined>}
   */
  claim({ lock: { lease_id, hold } }) {
    return this.#lock.send("extend", { lease_id, hold, keep: "connection" }).catch((error) => {
      if (!endingOf(error)) throw error;
      return undefined;
    });
  }
}

export const aborted = () => new DocLockError("It was aborted", { code: "ABORTED", operation: "acquire" });
