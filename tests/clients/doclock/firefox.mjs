// doclock.js in Firefox against a real server: two people fight for a lock and see each other live.
//
// FIREFOX is the program. It is driven by WebDriver BiDi, its own protocol, over `ws` of CLIENT_MODULES.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foreign, run, within } from "../doclock.mjs";
import { Network, Server, Site } from "./world.mjs";

const { WebSocket } = foreign("ws");

/** A Firefox of one's own, with a profile that is thrown away. */
class Firefox {
  #id = 0;
  #pending = new Map();

  async start() {
    this.profile = await mkdtemp(join(tmpdir(), "firefox-"));
    const args = ["--headless", "--no-remote", "--profile", this.profile, "--remote-debugging-port", "0"];
    // What it keeps for itself goes where its profile is.
    this.process = spawn(process.env.FIREFOX, args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: this.profile } });
    const address = await new Promise((resolve) => {
      let told = "";
      this.process.stderr.on("data", (data) => {
        told += data;
        const [, address] = told.match(/WebDriver BiDi listening on (ws:\/\/\S+)/) ?? [];
        if (address) resolve(address);
      });
    });
    this.socket = new WebSocket(`${address}/session`);
    await new Promise((resolve) => this.socket.once("open", resolve));
    this.socket.on("message", (data) => {
      const { id, type, result, message } = JSON.parse(data);
      const { resolve, reject } = this.#pending.get(id) ?? {};
      if (type === "success") resolve?.(result);
      else reject?.(new Error(message));
    });
    await this.send("session.new", { capabilities: {} });
    return this;
  }

  send(method, params) {
    const id = (this.#id += 1);
    this.socket.send(JSON.stringify({ id, method, params }));
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
  }

  /** A page of someone with cookies and storage of their own. */
  async open(url) {
    const { userContext } = await this.send("browser.createUserContext", {});
    const { context } = await this.send("browsingContext.create", { type: "tab", userContext });
    await this.send("browsingContext.navigate", { context, url, wait: "complete" });
    // What the code gives travels as JSON.
    return async (code, ...values) => {
      const expression = `(async () => JSON.stringify(await (${code})(...${JSON.stringify(values)}) ?? null))()`;
      const { type, result, exceptionDetails } = await this.send("script.evaluate", { expression, target: { context }, awaitPromise: true });
      if (type !== "success") throw new Error(exceptionDetails.text);
      return JSON.parse(result.value);
    };
  }

  async end() {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill();
    await gone;
    await rm(this.profile, { recursive: true, force: true });
  }
}

// Run in the page.
async function openDocument(url, room, claims) {
  const { createDocLock } = await import("/client/doclock.js");
  const getToken = async () => (await fetch(`/token?claims=${encodeURIComponent(JSON.stringify(claims))}`)).text();
  window.lock = createDocLock({ url, getToken }).lock(room, { ttlSeconds: 9 });
  window.lock.subscribe(() => {});
}

async function until(values) {
  const fits = () => {
    const { holder, ...snapshot } = window.lock.getSnapshot();
    const shown = { ...snapshot, holder: holder?.ownerId ?? null };
    return Object.entries(values).every(([name, value]) => shown[name] === value);
  };
  while (!fits()) await new Promise((resolve) => setTimeout(resolve, 20));
}

const call = (name, ...values) => window.lock[name](...values).then((value) => value ?? null, ({ code }) => code);

const server = await new Server().start();
const site = await new Site().listen();
const firefox = await within(60, new Firefox().start());

await run([
  async function two_people_in_firefox_fight_for_a_lock_and_see_each_other_live() {
    const room = `room-${randomUUID()}`;
    const people = {};
    for (const name of ["alice", "bob"]) {
      const network = await new Network(server).listen();
      people[name] = { name, network, page: await firefox.open(site.url) };
      await people[name].page(openDocument, network.url, room, { sub: name });
      await people[name].page(until, { connection: "connected" });
    }
    const { alice, bob } = people;
    const outcomes = await Promise.all([alice.page(call, "acquire"), bob.page(call, "acquire")]);
    assert.equal(outcomes.filter((outcome) => outcome === "LOCK_HELD").length, 1);
    const [winner, loser] = outcomes[0] === "LOCK_HELD" ? [bob, alice] : [alice, bob];
    await loser.page(until, { holder: winner.name, canEdit: false });
    winner.network.cut();
    await winner.page(until, { state: "readonly", reason: "offline" });
    await loser.page(until, { holder: null });
    assert.equal((await loser.page(call, "acquire")).fencingToken, 2);
    winner.network.restore();
    await winner.page(until, { reason: "expired", holder: loser.name });
    const events = await server.events(room);
    assert.deepEqual(events.map(({ owner_id, reason }) => reason ?? owner_id), [winner.name, "expired", loser.name]);
  },
]);

await firefox.end();
await server.end();
process.exit();
