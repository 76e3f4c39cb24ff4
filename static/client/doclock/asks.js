// "May I have it?": what others ask of this page while it holds the lock, and what this page has asked.

import { DocLockError, during } from "./errors.js";
import { pause } from "./retry.js";
import { askOf } from "./wire.js";

/**
 * @typedef {import("../doclock.js").HandoverAsk} HandoverAsk
 * @typedef {import("../doclock.js").HandoverOutcome} HandoverOutcome
 * @typedef {import("../doclock.js").OwnAsk} OwnAsk
 * @typedef {import("./wire.js").Message} Message
 * @typedef {{outcome: HandoverOutcome, message: string | null}} Outcome
 */

const NONE = /** @type {readonly HandoverAsk[]} */ (Object.freeze([]));

/** The outcome may be on its way when the time for it is over. */
const OUTCOME_LATE_MS = 2_000;
const POLL_PAUSE_MS = 1_000;

export class Asks {
  /** @type {readonly HandoverAsk[]} what others ask */
  open = NONE;
  /** @type {OwnAsk | null} what this page asked */
  own = null;
  #lock;
  #client;
  /** @type {((outcome: Outcome) => void) | undefined} */
  #settle;
  /** @type {unknown} */
  #timer;
  /** @type {Promise<import("./lock.js").Answer> | undefined} */
  #asking;

  /**
   * @param {import("./lock.js").Lock} lock
   * @param {import("./client.js").Client} client
   */
  constructor(lock, client) {
    this.#lock = lock;
    this.#client = client;
  }

  /** @param {Message} message */
  receive(message) {
    const { type, handover_id, outcome } = message;
    if (type === "HandoverAsked") return this.#add(message);
    if (this.own?.handoverId !== handover_id) return this.#close(handover_id, outcome);
    // A grant is settled once the lock is here.
    if (outcome !== "granted") this.settled(outcome, message.message);
  }

  /**
   * All that are open, as a heartbeat's answer tells them.
   *
   * @param {Message[]} [asks]
   */
  replace(asks = []) {
    const ids = new Set(asks.map(({ handover_id }) => handover_id));
    const still = this.open.filter(({ handoverId }) => ids.has(handoverId));
    if (still.length < this.open.length) this.open = Object.freeze(still);
    for (const ask of asks) this.#add(ask);
  }

  clear() {
    this.open = NONE;
  }

  /** @param {Message} message */
  #add(message) {
    if (this.open.some(({ handoverId }) => handoverId === message.handover_id)) return;
    const ask = askOf(message);
    this.open = Object.freeze([...this.open, ask]);
    this.#lock.changed();
    this.#client.guarded(async () => {
      const answer = await this.#lock.options.onHandover?.(ask);
      if (answer && this.open.includes(ask)) await this.answer(ask.handoverId, answer.grant, answer);
    });
  }

  /**
   * @param {string} handoverId
   * @param {HandoverOutcome} [outcome]
   */
  #close(handoverId, outcome) {
    if (!this.open.some((ask) => ask.handoverId === handoverId)) return;
    this.open = Object.freeze(this.open.filter((ask) => ask.handoverId !== handoverId));
    if (outcome === "unanswered") this.#lock.attended(false);
    this.#lock.changed();
  }

  /**
   * @param {string} handoverId
   * @param {boolean} grant
   * @param {{documentVersion?: import("../doclock.js").VersionOrSave, message?: string}} [options]
   */
  async answer(handoverId, grant, { documentVersion, message } = {}) {
    const fields = { handover_id: handoverId, grant, message };
    const send = (/** @type {string | undefined} */ document_version) =>
      this.#send("answer", "answer_handover", { ...fields, document_version });
    if (!grant) await send(undefined);
    else {
      await this.#lock.letGo(send, documentVersion);
      this.#lock.handedOver();
    }
    this.#close(handoverId);
  }

  /**
   * @param {string} [message]
   * @returns {Promise<Outcome>}
   */
  async ask(message) {
    if (this.own) throw new DocLockError("This page has asked already", { code: "ALREADY_ASKED", operation: "ask" });
    this.#asking = this.#send("ask", "ask_handover", { message });
    const { reply } = await this.#asking;
    const { clock } = this.#client;
    const { handover_id: handoverId, expires_in_ms } = reply;
    this.own = Object.freeze({ handoverId, message: message ?? null, deadlineMs: clock.now() + expires_in_ms });
    const settled = new Promise((/** @type {(outcome: Outcome) => void} */ resolve) => (this.#settle = resolve));
    this.#timer = clock.setTimeout(() => this.settled("unanswered"), expires_in_ms + OUTCOME_LATE_MS);
    this.#lock.changed();
    this.#poll(handoverId);
    return settled;
  }

  /**
   * Without a socket nobody tells the outcome: it is asked for.
   *
   * @param {string} handoverId
   */
  async #poll(handoverId) {
    while (this.own?.handoverId === handoverId) {
      if (this.#client.connection.isConnected) return;
      const told = await this.#lock.send("look_handover", { handover_id: handoverId }).catch(() => undefined);
      const outcome = told?.reply.outcome;
      if (outcome === "granted") {
        await this.#lock.acquire().catch(() => {});
        return this.settled(this.#lock.canEdit ? "granted" : "moot");
      }
      if (outcome && outcome !== "open") return this.settled(outcome, told?.reply.message);
      await pause(this.#client.clock, POLL_PAUSE_MS);
    }
  }

  async cancel() {
    // The holder may have it before this page has heard so.
    await this.#asking?.catch(() => {});
    if (!this.own) return;
    const { handoverId } = this.own;
    this.settled("cancelled");
    await this.#send("cancel", "cancel_handover", { handover_id: handoverId });
  }

  /**
   * @param {HandoverOutcome} outcome
   * @param {string | null} [message]
   */
  settled(outcome, message = null) {
    this.#client.clock.clearTimeout(this.#timer);
    this.own = null;
    this.#settle?.({ outcome, message });
    this.#settle = undefined;
    this.#lock.changed();
  }

  /**
   * @param {import("../doclock.js").DocLockOperation} operation
   * @param {string} type
   * @param {Record<string, unknown>} fields
   */
  #send(operation, type, fields) {
    // Only who asks does so as a session: the lock would go to it.
    const session = operation === "ask" ? {} : { session_id: undefined };
    return this.#lock.send(type, { ...session, ...fields }).catch((error) => {
      throw during(error, operation);
    });
  }
}
