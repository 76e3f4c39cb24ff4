import { DocLockError, refused, unreachable } from "./errors.js";
import { NoAnswer, within } from "../project-lock/timing.js";

/** An answer that takes longer is not waited for, beyond what the server was asked to wait itself. */
const ANSWER_MS = 8_000;

/** How long a waiting request stands in line before it asks again. */
export const POLL_MS = 20_000;

/**
 * What a message of the socket is as a request: method, path below the lock, and what the request does not take.
 *
 * @type {Record<string, (fields: Record<string, any>) => [string, string, Record<string, any>]>}
 */
const REQUESTS = {
  lock: ({ keep, ...body }) => ["POST", "", body],
  wait: ({ keep, ...body }) => ["POST", "", { ...body, wait_ms: POLL_MS }],
  extend: ({ keep, ...body }) => ["PUT", "", body],
  unlock: (body) => ["DELETE", "", body],
  look: () => ["GET", "", {}],
  ask_handover: (body) => ["POST", "/handovers", body],
  look_handover: ({ handover_id }) => ["GET", `/handovers/${handover_id}?wait_ms=${POLL_MS}`, {}],
  cancel_handover: ({ handover_id }) => ["DELETE", `/handovers/${handover_id}`, {}],
  answer_handover: ({ handover_id, ...body }) => ["POST", `/handovers/${handover_id}/answer`, body],
};

export class Http {
  #base;
  #fetch;
  #tokens;
  #clock;

  /**
   * @param {{base: () => string, fetch: () => import("../doclock.js").FetchLike, tokens: import("./tokens.js").Tokens,
   *   clock: import("../project-lock.js").ProjectLockClock}} environment
   */
  constructor({ base, fetch, tokens, clock }) {
    this.#base = base;
    this.#fetch = fetch;
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /**
   * @param {string} type of the message that this stands for
   * @param {string} room
   * @param {string} document
   * @param {Record<string, any>} fields
   */
  async command(type, room, document, fields) {
    const [method, path, body] = REQUESTS[type](fields);
    const url = this.address(room, document) + path;
    const token = await this.#tokens.get();
    try {
      return await this.#call(method, url, body, token);
    } catch (error) {
      if (!(error instanceof DocLockError && error.problem?.status === 401)) throw error;
      return this.#call(method, url, body, await this.#tokens.renew());
    }
  }

  /**
   * @param {string} room
   * @param {string} document
   */
  address(room, document) {
    return `${this.#base()}/api/documents/${encodeURIComponent(room)}/${encodeURIComponent(document)}/lock`;
  }

  /**
   * @param {string} method
   * @param {string} url
   * @param {Record<string, any>} body
   * @param {string} token
   */
  async #call(method, url, body, token) {
    const ending = new AbortController();
    /** @type {Record<string, string>} */
    const headers = { authorization: `Bearer ${token}` };
    if (method !== "GET") headers["content-type"] = "application/json";
    const request = { method, headers, body: method === "GET" ? undefined : JSON.stringify(body), signal: ending.signal };
    const answer = this.#fetch()(url, request).then(async (answer) => ({ ok: answer.ok, body: await answer.json() }));
    try {
      const waits = body.wait_ms || url.includes("wait_ms=") ? POLL_MS : 0;
      const told = await within(this.#clock, ANSWER_MS + waits, answer);
      if (told.ok) return told.body;
      throw refused(told.body);
    } catch (error) {
      if (error instanceof DocLockError) throw error;
      if (error instanceof NoAnswer) ending.abort();
      throw unreachable("The server does not answer", error);
    }
  }
}
