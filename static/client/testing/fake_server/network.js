// A tab: what a page finds in its browser, with a network that can be cut and a renderer that can be frozen.

import { MockNavigatorLocks } from "../mock_navigator_locks.js";
import { FakeSocket } from "./socket.js";
import { answer } from "./http.js";

/** @typedef {import("./server.js").Server} Server */

export class Tab {
  isCut = false;
  /** @type {Set<FakeSocket>} */
  sockets = new Set();
  window = new EventTarget();
  document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  options;
  #server;
  /** @type {Map<string, string>} */
  #storage;
  #locks;
  #isFrozen = false;
  #isClosed = false;
  /** @type {(() => void)[]} */
  #later = [];

  /**
   * @param {Server} server
   * @param {{storage?: Map<string, string>, locks?: MockNavigatorLocks}} [from] what a tab before it leaves
   */
  constructor(server, { storage = new Map(), locks = new MockNavigatorLocks() } = {}) {
    this.#server = server;
    this.#storage = storage;
    this.#locks = locks;
    const tab = this;
    this.options = Object.freeze({
      url: server.url,
      clock: this.#clock(),
      random: () => server.newId(),
      jitter: () => 0.5,
      fetch: (/** @type {string} */ url, /** @type {any} */ request) => this.#fetch(url, request),
      WebSocket: class extends FakeSocket {
        /**
         * @param {string} _url
         * @param {string[]} protocols
         */
        constructor(_url, protocols) {
          super(server, tab, protocols);
        }
      },
      storage: {
        getItem: (/** @type {string} */ key) => storage.get(key) ?? null,
        setItem: (/** @type {string} */ key, /** @type {string} */ value) => void storage.set(key, value),
        removeItem: (/** @type {string} */ key) => void storage.delete(key),
      },
      navigator: { locks, sendBeacon: (/** @type {string} */ url, /** @type {string} */ data) => this.#beacon(url, data) },
      window: this.window,
      document: this.document,
    });
  }

  /**
   * Runs code of the page: later if it is frozen, not at all if it is closed.
   *
   * @param {() => unknown} code
   */
  run(code) {
    if (this.#isClosed) return;
    if (this.#isFrozen) this.#later.push(() => this.run(code));
    else code();
  }

  /** Takes the network away. `reset` breaks connections at once, otherwise they fall silent. */
  cut({ reset = false } = {}) {
    this.isCut = true;
    if (reset) for (const socket of [...this.sockets]) socket.end(1006, "");
  }

  /** Gives the network back. Connections of before are broken. */
  restore() {
    this.isCut = false;
    for (const socket of [...this.sockets]) socket.end(1006, "");
    this.window.dispatchEvent(new Event("online"));
  }

  /** Stops the page's code, as a browser does with pages it puts to sleep. The browser itself goes on. */
  freeze() {
    this.#isFrozen = true;
  }

  thaw() {
    this.#isFrozen = false;
    for (const code of this.#later.splice(0)) code();
  }

  hide() {
    this.document.visibilityState = "hidden";
    this.document.dispatchEvent(new Event("visibilitychange"));
  }

  show() {
    this.document.visibilityState = "visible";
    this.document.dispatchEvent(new Event("visibilitychange"));
  }

  /** A key is pressed. */
  type() {
    this.window.dispatchEvent(new Event("keydown"));
  }

  /** Goes to another page: this one is kept as it is, for `comeBack`. */
  leave() {
    this.window.dispatchEvent(Object.assign(new Event("pagehide"), { persisted: true }));
  }

  comeBack() {
    this.window.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  }

  /** Ends this page as closing a tab does. */
  close() {
    this.leave();
    this.kill();
  }

  /** Ends this page without a word, as when the browser is killed. */
  kill() {
    this.#isClosed = true;
    for (const socket of [...this.sockets]) socket.end(1006, "");
    this.#locks.close();
  }

  /** Ends this page and returns the one that takes its place in the same tab. */
  reload() {
    this.close();
    return new Tab(this.#server, { storage: this.#storage, locks: this.#locks.openTab() });
  }

  /** Another tab with a copy of what this one has stored. */
  duplicate() {
    return new Tab(this.#server, { storage: new Map(this.#storage), locks: this.#locks.openTab() });
  }

  #clock() {
    const { clock } = this.#server;
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimeout: (/** @type {() => void} */ callback, /** @type {number} */ ms) => clock.setTimeout(() => this.run(callback), ms),
      clearTimeout: (/** @type {unknown} */ timer) => clock.clearTimeout(timer),
    };
  }

  /**
   * @param {string} url
   * @param {{method: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal}} request
   */
  async #fetch(url, request) {
    if (this.isCut || !this.#server.isUp) throw new TypeError("Failed to fetch");
    const { status, body } = await answer(this.#server, url, request);
    if (this.isCut) throw new TypeError("Failed to fetch");
    // A page that stands still, or is gone, gets its answers later or never.
    await new Promise((/** @type {(nothing?: unknown) => void} */ resolve) => this.run(resolve));
    return { ok: status < 400, status, json: async () => JSON.parse(JSON.stringify(body)) };
  }

  /**
   * @param {string} url
   * @param {string} body
   */
  #beacon(url, body) {
    if (!this.isCut && this.#server.isUp) answer(this.#server, url, { method: "POST", headers: {}, body });
    return true;
  }
}
