// doclock with the demo's routes, for as long as the server itself has none: serves static/, keeps the demo's texts in
// memory, and passes everything else on to a real doclock.
//
//   DOCLOCK=target/debug/doclock node tests/clients/pages/dev-server.mjs [port]

import { spawn } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const STATIC = new URL("../../../static/", import.meta.url);
const SECRET = "a secret of the pages' tests, which is long enough";
const CSP =
  "default-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const LASTS_SECONDS = 8 * 3600;

const base64 = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const signed = (head) => createHmac("sha256", SECRET).update(head).digest("base64url");

export function tokenFor(claims) {
  const iat = Math.floor(Date.now() / 1000);
  const head = `${base64({ alg: "HS256", typ: "JWT" })}.${base64({ role: "editor", rooms: ["demo-*"], iat, exp: iat + LASTS_SECONDS, ...claims })}`;
  return `${head}.${signed(head)}`;
}

function callerOf({ headers }) {
  const [head, payload, signature] = (headers.authorization ?? "").replace("Bearer ", "").split(".");
  if (!payload || signed(`${head}.${payload}`) !== signature) throw problem(401, "TOKEN_INVALID", "The token is not good.");
  return JSON.parse(Buffer.from(payload, "base64url"));
}

const problem = (status, code, detail, more = {}) => ({
  status,
  body: { type: "about:blank", title: code, status, code, detail, retryable: false, server_time: new Date().toISOString(), ...more },
});

/** The demo's back end: what a user's own must do, in a few lines. */
export class Texts {
  #documents = new Map();

  #of(key) {
    if (!this.#documents.has(key)) this.#documents.set(key, { text: "", document_version: 0, fencing_token: 0, items: [] });
    return this.#documents.get(key);
  }

  #claim(document, token) {
    if (token < document.fencing_token) {
      const detail = `Token ${token} is older than ${document.fencing_token}, which has been claimed.`;
      throw problem(409, "STALE_TOKEN", detail, { current_token: document.fencing_token });
    }
    document.fencing_token = token;
  }

  get(key, token, history) {
    const document = this.#of(key);
    if (token !== null) this.#claim(document, Number(token));
    const { text, document_version, fencing_token, items } = document;
    return history ? { items } : { text, document_version, fencing_token };
  }

  put(key, by, { fencing_token, text }) {
    const document = this.#of(key);
    this.#claim(document, fencing_token);
    document.text = text;
    document.document_version += 1;
    const { document_version } = document;
    document.items.push({ document_version, fencing_token, saved_at: new Date().toISOString(), by, text });
    return { document_version, fencing_token };
  }
}

async function bodyOf(incoming) {
  let text = "";
  for await (const part of incoming) text += part;
  return JSON.parse(text || "{}");
}

async function demo(incoming, { pathname, searchParams }, texts) {
  const { method } = incoming;
  if (pathname === "/api/demo/sessions" && method === "POST") {
    const { name } = await bodyOf(incoming);
    if (typeof name !== "string" || !name.trim()) throw problem(422, "INVALID_FIELD", "A name is needed.", { field: "name" });
    const owner_id = `demo-${randomUUID().slice(0, 8)}`;
    return { token: tokenFor({ sub: owner_id, name: name.trim() }), owner_id, name: name.trim(), expires_in_ms: LASTS_SECONDS * 1000 };
  }
  const caller = callerOf(incoming);
  const key = pathname.slice("/api/demo/documents/".length);
  if (method === "GET") return texts.get(key, searchParams.get("fencing_token"), searchParams.has("history"));
  if (method === "PUT") return texts.put(key, caller.name, await bodyOf(incoming));
  throw problem(405, "METHOD_NOT_ALLOWED", "GET or PUT.");
}

async function file(pathname, answer) {
  const path = pathname === "/" ? "pages/demo/index.html" : pathname === "/about" ? "pages/about/index.html" : pathname.slice(1);
  try {
    const bytes = await readFile(new URL(path, STATIC));
    answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/plain", "content-security-policy": CSP, "cache-control": "no-store" }).end(bytes);
  } catch {
    answer.writeHead(404, { "content-security-policy": CSP }).end();
  }
}

const told = (answer, status, body) =>
  answer.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json", "cache-control": "no-store" }).end(JSON.stringify(body));

/** Starts both. Resolves to `{url, token, stop}`. */
export async function start({ port = 0, program = process.env.DOCLOCK } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "doclock-pages-"));
  const env = { ...process.env, DOCLOCK_AUTH__SECRET: SECRET };
  const child = spawn(program, ["--listen", "127.0.0.1:0", "--database", `sqlite://${folder}/doclock.db`], { env, stdio: ["ignore", "pipe", "inherit"] });
  const far = await new Promise((resolve, reject) => {
    let output = "";
    child.stdout.on("data", (data) => {
      output += data;
      const [, url] = output.match(/ listens on (http:\/\/\S+)/) ?? [];
      if (url) resolve(new URL(url));
    });
    child.once("exit", () => reject(new Error("doclock did not start")));
  });
  const texts = new Texts();
  const near = createServer(async (incoming, answer) => {
    const url = new URL(incoming.url, "http://here");
    if (url.pathname.startsWith("/api/demo/")) {
      const server_time = new Date().toISOString();
      return demo(incoming, url, texts).then(
        (body) => told(answer, 200, { ...body, server_time }),
        ({ status = 500, body }) => told(answer, status, body),
      );
    }
    if (!url.pathname.startsWith("/api/")) return file(url.pathname, answer);
    const { method, headers } = incoming;
    const passed = request({ host: far.hostname, port: far.port, path: incoming.url, method, headers }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      reply.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    incoming.pipe(passed);
  });
  near.on("upgrade", ({ method, url, headers }, socket, head) => {
    const other = connect(Number(far.port), far.hostname, () => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      other.write(`${method} ${url} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
      if (head.length > 0) other.write(head);
    });
    for (const [one, two] of [[socket, other], [other, socket]]) {
      one.pipe(two);
      one.on("error", () => two.destroy());
      one.on("close", () => two.destroy());
    }
  });
  await new Promise((resolve) => near.listen(port, "127.0.0.1", resolve));
  const stop = async () => {
    near.close();
    near.closeAllConnections();
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    await rm(folder, { recursive: true });
  };
  return { url: `http://127.0.0.1:${near.address().port}`, token: tokenFor, stop };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { url } = await start({ port: Number(process.argv[2] ?? 8099) });
  console.log(`the demo is at ${url}`);
}
