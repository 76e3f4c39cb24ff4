// What it costs a page to hear 1,000 changes of a room a second and draw each: doclock.js beside a bare WebSocket.
//
//   CHROMIUM=chromium CLIENT_MODULES=target/clients node benches/browser.mjs [--seconds 10] [--rounds 3]
//
// A feeder speaks the server's messages, so that only the page is measured. Both pages parse each message and write who
// holds how many documents; the bare one keeps a Map and nothing else. The figure is the time of the page's main thread
// (Chromium's TaskDuration) in shares of a core; rounds are interleaved, figures are medians. One JSON line each.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { foreign } from "../tests/clients/doclock.mjs";

const { chromium } = foreign("playwright-core");
const { WebSocketServer } = foreign("ws");
const { values } = parseArgs({ options: { seconds: { type: "string", default: "10" }, rounds: { type: "string", default: "3" } } });
const SECONDS = Number(values.seconds);
const PER_SECOND = 1_000;
const DOCUMENTS = 200;

const lockOf = (n) => ({
  ...{ room: "bench", document: `document-${n % DOCUMENTS}`, hold: 1, fencing_token: n + 1, ttl_seconds: 30, metadata: null, activity: "active" },
  ...{ holder: { owner_id: `owner-${n % 7}`, name: `Owner ${n % 7}`, kind: "person" }, document_version: null },
  ...{ acquired_at: "2027-01-15T08:00:00.000Z", expires_at: "2027-01-15T08:00:30.000Z", active_at: "2027-01-15T08:00:00.000Z" },
});

const site = createServer(async ({ url }, answer) => {
  if (url === "/") return answer.setHeader("content-type", "text/html").end("<!doctype html><link rel=icon href=data:,><p></p>");
  try {
    answer.setHeader("content-type", "text/javascript").end(await readFile(new URL(`../static${url}`, import.meta.url)));
  } catch {
    answer.writeHead(404).end();
  }
});

/** Sends locks and unlocks in turn, evenly over each second. */
new WebSocketServer({ server: site, handleProtocols: () => "doclock.v1" }).on("connection", (socket) => {
  const send = (message) => socket.send(JSON.stringify(message));
  send({ type: "welcome", epoch: "e", server_time: new Date().toISOString(), ping_ms: 10_000, limits: {}, owner_id: "me", name: "Me", role: "editor" });
  let sent = 0;
  let timer;
  socket.on("close", () => clearInterval(timer));
  socket.on("message", (data) => {
    const { type, id } = JSON.parse(data);
    if (type === "ping") return send({ type: "pong" });
    if (type !== "subscribe") return;
    send({ type: "subscribed", id, room: "bench", epoch: "e", sequence: 0, recovered: false, locks: [], more: false, participants: [] });
    const start = performance.now();
    timer = setInterval(() => {
      for (const due = ((performance.now() - start) * PER_SECOND) / 1000; sent < due; sent += 1) send(notice(sent));
    }, 5);
  });
});

/** Half of the documents are locked at any time. */
function notice(n) {
  const round = Math.floor(n / DOCUMENTS);
  const lock = lockOf(n % DOCUMENTS);
  const fencing_token = Math.floor(round / 2) + 1;
  if (round % 2 === 0) return { type: "DocumentLocked", sequence: n + 1, room: "bench", document: lock.document, lock: { ...lock, fencing_token } };
  return { type: "DocumentUnlocked", sequence: n + 1, room: "bench", document: lock.document, fencing_token, reason: "released", by: lock.holder.owner_id, document_version: null };
}

// In the page.
const pages = {
  async doclock() {
    const { createDocLock } = await import("/client/doclock.js");
    const room = createDocLock({ url: location.origin, token: "t" }).room("bench");
    const line = document.querySelector("p");
    window.drawn = 0;
    room.subscribe(() => {
      const { locks } = room.getSnapshot();
      line.textContent = `${locks.length} locked, the last by ${locks.at(-1)?.holder.name}`;
      window.drawn += 1;
    });
  },

  async bare() {
    const socket = new WebSocket(location.origin.replace("http", "ws"), ["doclock.v1"]);
    const line = document.querySelector("p");
    const locks = new Map();
    window.drawn = 0;
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "welcome") socket.send(JSON.stringify({ type: "subscribe", id: 1, room: "bench" }));
      if (message.type === "DocumentLocked") locks.set(message.document, message.lock);
      if (message.type === "DocumentUnlocked") locks.delete(message.document);
      line.textContent = `${locks.size} locked, the last by ${[...locks.values()].at(-1)?.holder.name}`;
      window.drawn += 1;
    };
  },
};

async function measure(browser, setUp) {
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const busy = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  await page.evaluate(setUp);
  await page.waitForFunction((some) => window.drawn > some, PER_SECOND);
  const [before, drawn] = [await busy(), await page.evaluate(() => window.drawn)];
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
  const seconds = (performance.now() - start) / 1000;
  const figures = { cores: ((await busy()) - before) / seconds, rate: ((await page.evaluate(() => window.drawn)) - drawn) / seconds };
  await page.close();
  return figures;
}

const median = (figures) => figures.sort((one, other) => one - other)[Math.floor(figures.length / 2)];

await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
const args = ["--disable-gpu", "--disable-background-networking", "--no-first-run", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
const measured = { doclock: [], bare: [] };
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const [name, setUp] of Object.entries(pages)) measured[name].push(await measure(browser, setUp));
}
for (const [name, figures] of Object.entries(measured)) {
  console.log(JSON.stringify({ name: `browser_${name}_cores`, value: Number(median(figures.map(({ cores }) => cores)).toFixed(3)), unit: "cores" }));
  console.log(JSON.stringify({ name: `browser_${name}_drawn`, value: Math.round(median(figures.map(({ rate }) => rate))), unit: "1/s" }));
}
await browser.close();
process.exit();
