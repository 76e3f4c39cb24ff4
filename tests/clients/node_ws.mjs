// doclock's sockets through Node's `ws`, which knows nothing of doclock.

import assert from "node:assert/strict";
import { once } from "node:events";
import { Room, editor, foreign, inShort, isPresence, run, url, within } from "./doclock.mjs";

const WebSocket = foreign("ws");
const address = `${url.replace("http://", "ws://")}/ws`;

const byHeader = (token) => new Client(new WebSocket(address, { headers: { authorization: `Bearer ${token}` } }));
const bySubprotocol = (token) => new Client(new WebSocket(address, ["doclock.v1", `bearer.${token}`]));

class Client {
  constructor(socket) {
    this.socket = socket;
    this.heard = [];
    this.waiting = [];
    socket.on("message", (data) => {
      const message = JSON.parse(data);
      if (!isPresence(message)) (this.waiting.shift() ?? ((message) => this.heard.push(message)))(message);
    });
    this.closed = new Promise((resolve) => {
      socket.on("close", (code, reason) => resolve(`${code} ${reason}`));
    });
    this.failed = new Promise((resolve) => socket.on("error", resolve));
  }

  hear() {
    const next = this.heard.length > 0 ? this.heard.shift() : new Promise((resolve) => this.waiting.push(resolve));
    return within(20, Promise.resolve(next));
  }

  async subscribe(room, after) {
    this.socket.send(JSON.stringify({ type: "subscribe", room: room.name, after }));
    const told = await this.hear();
    assert.equal(told.type, "subscribed");
    assert.equal(told.more, false);
    return told;
  }
}

async function hearsARoom(client) {
  const room = new Room();
  assert.equal((await client.hear()).type, "welcome");
  assert.deepEqual((await client.subscribe(room)).locks, []);
  await room.lock();
  await room.unlock();
  const heard = [await client.hear(), await client.hear()];
  assert.deepEqual(heard.map(({ type }) => type), ["DocumentLocked", "DocumentUnlocked"]);
  assert.deepEqual(heard.map(inShort), await room.log());
  client.socket.close();
  assert.equal(await client.closed, "1000 ");
}

await run([
  async function a_token_by_header_hears_a_room() {
    await hearsARoom(byHeader(editor));
  },

  async function a_token_by_subprotocol_hears_a_room() {
    const client = bySubprotocol(editor);
    await once(client.socket, "open");
    assert.equal(client.socket.protocol, "doclock.v1");
    await hearsARoom(client);
  },

  async function who_comes_back_with_after_gets_what_it_missed() {
    const room = new Room();
    const first = byHeader(editor);
    await first.hear();
    const { epoch, sequence } = await first.subscribe(room);
    first.socket.terminate();
    await room.lock();
    await room.unlock();
    const second = byHeader(editor);
    await second.hear();
    const told = await second.subscribe(room, { epoch, sequence });
    assert.equal(told.recovered, true);
    assert.deepEqual(told.events.map(inShort), await room.log());
    await room.lock();
    assert.equal(inShort(await second.hear()), (await room.log()).at(-1));
    second.socket.terminate();
  },

  async function a_bad_token_is_closed_4401() {
    for (const wayIn of [byHeader, bySubprotocol]) {
      assert.equal(await wayIn("nonsense").closed, "4401 TOKEN_INVALID");
    }
  },

  async function a_foreign_origin_is_refused() {
    const headers = { authorization: `Bearer ${editor}` };
    const client = new Client(new WebSocket(address, { origin: "https://evil.example", headers }));
    assert.match((await client.failed).message, /403/);
  },
]);
// Connections of a test that has failed may still be open.
process.exit();
