// The demo's state: who one is, the room, the document that is open. Views draw it, and call what they find here.

import { createDocLock } from "/client/doclock.js";
import { Backend } from "./backend.js";
import { OpenDocument } from "./document.js";
import { Drafts } from "./drafts.js";
import { Happenings } from "./happenings.js";
import { forget } from "./session.js";

const DOCUMENTS = ["minutes", "recipe", "letter"];
const DEFAULT_ROOM = "demo-room";
const MOST_TTL_SECONDS = 300;

export class Demo {
  /** @type {OpenDocument | null} */
  document = null;
  hasVanished = false;
  /** @type {string[]} found or made by name, beside those that are always there */
  #more = [];
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * @param {import("./session.js").DemoSession} session
   * @param {import("./network.js").Network} network
   */
  constructor(session, network) {
    const query = new URLSearchParams(location.search);
    const room = query.get("room") ?? "";
    const ttl = Number(query.get("ttl"));
    this.session = session;
    this.network = network;
    this.room = room.startsWith("demo-") ? room : DEFAULT_ROOM;
    this.ttlSeconds = ttl >= 3 && ttl <= MOST_TTL_SECONDS ? ttl : undefined;
    this.drafts = new Drafts(sessionStorage, this.room);
    this.happenings = new Happenings(this.room);
    this.client = createDocLock({
      token: session.token,
      fetch: /** @type {any} */ (network.fetch),
      WebSocket: network.WebSocket,
      navigator: { locks: navigator.locks, sendBeacon: network.sendBeacon },
    });
    this.backend = new Backend({ fetch: network.fetch, room: this.room, token: () => session.token });
    this.people = this.client.room(this.room);
    network.onFrame = (frame) => this.happenings.hear(frame) && this.#changed();
  }

  start() {
    // Before anything is watched: doclock.js listens from then on, and gives the lock up when the page goes.
    window.addEventListener("pagehide", () => this.document?.saveAtOnce(), { capture: true });
    this.people.subscribe(() => this.#changed());
    this.client.connection.subscribe(() => this.#changed());
    this.network.subscribe(() => this.#changed());
    window.addEventListener("hashchange", () => this.#openNamed());
    this.#openNamed();
  }

  /** @param {() => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed() {
    for (const listener of [...this.#listeners]) listener();
  }

  /** @returns {{name: string, lock: import("/client/doclock.js").RoomLock | undefined}[]} */
  get documents() {
    const { locks } = this.people.getSnapshot();
    const names = new Set([...DOCUMENTS, ...locks.map(({ document }) => document), ...this.#more]);
    return [...names].map((name) => ({ name, lock: locks.find(({ document }) => document === name) }));
  }

  #openNamed() {
    this.open(decodeURIComponent(location.hash.slice(1)) || DOCUMENTS[0]);
  }

  /** @param {string} name */
  async open(name) {
    if (this.document?.name === name) return;
    const before = this.document;
    if (!DOCUMENTS.includes(name) && !this.#more.includes(name)) this.#more = [...this.#more, name];
    const lock = this.client.lock(this.room, { document: name, ttlSeconds: this.ttlSeconds });
    this.document = new OpenDocument(name, { lock, backend: this.backend, drafts: this.drafts });
    if (location.hash.slice(1) !== encodeURIComponent(name)) location.hash = encodeURIComponent(name);
    this.#changed();
    this.document.open();
    // Nobody edits a document that they have left.
    await before?.lock.release({ documentVersion: before.saveNow }).catch(() => {});
    before?.close();
  }

  /** @param {"new" | "me"} as */
  openWindow(as) {
    const url = new URL(location.href);
    url.searchParams.set("as", as);
    const [width, height] = [Math.max(480, Math.floor(screen.availWidth / 2)), screen.availHeight];
    // A window of its own for someone new, who gets no copy of this one's storage; a tab for oneself, which does.
    if (as === "new") window.open(url, "_blank", `noopener,popup,width=${width},height=${height},left=${screen.availWidth - width},top=0`);
    else window.open(url, "_blank");
  }

  toggleNetwork() {
    if (this.network.isCut) this.network.restore();
    else this.network.cut();
  }

  /** As if the browser had crashed: nothing is sent any more, not even a goodbye. */
  vanish() {
    this.hasVanished = true;
    this.network.cut();
    this.#changed();
  }

  comeBack() {
    location.reload();
  }

  leave() {
    forget(sessionStorage);
    location.reload();
  }
}
