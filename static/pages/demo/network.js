// This tab's way to the server: everything goes through here, so that it can be shown ("Under the hood") and cut.

/**
 * @typedef {object} Entry one thing that went over the network
 * @property {number} id
 * @property {number} at
 * @property {"request" | "sent" | "received" | "socket"} kind
 * @property {string} title
 * @property {number} [status]
 * @property {number} [tookMs]
 * @property {unknown} [body] what was sent or received, without tokens
 * @property {unknown} [answer]
 */

const MOST_ENTRIES = 200;
const SECRETS = new Set(["token", "access_token"]);

/** Enough to tell two tokens apart, too little to use one. */
export const shortened = (/** @type {string} */ secret) => `${secret.slice(0, 6)}…`;

/** @param {unknown} value @returns {unknown} the same without tokens */
function withoutSecrets(value) {
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, SECRETS.has(key) && typeof inner === "string" ? shortened(inner) : withoutSecrets(inner)]),
  );
}

/** @param {unknown} text */
function parsed(text) {
  try {
    return withoutSecrets(JSON.parse(String(text)));
  } catch {
    return undefined;
  }
}

export class Network {
  isCut = false;
  /** @type {readonly Entry[]} newest first */
  entries = [];
  #lastId = 0;
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /** @type {Set<Socket>} */
  #sockets = new Set();
  /** @type {(message: Record<string, any>) => void} hears every frame that arrives */
  onFrame = () => {};

  /** @param {() => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed() {
    for (const listener of [...this.#listeners]) listener();
  }

  /** @param {Omit<Entry, "id" | "at">} entry */
  record(entry) {
    const made = { id: (this.#lastId += 1), at: Date.now(), ...entry };
    this.entries = [made, ...this.entries].slice(0, MOST_ENTRIES);
    this.#changed();
    return made.id;
  }

  /** @param {number} id @param {Partial<Entry>} more */
  #amend(id, more) {
    this.entries = this.entries.map((entry) => (entry.id === id ? { ...entry, ...more } : entry));
    this.#changed();
  }

  clear() {
    this.entries = [];
    this.#changed();
  }

  /** As if the cable were pulled: what is open breaks, nothing new gets through. */
  cut() {
    this.isCut = true;
    for (const socket of [...this.#sockets]) socket.break();
    this.record({ kind: "socket", title: "cut" });
  }

  restore() {
    this.isCut = false;
    this.record({ kind: "socket", title: "restored" });
    // As a browser does when its network is back: whoever waits to try again tries now.
    window.dispatchEvent(new Event("online"));
  }

  /** @type {typeof globalThis.fetch} */
  fetch = async (input, init = {}) => {
    const url = new URL(String(input), location.origin);
    const method = init.method ?? "GET";
    const id = this.record({ kind: "request", title: `${method} ${url.pathname}${url.search}`, body: parsed(init.body) });
    const startedAt = performance.now();
    try {
      if (this.isCut) throw new TypeError("The network is cut");
      const answer = await fetch(input, init);
      if (this.isCut) throw new TypeError("The network is cut");
      const copy = answer.clone();
      this.#amend(id, { status: answer.status, tookMs: Math.round(performance.now() - startedAt) });
      copy.text().then((text) => this.#amend(id, { answer: parsed(text) }), () => {});
      return answer;
    } catch (error) {
      this.#amend(id, { status: 0, tookMs: Math.round(performance.now() - startedAt) });
      throw error;
    }
  };

  /** @type {(url: string, data: string) => boolean} */
  sendBeacon = (url, data) => {
    this.record({ kind: "request", title: `POST ${new URL(url).pathname}`, body: parsed(data) });
    return this.isCut || navigator.sendBeacon(url, data);
  };

  /** A class to make sockets with, as `createDocLock` wants one. */
  get WebSocket() {
    const network = this;
    return class extends Socket {
      /** @param {string} url @param {string[]} protocols */
      constructor(url, protocols) {
        super(network, url, protocols);
      }
    };
  }

  /** @param {Socket} socket */
  opened(socket) {
    this.#sockets.add(socket);
  }

  /** @param {Socket} socket */
  closed(socket) {
    this.#sockets.delete(socket);
  }

  /** @param {"sent" | "received"} kind @param {string} data */
  frame(kind, data) {
    const body = /** @type {Record<string, any>} */ (parsed(data) ?? {});
    this.record({ kind, title: body.type ?? "?", body });
    if (kind === "received") this.onFrame(body);
  }
}

const CLOSED = 3;

class Socket {
  /** @type {((event: any) => unknown) | null} */
  onopen = null;
  /** @type {((event: any) => unknown) | null} */
  onmessage = null;
  /** @type {((event: any) => unknown) | null} */
  onclose = null;
  /** @type {((event: any) => unknown) | null} */
  onerror = null;
  #network;
  /** @type {WebSocket | null} */
  #real = null;

  /** @param {Network} network @param {string} url @param {string[]} protocols */
  constructor(network, url, protocols) {
    this.#network = network;
    if (network.isCut) {
      setTimeout(() => this.onclose?.({ code: 1006, reason: "" }), 50);
      return;
    }
    const real = (this.#real = new WebSocket(url, protocols));
    network.opened(this);
    network.record({ kind: "socket", title: "open", body: { url } });
    real.onopen = (event) => this.onopen?.(event);
    real.onerror = (event) => this.onerror?.(event);
    real.onmessage = (event) => {
      network.frame("received", event.data);
      this.onmessage?.(event);
    };
    real.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  get readyState() {
    return this.#real?.readyState ?? CLOSED;
  }

  /** @param {string} data */
  send(data) {
    this.#network.frame("sent", data);
    this.#real?.send(data);
  }

  /** @param {number} [code] @param {string} [reason] */
  close(code, reason) {
    this.#real?.close(code, reason);
  }

  /** The network is gone. */
  break() {
    const real = this.#real;
    if (!real) return;
    real.onmessage = real.onclose = null;
    real.close();
    this.#closed(1006, "");
  }

  /** @param {number} code @param {string} reason */
  #closed(code, reason) {
    this.#real = null;
    this.#network.closed(this);
    this.#network.record({ kind: "socket", title: "close", body: { code, reason } });
    this.onclose?.({ code, reason });
  }
}
