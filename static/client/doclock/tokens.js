import { DocLockError, DocLockUnauthorized } from "./errors.js";

/** A token is renewed this long before it ends. */
const EARLY_MS = 30_000;
const LEAST_RENEWAL_MS = 10_000;

export class Tokens {
  /** The last one, which may have expired. */
  current = "";
  #options;
  #clock;
  /** @type {Promise<string> | undefined} */
  #asking;

  /**
   * @param {{token?: string, getToken?: () => string | PromiseLike<string>}} options
   * @param {{now(): number}} clock
   */
  constructor(options, clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get canRenew() {
    return this.#options.getToken !== undefined;
  }

  /** @returns {Promise<string>} a token that has not expired as far as this clock can tell */
  async get() {
    const token = this.#options.token ?? this.current;
    if (token && (!this.canRenew || this.#lastsMs(token) > 0)) return (this.current = token);
    return this.renew();
  }

  /**
   * Asks for a new one. Those who ask at the same time get the same.
   *
   * @returns {Promise<string>}
   */
  renew() {
    this.#asking ??= this.#ask().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #ask() {
    const { getToken, token } = this.#options;
    if (!getToken) throw new DocLockUnauthorized(token ? "The token is refused, and there is no getToken" : "There is neither token nor getToken");
    try {
      return (this.current = await getToken());
    } catch (error) {
      if (error instanceof DocLockUnauthorized) throw error;
      throw new DocLockError("getToken failed", { code: "UNREACHABLE", retryable: true, cause: error });
    }
  }

  /** How long until the token should be renewed; nothing if it cannot be, or does not end. */
  get renewInMs() {
    const lasts = this.#lastsMs(this.current);
    if (!this.canRenew || lasts === Infinity) return undefined;
    return Math.max(LEAST_RENEWAL_MS, lasts - EARLY_MS);
  }

  /** @param {string} token */
  #lastsMs(token) {
    try {
      const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
      const { exp, iat } = JSON.parse(atob(payload));
      if (typeof exp !== "number") return Infinity;
      // This clock may be behind the one that dated the token: then it never lasts longer than it was made for.
      return Math.min(exp * 1000 - this.#clock.now(), typeof iat === "number" ? (exp - iat) * 1000 : Infinity);
    } catch {
      return Infinity;
    }
  }
}
