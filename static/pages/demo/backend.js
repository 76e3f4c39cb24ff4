// The demo's own back end, which does what any back end of an editor must do: whoever loads for editing claims its fencing
// token first, and a save with an older token than the newest claimed one is refused.

/** @typedef {{text: string, version: string, fencingToken: number}} Loaded */

const ANSWER_MS = 5_000;

/** The back end said no. */
export class Refused extends Error {
  /** @param {Record<string, any>} problem */
  constructor(problem) {
    super(problem.detail ?? problem.title ?? problem.code);
    this.code = /** @type {string} */ (problem.code ?? "UNKNOWN");
    this.currentToken = /** @type {number | null} */ (problem.current_token ?? null);
  }
}

export class Backend {
  #fetch;
  #room;
  #token;

  /** @param {{fetch: typeof fetch, room: string, token: () => string}} environment */
  constructor({ fetch, room, token }) {
    this.#fetch = fetch;
    this.#room = room;
    this.#token = token;
  }

  /**
   * Reads; with a token, claims it before.
   *
   * @param {string} document
   * @param {number} [fencingToken]
   * @returns {Promise<Loaded>}
   */
  async load(document, fencingToken) {
    const query = fencingToken === undefined ? "" : `?fencing_token=${fencingToken}`;
    const { text, document_version, fencing_token } = await this.#call("GET", document, query);
    return { text, version: document_version, fencingToken: fencing_token };
  }

  /**
   * @param {string} document
   * @param {{fencingToken: number, text: string}} save
   * @param {{keepalive?: boolean}} [options]
   * @returns {Promise<string>} the version it made
   */
  async save(document, { fencingToken: fencing_token, text }, options) {
    const { document_version } = await this.#call("PUT", document, "", { fencing_token, text }, options);
    return document_version;
  }

  /**
   * @param {string} method
   * @param {string} document
   * @param {string} query
   * @param {object} [body]
   * @param {{keepalive?: boolean}} [options]
   */
  async #call(method, document, query, body, options) {
    const url = `/api/demo/documents/${encodeURIComponent(this.#room)}/${encodeURIComponent(document)}${query}`;
    const headers = { authorization: `Bearer ${this.#token()}`, ...(body && { "content-type": "application/json" }) };
    const signal = options?.keepalive ? undefined : AbortSignal.timeout(ANSWER_MS);
    const answer = await this.#fetch(url, { method, headers, body: body && JSON.stringify(body), signal, ...options });
    const told = await answer.json();
    if (!answer.ok) throw new Refused(told);
    return told;
  }
}
