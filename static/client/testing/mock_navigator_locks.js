/**
 * @typedef {import("../testing.js").MockLockOutcome} MockLockOutcome
 * @typedef {{name: string, mode: LockMode}} Granted
 * @typedef {{name: string, mode: LockMode, clientId: string, callback: (lock: Granted | null) => unknown,
 *   resolve: (value: unknown) => void, reject: (error: unknown) => void, forget: () => void}} Request
 */

/** Names and outcomes a request can be told to have. */
const OUTCOMES = /** @type {const} */ ({
  unsupported: ["NotSupportedError", "Locks are not supported here"],
  denied: ["SecurityError", "Access to locks is denied here"],
});

/** What all tabs of one browser share. */
class Manager {
  /** @type {Set<Request>} */
  held = new Set();
  /** @type {Request[]} */
  waiting = [];
  tabs = 0;

  /** @param {Request} request */
  isGrantable({ name, mode }) {
    // First come, first served: nobody overtakes an earlier request for the same name.
    const others = [...this.held, ...this.waiting].filter((other) => other.name === name);
    return others.every((other) => this.held.has(other) && other.mode === "shared" && mode === "shared");
  }

  /** @param {Request} request */
  grant(request) {
    request.forget();
    this.held.add(request);
    const lock = Object.freeze({ name: request.name, mode: request.mode });
    // Freed before the request settles, as in browsers: whoever awaits the request finds the lock free.
    Promise.resolve()
      .then(() => request.callback(lock))
      .finally(() => this.release(request))
      .then(request.resolve, request.reject);
  }

  /** @param {Request} request */
  release(request) {
    this.held.delete(request);
    this.grantWaiting();
  }

  grantWaiting() {
    const waiting = this.waiting.splice(0);
    for (const request of waiting) {
      if (this.isGrantable(request)) this.grant(request);
      else this.waiting.push(request);
    }
  }

  /** @param {string} name */
  steal(name) {
    for (const request of this.held) {
      if (request.name !== name) continue;
      this.held.delete(request);
      request.reject(new DOMException("The lock was stolen", "AbortError"));
    }
  }
}

/**
 * `navigator.locks` of one tab. Locks are held until the callback's promise settles; `ifAvailable`, `signal`, `steal` and
 * `mode` do what they do in browsers, and so do wrong combinations of them.
 */
export class MockNavigatorLocks {
  /** @type {Manager} */
  #manager;
  #clientId;
  #isClosed = false;

  /**
   * What happens to the next requests, one each; when it is empty they are served as a browser would.
   *
   * @type {MockLockOutcome[]}
   */
  queue = [];

  /** @param {MockNavigatorLocks} [sameBrowser] another tab of the browser this tab is of */
  constructor(sameBrowser) {
    this.#manager = sameBrowser ? sameBrowser.#manager : new Manager();
    this.#clientId = `tab-${(this.#manager.tabs += 1)}`;
  }

  /** Another tab of the same browser. */
  openTab() {
    return new MockNavigatorLocks(this);
  }

  /** Closes this tab: its locks go to whoever waits, and its requests are forgotten. */
  close() {
    this.#isClosed = true;
    const isOurs = (/** @type {Request} */ { clientId }) => clientId === this.#clientId;
    for (const request of [...this.#manager.held].filter(isOurs)) this.#manager.held.delete(request);
    this.#manager.waiting = this.#manager.waiting.filter((request) => !isOurs(request));
    this.#manager.grantWaiting();
  }

  /**
   * @param {string} name
   * @param {LockOptions | ((lock: Granted | null) => unknown)} optionsOrCallback
   * @param {(lock: Granted | null) => unknown} [callback]
   * @returns {Promise<any>}
   */
  async request(name, optionsOrCallback, callback) {
    const hasOptions = typeof optionsOrCallback !== "function";
    const options = hasOptions ? optionsOrCallback : {};
    const work = hasOptions ? callback : optionsOrCallback;
    if (typeof work !== "function") throw new TypeError("request needs a callback");
    check(name, options);
    const outcome = this.queue.shift();
    if (this.#isClosed || outcome === "timeout") return new Promise(() => {});
    if (outcome instanceof Error) throw outcome;
    if (outcome === "unavailable") return work(null);
    if (outcome !== undefined && outcome !== "granted") throw domException(outcome);
    return this.#ask(name, options, work);
  }

  /**
   * @param {string} name
   * @param {LockOptions} options
   * @param {(lock: Granted | null) => unknown} callback
   */
  #ask(name, { mode = "exclusive", ifAvailable = false, steal = false, signal }, callback) {
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#manager.waiting = this.#manager.waiting.filter((waiting) => waiting !== request);
        reject(signal?.reason);
        this.#manager.grantWaiting();
      };
      const forget = () => signal?.removeEventListener("abort", abort);
      /** @type {Request} */
      const request = { name, mode, clientId: this.#clientId, callback, resolve, reject, forget };
      if (steal) this.#manager.steal(name);
      if (steal || this.#manager.isGrantable(request)) return this.#manager.grant(request);
      if (ifAvailable) return resolve(Promise.resolve(null).then(callback));
      signal?.addEventListener("abort", abort);
      this.#manager.waiting.push(request);
    });
  }

  /** @returns {Promise<{held: {name: string, mode: LockMode, clientId: string}[], pending: {name: string, mode: LockMode, clientId: string}[]}>} */
  async query() {
    const inShort = (/** @type {Request} */ { name, mode, clientId }) => ({ name, mode, clientId });
    return { held: [...this.#manager.held].map(inShort), pending: this.#manager.waiting.map(inShort) };
  }
}

/**
 * @param {string} name
 * @param {LockOptions} options
 */
function check(name, { mode, ifAvailable, steal, signal }) {
  const refuse = (/** @type {string} */ message) => {
    throw new DOMException(message, "NotSupportedError");
  };
  if (name.startsWith("-")) refuse("Names that start with - are reserved");
  if (mode !== undefined && mode !== "exclusive" && mode !== "shared") throw new TypeError("mode is exclusive or shared");
  if (steal && ifAvailable) refuse("steal and ifAvailable exclude each other");
  if (steal && mode === "shared") refuse("Only an exclusive lock can be stolen");
  if (signal && (steal || ifAvailable)) refuse("signal excludes steal and ifAvailable");
  signal?.throwIfAborted();
}

/** @param {keyof typeof OUTCOMES} outcome */
function domException(outcome) {
  const [name, message] = OUTCOMES[outcome];
  return new DOMException(message, name);
}
