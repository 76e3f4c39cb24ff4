// doclock's sockets and event streams through Chromium's own WebSocket and EventSource.
//
// CHROMIUM is the program. Names that end in .example lead to this machine, so that a page can come from elsewhere.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { Room, editor, foreign, inShort, run, url } from "./doclock.mjs";

const { chromium } = foreign("playwright-core");

const pages = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<!doctype html>"));
await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
const { port } = pages.address();

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    ...(process.getuid() === 0 ? ["--no-sandbox"] : []),
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP *.example 127.0.0.1",
  ],
});

// Runs in the page: a socket, and everything that happens to it in order.
function inPage() {
  window.connect = (address, protocols) => {
    const events = [];
    const waiting = [];
    const happened = (event) => (waiting.length > 0 ? waiting.shift()(event) : events.push(event));
    const socket = new WebSocket(address, protocols);
    socket.onopen = () => happened({ type: "open", protocol: socket.protocol });
    socket.onclose = ({ code, reason }) => happened({ type: "close", code, reason });
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (!message.type.startsWith("Participant")) happened(message);
    };
    window.socket = socket;
    window.next = () => (events.length > 0 ? events.shift() : new Promise((resolve) => waiting.push(resolve)));
  };
  window.listen = (address) => {
    const events = [];
    const waiting = [];
    const happened = (event) => (waiting.length > 0 ? waiting.shift()(event) : events.push(event));
    const source = new EventSource(address);
    source.onerror = () => happened({ type: "error" });
    for (const type of ["subscribed", "DocumentLocked", "DocumentUnlocked"]) {
      source.addEventListener(type, ({ data, lastEventId }) => happened({ ...JSON.parse(data), lastEventId }));
    }
    window.source = source;
    window.next = () => (events.length > 0 ? events.shift() : new Promise((resolve) => waiting.push(resolve)));
  };
}

class Page {
  static async at(address) {
    const page = new Page();
    page.page = await (await browser.newContext()).newPage();
    page.page.setDefaultTimeout(20_000);
    page.console = [];
    page.page.on("console", (message) => page.console.push(message.text()));
    await page.page.goto(address);
    await page.page.evaluate(inPage);
    return page;
  }

  connect(token) {
    const address = `${url.replace("http://", "ws://")}/ws`;
    return this.page.evaluate(([address, token]) => window.connect(address, ["doclock.v1", `bearer.${token}`]), [address, token]);
  }

  next() {
    return this.page.evaluate(() => window.next());
  }

  async subscribe(room, after) {
    const message = { type: "subscribe", room: room.name, after };
    await this.page.evaluate((message) => window.socket.send(JSON.stringify(message)), message);
    const told = await this.next();
    assert.equal(told.type, "subscribed");
    return told;
  }

  close() {
    return this.page.context().close();
  }
}

// A page of the server's own, with a socket that has been welcomed.
async function welcomed() {
  const page = await Page.at(`${url}/healthz`);
  await page.connect(editor);
  assert.deepEqual(await page.next(), { type: "open", protocol: "doclock.v1" });
  assert.equal((await page.next()).type, "welcome");
  return page;
}

await run([
  async function two_pages_in_one_room_both_hear_it() {
    const room = new Room();
    const both = [await welcomed(), await welcomed()];
    for (const page of both) assert.deepEqual((await page.subscribe(room)).locks, []);
    await room.lock();
    await room.unlock();
    for (const page of both) {
      const heard = [await page.next(), await page.next()];
      assert.deepEqual(heard.map(({ type }) => type), ["DocumentLocked", "DocumentUnlocked"]);
      assert.deepEqual(heard.map(inShort), await room.log());
      await page.close();
    }
  },

  async function who_comes_back_with_after_gets_what_it_missed() {
    const room = new Room();
    const first = await welcomed();
    const { epoch, sequence } = await first.subscribe(room);
    await first.close();
    await room.lock();
    await room.unlock();
    const second = await welcomed();
    const told = await second.subscribe(room, { epoch, sequence });
    assert.equal(told.recovered, true);
    assert.deepEqual(told.events.map(inShort), await room.log());
    await room.lock();
    assert.equal(inShort(await second.next()), (await room.log()).at(-1));
    await second.close();
  },

  async function a_bad_token_is_closed_4401_which_the_page_can_read() {
    const page = await Page.at(`${url}/healthz`);
    await page.connect("nonsense");
    assert.equal((await page.next()).type, "open");
    assert.deepEqual(await page.next(), { type: "close", code: 4401, reason: "TOKEN_INVALID" });
    await page.close();
  },

  async function an_event_source_with_a_ticket_hears_a_room() {
    const room = new Room();
    const page = await Page.at(`${url}/healthz`);
    await page.page.evaluate(async ([room, token]) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const body = JSON.stringify({ rooms: [room] });
      const { ticket } = await (await fetch("/api/stream-tickets", { method: "POST", headers, body })).json();
      window.listen(`/api/rooms/${room}/events?ticket=${ticket}`);
    }, [room.name, editor]);
    const { type, epoch, locks } = await page.next();
    assert.deepEqual([type, locks], ["subscribed", []]);
    await room.lock();
    await room.unlock();
    const heard = [await page.next(), await page.next()];
    assert.deepEqual(heard.map(inShort), await room.log());
    assert.deepEqual(heard.map(({ lastEventId }) => lastEventId), heard.map(({ sequence }) => `${epoch}:${sequence}`));
    await page.close();
  },

  async function an_event_source_without_a_ticket_hears_nothing() {
    const page = await Page.at(`${url}/healthz`);
    await page.page.evaluate(() => window.listen("/api/rooms/room/events?ticket=nonsense"));
    assert.equal((await page.next()).type, "error");
    await page.close();
  },

  async function a_page_from_elsewhere_is_refused() {
    const page = await Page.at(`http://evil.example:${port}/`);
    await page.connect(editor);
    assert.equal((await page.next()).code, 1006);
    assert.match(page.console.join("\n"), /Unexpected response code: 403/);
    await page.close();
    // The same page from this machine is let in.
    const here = await Page.at(`http://localhost:${port}/`);
    await here.connect(editor);
    assert.equal((await here.next()).type, "open");
    await here.close();
  },
]);

await browser.close();
// Connections of a test that has failed may still be open.
process.exit();
