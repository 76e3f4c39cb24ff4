// A real server, real browsers, and a network between them that can be cut.
//
// DOCLOCK is the server's program, CHROMIUM the browser's, CLIENT_MODULES the folder whose node_modules has playwright-core.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { foreign } from "../doclock.mjs";

const { chromium } = foreign("playwright-core");

export const SECRET = "a secret of the tests, which is long enough";
const STATIC = new URL("../../../static/", import.meta.url);

const base64 = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

/** A token as any back end makes one. The server allows 30 s past `exp`. */
export function token(sub, { lastsSeconds = 3_600, ...claims } = {}) {
  const iat = Math.floor(Date.now() / 1000);
  const head = `${base64({ alg: "HS256", typ: "JWT" })}.${base64({ sub, name: sub, role: "editor", iat, exp: iat + lastsSeconds, ...claims })}`;
  return `${head}.${createHmac("sha256", SECRET).update(head).digest("base64url")}`;
}

/** doclock, which can be stopped and started again at the same address. */
export class Server {
  #process;
  #address = "127.0.0.1:0";

  async start() {
    this.#folder ??= await mkdtemp(join(tmpdir(), "doclock-"));
    const args = ["--listen", this.#address, "--database", `sqlite://${this.#folder}/doclock.db`];
    const env = { ...process.env, DOCLOCK_AUTH__SECRET: SECRET };
    this.#process = spawn(process.env.DOCLOCK, args, { env, stdio: ["ignore", "pipe", "ignore"] });
    const url = await new Promise((resolve, reject) => {
      let told = "";
      this.#process.stdout.on("data", (data) => {
        told += data;
        const [, url] = told.match(/ listens on (http:\/\/\S+)/) ?? [];
        if (url) resolve(url);
      });
      this.#process.once("exit", () => reject(new Error("the server did not start")));
    });
    this.url = new URL(url).origin;
    this.#address = new URL(url).host;
    return this;
  }

  async stop(signal = "SIGTERM") {
    const gone = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill(signal);
    await gone;
  }

  async end() {
    await this.stop("SIGKILL");
    await rm(this.#folder, { recursive: true });
  }

  async call(method, path, { as = "root", role = "admin", body } = {}) {
    const headers = { authorization: `Bearer ${token(as, { role })}`, "content-type": "application/json" };
    const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    return answer.json();
  }

  /** What happened to the locks of a room: [{type, at, fencing_token, owner_id, reason}]. */
  async events(room) {
    const { items } = await this.call("GET", `/api/admin/events?room=${room}&limit=1000`);
    return items.filter(({ type }) => /^Document(Locked|Unlocked)$/.test(type)).map((event) => ({ ...event, at: Date.parse(event.at) }));
  }

  #folder;
}

/** One person's way to the server. */
export class Network {
  #connections = new Set();
  #isCut = false;

  constructor(server) {
    this.tcp = createTcpServer((near) => {
      const { hostname, port } = new URL(server.url);
      const far = connect(Number(port), hostname);
      for (const [one, other] of [[near, far], [far, near]]) {
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
        one.on("data", (data) => this.#isCut || other.write(data));
      }
      this.#connections.add(near);
      near.on("close", () => this.#connections.delete(near));
    });
  }

  async listen() {
    await new Promise((resolve) => this.tcp.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.tcp.address().port}`;
    return this;
  }

  /** From now on nothing passes; nobody is told. */
  cut() {
    this.#isCut = true;
  }

  /** What was open is broken: bytes are missing from it. */
  restore() {
    this.#isCut = false;
    for (const connection of this.#connections) connection.destroy();
  }

  close() {
    this.restore();
    this.tcp.close();
  }
}

const HTML = `<!doctype html><link rel=icon href=data:,><textarea></textarea><p role=status></p>`;
const TYPES = { js: "text/javascript", mjs: "text/javascript", html: "text/html" };

/** The site that people's pages come from, with a back end that makes tokens: `/token?claims={"sub": "alice"}`. */
export class Site {
  /** @type {Map<string, {type: string, text: string}>} */
  pages = new Map();
  /** Answers `/documents/…`, where a story has one. */
  backEnd;

  async listen() {
    this.http = createServer(async (request, answer) => {
      const { pathname, searchParams } = new URL(request.url, "http://here");
      if (this.backEnd && pathname.startsWith("/documents/")) {
        let body = "";
        for await (const part of request) body += part;
        const { status, text } = this.backEnd(request.method, pathname, searchParams, body);
        return answer.writeHead(status).end(text);
      }
      const extra = this.pages.get(pathname);
      if (extra) return answer.setHeader("content-type", extra.type).end(extra.text);
      if (pathname === "/" || pathname === "/elsewhere") return answer.setHeader("content-type", "text/html").end(HTML);
      if (pathname === "/token") {
        const { sub, ...claims } = JSON.parse(searchParams.get("claims"));
        return answer.end(token(sub, claims));
      }
      try {
        const text = await readFile(new URL(`.${pathname}`, STATIC));
        answer.setHeader("content-type", TYPES[pathname.split(".").at(-1)] ?? "text/plain").end(text);
      } catch {
        answer.writeHead(404).end();
      }
    });
    await new Promise((resolve) => this.http.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.http.address().port}/`;
    return this;
  }
}

export function launch(options = {}) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
    args: [
      ...(process.getuid() === 0 ? ["--no-sandbox"] : []),
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
    ...options,
  });
}

export class World {
  async start() {
    this.server = await new Server().start();
    this.site = await new Site().listen();
    this.browser = await launch();
    return this;
  }

  async end() {
    await this.browser.close();
    await this.server.end();
    this.site.http.close();
  }

  /** Runs a story with people and a room of its own; no page may complain unless the story says so. */
  async story(tell, { complaints = false } = {}) {
    const people = [];
    const open = async (name, options) => {
      const person = new Person(this, name, options);
      people.push(person);
      return person.arrive();
    };
    try {
      await tell(open, `room-${randomUUID()}`);
      if (!complaints) assert.deepEqual(people.flatMap((person) => person.complaints), []);
    } finally {
      for (const person of people) await person.leave();
    }
  }
}

/** Someone with a browser profile and a network of their own. */
export class Person {
  complaints = [];

  constructor(world, name, { browser = world.browser, claims = {} } = {}) {
    Object.assign(this, { world, name, browser, claims });
  }

  async arrive() {
    this.network = await new Network(this.world.server).listen();
    this.context = await this.browser.newContext();
    this.context.on("console", (message) => ["error", "warning"].includes(message.type()) && this.complaints.push(message.text()));
    this.context.on("weberror", (error) => this.complaints.push(String(error.error())));
    this.page = await this.tab();
    return this;
  }

  async tab() {
    const page = await this.context.newPage();
    page.setDefaultTimeout(20_000);
    await page.goto(this.world.site.url);
    return page;
  }

  /** Opens the document in a page: `lock`, `client`, and `log` of every snapshot. */
  async open(room, options = {}, page = this.page) {
    const query = `claims=${encodeURIComponent(JSON.stringify({ sub: this.name, ...this.claims }))}`;
    await page.evaluate(openDocument, { room, options, url: this.network.url, query });
    return this;
  }

  /** Opens it, and waits for the connection. */
  async edit(room, options, page = this.page) {
    await this.open(room, options, page);
    await page.waitForFunction(() => window.lock.getSnapshot().connection === "connected");
    return this;
  }

  /** What a handle's function gives, or the code it fails with. */
  call(name, argument, page = this.page) {
    return page.evaluate(
      ([name, argument]) => window.lock[name](argument).then((value) => value ?? null, (error) => error.code ?? String(error)),
      [name, argument],
    );
  }

  snapshot(page = this.page) {
    return page.evaluate(() => window.lock.getSnapshot());
  }

  log(page = this.page) {
    return page.evaluate(() => window.log);
  }

  /** Waits until the snapshot has these values. */
  until(values, page = this.page) {
    const fits = (values) => {
      const snapshot = window.lock.getSnapshot();
      return Object.entries(values).every(([name, value]) => (name === "holder" ? (snapshot.holder?.ownerId ?? null) : snapshot[name]) === value);
    };
    return page.waitForFunction(fits, values, { polling: 20 });
  }

  async leave() {
    await this.context.close().catch(() => {});
    this.network.close();
  }
}

// Runs in the page.
async function openDocument({ room, options, url, query }) {
  const { createDocLock } = await import("/client/doclock.js");
  const textarea = document.querySelector("textarea");
  window.log = [];
  window.tokens = 0;
  const getToken = async () => {
    window.tokens += 1;
    return (await fetch(`/token?${query}`)).text();
  };
  window.client = createDocLock({ url, getToken });
  window.lock = window.client.lock(room, options);
  const draw = () => {
    const { state, reason, canEdit, fencingToken } = window.lock.getSnapshot();
    textarea.readOnly = !canEdit;
    window.log.push({ at: Date.now(), state, reason, canEdit, fencingToken });
  };
  window.lock.subscribe(draw);
  draw();
}
