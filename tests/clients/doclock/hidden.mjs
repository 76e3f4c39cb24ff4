// A page in a background tab, hidden and with its timers throttled, keeps its lock through the socket.
//
// Driven by raw DevTools protocol: playwright makes every page believe that it is in front. CHROMIUM is the program.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foreign, run, within } from "../doclock.mjs";
import { Server, Site } from "./world.mjs";

const { WebSocket } = foreign("ws");

class Chromium {
  #id = 0;
  #pending = new Map();

  async start() {
    this.profile = await mkdtemp(join(tmpdir(), "chromium-"));
    const sandbox = process.getuid() === 0 ? ["--no-sandbox"] : [];
    const args = [...sandbox, "--headless=new", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", `--user-data-dir=${this.profile}`, "about:blank"];
    this.process = spawn(process.env.CHROMIUM, args, { stdio: ["ignore", "ignore", "pipe"] });
    const address = await new Promise((resolve) => {
      let told = "";
      this.process.stderr.on("data", (data) => {
        told += data;
        const [, address] = told.match(/DevTools listening on (ws:\/\/\S+)/) ?? [];
        if (address) resolve(address);
      });
    });
    this.socket = new WebSocket(address);
    await new Promise((resolve) => this.socket.once("open", resolve));
    this.socket.on("message", (data) => {
      const { id, result, error } = JSON.parse(data);
      const { resolve, reject } = this.#pending.get(id) ?? {};
      if (error) reject?.(new Error(error.message));
      else resolve?.(result);
    });
    return this;
  }

  send(method, params = {}, sessionId) {
    const id = (this.#id += 1);
    this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
  }

  /** A tab in front of those before it; what is evaluated in it travels as JSON. */
  async open(url) {
    const { targetId } = await this.send("Target.createTarget", { url });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = async (code, ...values) => {
      const expression = `(${code})(...${JSON.stringify(values)})`;
      const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    };
    // The blank page that a tab begins with goes away, and takes with it what is being evaluated there.
    const isThere = () => page((url) => location.href.startsWith(url) && document.readyState === "complete", url);
    while (!(await isThere().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 20));
    return page;
  }

  async end() {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill();
    await gone;
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

// Run in the page.
const isLoaded = async () => {
  while (document.readyState !== "complete" || !document.querySelector("textarea")) await new Promise((resolve) => setTimeout(resolve, 20));
};
const acquire = async (url, room) => {
  const { createDocLock } = await import("/client/doclock.js");
  const getToken = async () => (await fetch(`/token?claims=${encodeURIComponent('{"sub": "alice"}')}`)).text();
  window.lock = createDocLock({ url, getToken }).lock(room, { ttlSeconds: 3 });
  window.lock.subscribe(() => {});
  const { fencingToken } = await window.lock.acquire();
  return fencingToken;
};
const isHidden = () => new Promise((resolve) => {
  const check = () => document.visibilityState === "hidden" && resolve(true);
  document.addEventListener("visibilitychange", check);
  check();
});
/** How long ten timers of 20 ms take: 200 ms in front, 10 s when a browser throttles them to one a second. */
const tenTimers = async () => {
  const start = Date.now();
  for (let n = 0; n < 10; n += 1) await new Promise((resolve) => setTimeout(resolve, 20));
  return Date.now() - start;
};
const snapshot = () => window.lock.getSnapshot();

const server = await new Server().start();
const site = await new Site().listen();
const chromium = await within(60, new Chromium().start());

await run([
  async function a_hidden_page_with_throttled_timers_keeps_its_lock_by_the_socket() {
    const room = `room-${randomUUID()}`;
    const page = await chromium.open(site.url);
    await page(isLoaded);
    assert.equal(await page(acquire, server.url, room), 1);
    await chromium.open("about:blank");
    assert.equal(await page(isHidden), true);
    assert.ok((await page(tenTimers)) > 5_000, "its timers are not throttled");
    const { canEdit, fencingToken } = await page(snapshot);
    assert.deepEqual([canEdit, fencingToken], [true, 1]);
    assert.equal((await server.events(room)).length, 1);
    const { lock } = await server.call("GET", `/api/documents/${room}/lock`);
    assert.equal(lock.activity, "away");
  },
]);

await chromium.end();
await server.end();
process.exit();
