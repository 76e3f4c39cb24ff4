// doclock as it starts for anyone who tries it: on loopback, with a secret of its own, and so with the demo.
//
// DOCLOCK is its program. With PAGES_FROM_DISK the pages come from static/ as it is now, not from within the program, so that
// a change to them needs no build:
//
//   DOCLOCK=target/debug/doclock PAGES_FROM_DISK=1 node tests/clients/pages/server.mjs 8099

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { CSP, STATIC, TYPES } from "./files.mjs";

const FILES = /^\/(pages|client|vendor)\//;

/** Starts it. Resolves to its address and what stops it. */
export async function start({ port = 0, settings = {} } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "doclock-pages-"));
  const args = ["--listen", `127.0.0.1:${process.env.PAGES_FROM_DISK ? 0 : port}`, "--database", `sqlite://${folder}/doclock.db`];
  const child = spawn(process.env.DOCLOCK, args, { env: { ...process.env, ...settings }, stdio: ["ignore", "pipe", "ignore"] });
  const address = await new Promise((resolve, reject) => {
    let output = "";
    child.stdout.on("data", (data) => {
      output += data;
      const [, url] = output.match(/ listens on (http:\/\/\S+)/) ?? [];
      if (url) resolve(new URL(url));
    });
    child.once("exit", () => reject(new Error("doclock did not start")));
  });
  const near = process.env.PAGES_FROM_DISK ? await front(address, port) : null;
  return {
    url: near ? `http://127.0.0.1:${near.address().port}` : address.origin,
    async stop() {
      near?.close();
      near?.closeAllConnections();
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
      await rm(folder, { recursive: true });
    },
  };
}

/** Serves the files, and passes everything else on. */
async function front({ hostname, port: farPort }, port) {
  const near = createServer((incoming, answer) => {
    const { pathname } = new URL(incoming.url, "http://here");
    if (pathname === "/") return file("/pages/demo/index.html", answer);
    if (FILES.test(pathname)) return file(pathname, answer);
    const { method, headers, url: path } = incoming;
    const passed = request({ host: hostname, port: farPort, path, method, headers }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      reply.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    incoming.pipe(passed);
  });
  near.on("upgrade", ({ method, url, headers }, socket, head) => {
    const far = connect(Number(farPort), hostname, () => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      far.write(`${method} ${url} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
      if (head.length > 0) far.write(head);
    });
    for (const [one, other] of [[socket, far], [far, socket]]) {
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  await new Promise((resolve) => near.listen(port, "127.0.0.1", resolve));
  return near;
}

async function file(path, answer) {
  try {
    const bytes = await readFile(new URL(`.${path}`, STATIC));
    answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/plain", "content-security-policy": CSP, "cache-control": "no-store" }).end(bytes);
  } catch {
    answer.writeHead(404, { "content-security-policy": CSP }).end();
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { url } = await start({ port: Number(process.argv[2] ?? 8099) });
  console.log(`the demo is at ${url}`);
}
