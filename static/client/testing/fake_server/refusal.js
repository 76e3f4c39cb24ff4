/** What a rule of the server says no with: a status, a code, and what helps. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {Record<string, unknown>} [rest]
   */
  constructor(status, code, rest = {}) {
    super(code);
    const retryable = code === "LOCK_HELD" || status === 429 || status === 503;
    this.problem = { status, code, title: code, detail: `${code}, says the fake server.`, retryable, ...rest };
  }
}

/**
 * @param {Record<string, unknown>} fields
 * @param {string[]} known
 */
export function mustKnow(fields, known) {
  const field = Object.keys(fields).find((name) => !known.includes(name));
  if (field) throw new Refusal(422, "UNKNOWN_FIELD", { field });
}
