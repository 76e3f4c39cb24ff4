// The connection: one socket, opened again whenever it is gone. It knows messages and their answers, and nothing of
// locks; what it means for a lock that the connection is gone, the lock decides by its own clock.

import { Stopwatch } from "../project-lock/timing.js";
import { DocLockError, DocLockUnauthorized, during, refused, unreachable } from "./errors.js";
import { pause } from "./retry.js";
import { Store } from "./store.js";

/**
 * @typedef {import("../doclock.js").ConnectionSnapshot} ConnectionSnapshot
 * @typedef {import("../doclock.js").WebSocketLike} WebSocketLike
 * @typedef {import("./wire.js").Message} Message
 * @typedef {{resolve: (message: Message) => void, reject: (error: unknown) => void, timer: unknown}} Pending
 */

const FIRST_DELAY_MS = 250;
const MOST_DELAY_MS = 10_000;
/** From opening a socket to `welcome`. */
const WELCOME_MS = 10_000;
/** After so much silence the server is asked for a sign of life, and has so long to give one. */
const SILENCE_MS = 15_000;
const ANSWER_MS = 5_000;
/** Only now is a missing connection worth telling a person. */
const LOST_MS = 5_000;
/** A command waits so long for a socket that is being opened, then goes by HTTP. */
const OPENING_MS = 2_000;

/** Closed with these, coming back with the same things would not help. */
const STOPPING = new Map([
  [4400, "BAD_REQUEST"],
  [4403, "ROOM_FORBIDDEN"],
]);

export class Connection {
  store;
  #environment;
  /** @type {ConnectionSnapshot} */
  #now = { state: "initial", lost: false, ownerId: null, name: null, role: null, error: null };
  /** @type {WebSocketLike | undefined} */
  #socket;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  #failures = 0;
  #goodbyeMs = 0;
  /** @type {Stopwatch | undefined} */
  #opening;
  #isWanted = false;
  /** @type {Record<"retry" | "welcome" | "silence" | "lost" | "token", unknown>} */
  #timers = { retry: 0, welcome: 0, silence: 0, lost: 0, token: 0 };

  /**
   * @param {{clock: import("../project-lock.js").ProjectLockClock, tokens: import("./tokens.js").Tokens, jitter: () => number,
   *   base: () => string, WebSocket: () => (new (url: string, protocols: string[]) => WebSocketLike) | null | undefined,
   *   guarded: (callback: () => unknown) => void, onMessage: (message: Message) => void, onState: () => void}} environment
   */
  constructor(environment) {
    this.#environment = environment;
    this.store = new Store(() => ({ ...this.#now }), environment.guarded);
  }

  get state() {
    return this.#now.state;
  }

  get isConnected() {
    return this.#now.state === "connected";
  }

  get isLost() {
    return this.#now.lost;
  }

  get me() {
    return this.#now.ownerId;
  }

  /** From now on there should be a connection. */
  want() {
    if (!this.#environment.WebSocket()) return this.#set({ state: "disconnected" });
    if (this.#isWanted && this.#now.state !== "disconnected") return;
    this.#isWanted = true;
    this.#failures = 0;
    this.#set({ state: "connecting", error: null });
    this.#timers.lost = this.#after(this.#timers.lost, LOST_MS, () => this.#set({ lost: true }));
    this.#open();
  }

  /** Ends it until it is wanted again. */
  drop() {
    this.#isWanted = false;
    this.#end(unreachable("The connection was closed"));
    this.#set({ state: "initial" });
  }

  /** Checks at once: after sleep, when the network is back, when someone looks. */
  wake() {
    if (!this.#isWanted) return;
    if (this.isConnected) return this.#ping();
    if (this.#now.state !== "reconnecting") return;
    // An attempt that was made into a dead network is given up, but not one that has only just begun.
    if (this.#socket && this.#opening && this.#opening.elapsed() < OPENING_MS) return;
    this.#end(unreachable("It is tried anew"));
    this.#failures = 0;
    this.#open();
  }

  /** Resolves when there is a connection, or there will be none soon. */
  async settled() {
    if (this.#now.state !== "connecting") return;
    const ending = new AbortController();
    const unsubscribe = this.store.subscribe(() => this.#now.state !== "connecting" && ending.abort());
    await pause(this.#environment.clock, OPENING_MS, ending.signal);
    unsubscribe();
  }

  /**
   * Sends a message and resolves to its answer. Rejects with what the server says, or as unreachable if the socket goes
   * before it does, or if nothing is said in time: a server that is slow is not left for that, only one that is silent.
   *
   * @param {Message} message
   * @returns {Promise<Message>}
   */
  request(message) {
    return new Promise((resolve, reject) => {
      const id = (this.#lastId += 1);
      const noAnswer = () => {
        this.#pending.delete(id);
        this.#ping();
        reject(unreachable("The server does not answer"));
      };
      this.#pending.set(id, { resolve, reject, timer: this.#environment.clock.setTimeout(noAnswer, ANSWER_MS) });
      this.#send({ ...message, id });
    });
  }

  /** @param {Message} message */
  #send(message) {
    try {
      if (!this.#socket) throw new Error("There is no socket");
      this.#socket.send(JSON.stringify(message));
    } catch (error) {
      this.#fail(unreachable("The socket is gone", error));
    }
  }

  async #open() {
    const { clock, tokens, base, WebSocket } = this.#environment;
    clock.clearTimeout(this.#timers.retry);
    const Socket = /** @type {NonNullable<ReturnType<typeof WebSocket>>} */ (WebSocket());
    const waits = {};
    this.#socket = /** @type {any} */ (waits);
    this.#opening = new Stopwatch(clock);
    try {
      const token = await tokens.get();
      if (this.#socket !== waits) return;
      const socket = new Socket(`${base().replace(/^http/, "ws")}/ws`, ["doclock.v1", `bearer.${token}`]);
      this.#socket = socket;
      this.#timers.welcome = this.#after(this.#timers.welcome, WELCOME_MS, () => this.#fail(unreachable("No welcome")));
      socket.onmessage = ({ data }) => socket === this.#socket && this.#receive(JSON.parse(data));
      socket.onclose = ({ code, reason }) => socket === this.#socket && this.#closed(code, reason);
      socket.onerror = () => {};
    } catch (error) {
      if (this.#socket === waits) this.#fail(error);
    }
  }

  /** @param {Message} message */
  #receive(message) {
    this.#listen();
    const pending = this.#pending.get(message.id);
    if (pending) {
      this.#pending.delete(message.id);
      this.#environment.clock.clearTimeout(pending.timer);
      if (message.type === "error") return pending.reject(refused(message));
      // A room is told in the same order as its notices, not when the caller gets round to it.
      if (message.type === "subscribed") this.#environment.guarded(() => this.#environment.onMessage(message));
      return pending.resolve(message);
    }
    if (message.type === "welcome") return this.#welcome(message);
    if (message.type === "goodbye") this.#goodbyeMs = message.reconnect_after_ms;
    this.#environment.guarded(() => this.#environment.onMessage(message));
  }

  /** @param {Message} message */
  #welcome({ owner_id = null, name = null, role = null }) {
    const { clock } = this.#environment;
    clock.clearTimeout(this.#timers.welcome);
    clock.clearTimeout(this.#timers.lost);
    this.#failures = 0;
    this.#goodbyeMs = 0;
    this.#renewInTime();
    this.#set({ state: "connected", lost: false, ownerId: owner_id, name, role, error: null });
  }

  /** A new token before the old one ends: otherwise the socket ends with it. */
  #renewInTime() {
    const { tokens } = this.#environment;
    this.#environment.clock.clearTimeout(this.#timers.token);
    const inMs = tokens.renewInMs;
    if (inMs === undefined) return;
    this.#timers.token = this.#after(this.#timers.token, inMs, async () => {
      try {
        const token = await tokens.renew();
        await this.request({ type: "auth", token });
      } catch (error) {
        if (error instanceof DocLockUnauthorized) return this.#fail(error);
      }
      if (this.isConnected) this.#renewInTime();
    });
  }

  #listen() {
    this.#timers.silence = this.#after(this.#timers.silence, SILENCE_MS, () => this.#ping());
  }

  #ping() {
    this.#send({ type: "ping" });
    const noSign = () => this.#fail(unreachable("The connection is silent"));
    if (this.#socket) this.#timers.silence = this.#after(this.#timers.silence, ANSWER_MS, noSign);
  }

  /**
   * @param {number} code
   * @param {string} reason
   */
  #closed(code, reason) {
    const stopping = STOPPING.get(code);
    if (stopping) return this.#fail(new DocLockError(`The server closed the connection: ${reason}`, { code: reason || stopping }));
    if (code !== 4401) return this.#fail(unreachable(`The connection was closed: ${code} ${reason}`));
    const { tokens } = this.#environment;
    if (!tokens.canRenew) return this.#fail(new DocLockUnauthorized(`The token is refused: ${reason}`));
    this.#end(unreachable("The token is refused"));
    const waits = /** @type {any} */ ({});
    this.#socket = waits;
    // The delay still grows: a server that refuses every token must not be asked without pause.
    tokens.renew().then(
      () => this.#socket === waits && this.#fail(unreachable(`The token was refused: ${reason}`)),
      (error) => this.#socket === waits && this.#fail(error),
    );
  }

  /**
   * The socket is gone, or of no use any more. Comes back later, unless the error says that this is in vain.
   *
   * @param {unknown} reason
   */
  #fail(reason) {
    const { clock, jitter } = this.#environment;
    const error = during(reason, "connect");
    this.#end(error);
    if (!this.#isWanted) return;
    if (!error.retryable) return this.#set({ state: "disconnected", error, lost: true });
    if (!this.#now.lost && this.isConnected) this.#timers.lost = this.#after(this.#timers.lost, LOST_MS, () => this.#set({ lost: true }));
    const grown = Math.min(MOST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    const delay = this.#goodbyeMs + grown * (0.5 + jitter() / 2);
    this.#failures += 1;
    this.#goodbyeMs = 0;
    this.#timers.retry = clock.setTimeout(() => this.#open(), delay);
    this.#set({ state: "reconnecting", error });
  }

  /** @param {unknown} error what those who wait for answers get */
  #end(error) {
    const { clock } = this.#environment;
    const socket = this.#socket;
    this.#socket = undefined;
    for (const name of /** @type {const} */ (["retry", "welcome", "silence", "token"])) clock.clearTimeout(this.#timers[name]);
    if (!this.#isWanted) clock.clearTimeout(this.#timers.lost);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject, timer } of pending) {
      clock.clearTimeout(timer);
      reject(error);
    }
    try {
      socket?.close?.(1000);
    } catch {
      // It was closed already.
    }
  }

  /** @param {Partial<ConnectionSnapshot>} change */
  #set(change) {
    const before = this.#now;
    this.#now = { ...before, ...change };
    this.store.changed();
    if (before.state !== this.#now.state || before.lost !== this.#now.lost) this.#environment.onState();
  }

  /**
   * @param {unknown} timer the one it takes the place of
   * @param {number} ms
   * @param {() => unknown} callback
   */
  #after(timer, ms, callback) {
    this.#environment.clock.clearTimeout(timer);
    return this.#environment.clock.setTimeout(callback, ms);
  }
}
