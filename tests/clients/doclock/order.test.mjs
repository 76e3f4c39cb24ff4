// Things that come in another order than one would like, or only in part.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../../../static/client/doclock/store.js";
import { World, checkWorld, delaying, finish, rejected } from "./setup.mjs";

const story = (name, tell) =>
  test(name, async () => {
    const world = new World();
    await tell(world);
    checkWorld(world);
  });

test("listeners are told of changes only, and snapshots stay what they are", () => {
  let value = 1;
  let told = 0;
  const store = new Store(() => ({ value }), (callback) => callback());
  const unsubscribe = store.subscribe(() => (told += 1));
  const first = store.getSnapshot();
  store.changed();
  assert.deepEqual([told, store.getSnapshot() === first], [0, true]);
  value = 2;
  store.changed();
  assert.deepEqual([told, store.getSnapshot() === first], [1, false]);
  // Someone has seen the change before listeners are told of it: they are told all the same.
  value = 3;
  store.outdate();
  assert.equal(store.getSnapshot().value, 3);
  store.changed();
  assert.equal(told, 2);
  unsubscribe();
  value = 4;
  store.changed();
  assert.deepEqual([told, store.getSnapshot().value], [2, 4]);
});

story("work under a lock that the page holds anyway leaves it to the page", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  await finish(world, alice.client.withLock("minutes", {}, () => "done"));
  assert.deepEqual([alice.state, world.log], ["held", ["DocumentLocked 1 alice"]]);
});

story("a refusal that comes late does not bring back a lock that has ended", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  const tab = world.server.openTab();
  const bob = await world.person("bob", { tab, WebSocket: delaying(world, tab, ({ type }) => type === "error", 1_000) }).at();
  const refusal = bob.lock.acquire();
  await world.pass(100);
  await finish(world, alice.lock.release());
  assert.equal(bob.snapshot.holder, null);
  await rejected(world, refusal, "LOCK_HELD");
  assert.equal(bob.snapshot.holder, null);
});

story("a heartbeat that is refused before the notice comes is explained by the notice", async (world) => {
  const tab = world.server.openTab();
  const alice = await world.person("alice", { tab, WebSocket: delaying(world, tab, ({ type }) => type === "DocumentUnlocked", 1_000) }).at();
  await finish(world, alice.lock.acquire());
  const carol = await world.person("carol", { tokenOptions: { role: "admin" } }).at();
  await finish(world, carol.lock.takeOver());
  const saving = alice.lock.saved("v2");
  await rejected(world, saving, "LEASE_REVOKED");
  assert.deepEqual([alice.state, alice.snapshot.by], ["readonly revoked", null]);
  await world.pass(1_000);
  assert.deepEqual([alice.state, alice.snapshot.by, alice.readonly], ["readonly taken_over", "carol", ["revoked"]]);
});

story("a lock that ends while it is resumed is not replaced by a new one", async (world) => {
  const before = await world.person("alice").at();
  await finish(world, before.lock.acquire());
  const tab = before.tab.reload();
  const fetch = async (url, request) => {
    const answer = await tab.options.fetch(url, request);
    if (request.method === "GET") world.server.forceUnlock("minutes");
    return answer;
  };
  const after = await world.person("alice", { tab, fetch }).at();
  await world.pass(1_000);
  assert.deepEqual([after.snapshot.canEdit, world.server.lockOf("minutes")], [false, null]);
});

story("a goodbye says when to come back, and nobody comes earlier", async (world) => {
  const tab = world.server.openTab();
  const opened = [];
  const Counting = class extends tab.options.WebSocket {
    constructor(...args) {
      super(...args);
      opened.push(world.clock.now());
    }
  };
  await world.person("alice", { tab, WebSocket: Counting }).at();
  const stoppedAt = world.clock.now();
  await world.server.stop({ reconnectAfterMs: 3_000 });
  world.server.start();
  await world.pass(10_000);
  assert.equal(opened.length, 2);
  assert.ok(opened[1] - stoppedAt >= 3_000, `${opened[1] - stoppedAt}`);
});

story("by HTTP too a token that is refused is renewed", async (world) => {
  const getToken = () => world.server.token("alice");
  const alice = await world.person("alice", { token: undefined, getToken, WebSocket: null }).at();
  await finish(world, alice.lock.acquire());
  await world.pass(5_000);
  world.server.revokeTokens("alice");
  await world.pass(60_000);
  assert.deepEqual([alice.state, alice.readonly], ["held", []]);
});

story("a room of many locks comes in pages, and is told again if the connection goes between them", async (world) => {
  const alice = await world.person("alice").at();
  for (let n = 0; n < 250; n += 1) alice.client.lock("minutes", { document: `d${n}` }).acquire();
  await world.pass(1_000);
  const tab = world.server.openTab();
  let breaks = 1;
  const Breaking = class extends tab.options.WebSocket {
    deliver(data) {
      super.deliver(data);
      if (JSON.parse(data).type === "subscribed" && breaks-- > 0) this.end(1006, "");
    }
  };
  const bob = await world.person("bob", { tab, WebSocket: Breaking }).at();
  assert.equal(bob.client.room("minutes").getSnapshot().locks.length, 100);
  await world.pass(2_000);
  assert.equal(bob.client.room("minutes").getSnapshot().locks.length, 250);
});
