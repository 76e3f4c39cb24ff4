// Standing in line, and handing over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { World, checkWorld, delaying, finish, rejected } from "./setup.mjs";

const story = (name, tell) =>
  test(name, async () => {
    const world = new World();
    const alice = await world.person("alice").at();
    const bob = await world.person("bob").at();
    await finish(world, alice.lock.acquire());
    await tell(world, alice, bob);
    checkWorld(world);
  });

story("who waits is served in order, and told its place", async (world, alice, bob) => {
  const carol = await world.person("carol").at();
  const [bobs, carols] = [bob.lock.acquire({ wait: true }), carol.lock.acquire({ wait: true })];
  await world.pass(40_000);
  assert.deepEqual([bob.state, bob.snapshot.position, carol.state, carol.snapshot.position], ["waiting", 1, "waiting", 2]);
  await finish(world, alice.lock.release());
  assert.equal((await finish(world, bobs)).fencingToken, 2);
  assert.deepEqual([bob.state, bob.snapshot.position, carol.snapshot.position], ["held", null, 1]);
  await finish(world, bob.lock.release());
  assert.equal((await finish(world, carols)).fencingToken, 3);
  await world.pass(60_000);
  assert.equal(carol.snapshot.canEdit, true);
});

story("who leaves the line is not served", async (world, alice, bob) => {
  const call = bob.lock.acquire({ wait: true });
  await world.pass(1_000);
  await finish(world, bob.lock.cancelWait());
  await rejected(world, call, "ABORTED");
  await finish(world, alice.lock.release());
  await world.pass(1_000);
  assert.deepEqual([bob.state, world.server.lockOf("minutes")], ["idle", null]);
});

story("a release leaves the line too", async (world, alice, bob) => {
  const call = bob.lock.acquire({ wait: true });
  await world.pass(1_000);
  const released = bob.lock.release();
  await rejected(world, call, "ABORTED");
  await finish(world, released);
  await finish(world, alice.lock.release());
  assert.equal(world.server.lockOf("minutes"), null);
});

story("who waits and is cut off stands in line again, behind those who stayed", async (world, alice, bob) => {
  const carol = await world.person("carol").at();
  const bobs = bob.lock.acquire({ wait: true });
  await world.pass(1_000);
  const carols = carol.lock.acquire({ wait: true });
  await world.pass(1_000);
  bob.tab.cut({ reset: true });
  await world.pass(8_000);
  assert.equal(carol.snapshot.position, 1);
  bob.tab.restore();
  await world.pass(2_000);
  assert.deepEqual([bob.state, bob.snapshot.position], ["waiting", 2]);
  await finish(world, alice.lock.release());
  assert.equal((await finish(world, carols)).fencingToken, 2);
  await finish(world, carol.lock.release());
  assert.equal((await finish(world, bobs)).fencingToken, 3);
});

story("without a socket the line is stood in by HTTP", async (world, alice) => {
  const dora = await world.person("dora", { WebSocket: null }).at();
  const call = dora.lock.acquire({ wait: true });
  await world.pass(50_000);
  assert.deepEqual([dora.state, dora.snapshot.position, dora.snapshot.holder.ownerId], ["waiting", 1, "alice"]);
  await finish(world, alice.lock.release());
  assert.equal((await finish(world, call)).fencingToken, 2);
  assert.equal(dora.snapshot.canEdit, true);
});

story("a holder that is asked hands over after saving, without a free moment", async (world, alice, bob) => {
  const asked = bob.lock.ask("typo in §2");
  await world.pass(0);
  const [ask] = alice.snapshot.asks;
  assert.deepEqual([ask.by.ownerId, ask.by.name, ask.message], ["bob", "bob", "typo in §2"]);
  assert.equal(bob.snapshot.asked.message, "typo in §2");
  const during = [];
  const save = async () => {
    during.push(alice.state, alice.snapshot.canEdit);
    await world.clock.sleep(2_000);
    return "v9";
  };
  await finish(world, alice.lock.answer(ask.handoverId, true, { documentVersion: save }));
  assert.deepEqual(during, ["releasing", false]);
  assert.deepEqual(await finish(world, asked), { outcome: "granted", message: null });
  assert.deepEqual([alice.state, alice.readonly, bob.state], ["idle handed_over", [], "held"]);
  assert.deepEqual([bob.snapshot.documentVersion, bob.snapshot.asked], ["v9", null]);
  assert.deepEqual(world.log.slice(1), ["DocumentUnlocked 1 alice handed_over", "DocumentLocked 2 bob"]);
  await world.pass(60_000);
  assert.equal(bob.snapshot.canEdit, true);
});

story("onHandover answers by what it returns", async (world, alice, bob) => {
  alice.client.lock("minutes", { onHandover: async ({ message }) => ({ grant: message === "please", message: "not now" }) });
  assert.deepEqual(await finish(world, bob.lock.ask("now")), { outcome: "denied", message: "not now" });
  assert.deepEqual([alice.snapshot.canEdit, alice.snapshot.asks.length], [true, 0]);
  assert.equal((await finish(world, bob.lock.ask("please"))).outcome, "granted");
  assert.equal(bob.snapshot.canEdit, true);
});

story("a save that fails before the hand-over keeps the lock and the ask", async (world, alice, bob) => {
  bob.lock.ask().catch(() => {});
  await world.pass(0);
  const answer = alice.lock.answer(alice.snapshot.asks[0].handoverId, true, { documentVersion: () => Promise.reject(new Error("disk full")) });
  await assert.rejects(finish(world, answer), /disk full/);
  assert.deepEqual([alice.snapshot.canEdit, alice.snapshot.asks.length], [true, 1]);
});

story("an ask nobody answers is over after 30 s; a page that types keeps its lock", async (world, alice, bob) => {
  const asked = bob.lock.ask();
  await world.pass(0);
  for (let second = 0; second < 120; second += 1) {
    alice.tab.type();
    await world.pass(1_000);
  }
  assert.equal((await finish(world, asked)).outcome, "unanswered");
  assert.deepEqual([alice.snapshot.canEdit, alice.snapshot.asks.length], [true, 0]);
});

story("an ask nobody answers ends the lock of a page that nobody is at", async (world, alice, bob) => {
  await world.pass(60_000);
  const asked = bob.lock.ask();
  await world.pass(31_000);
  assert.equal((await finish(world, asked)).outcome, "unanswered");
  await world.pass(35_000);
  assert.deepEqual([alice.state.split(" ")[0], world.log.at(-1)], ["readonly", "DocumentUnlocked 1 alice expired"]);
});

story("an ask can be taken back", async (world, alice, bob) => {
  const asked = bob.lock.ask();
  await world.pass(0);
  assert.equal(alice.snapshot.asks.length, 1);
  await rejected(world, bob.lock.ask(), "ALREADY_ASKED");
  await finish(world, bob.lock.cancelAsk());
  assert.equal((await finish(world, asked)).outcome, "cancelled");
  assert.deepEqual([alice.snapshot.asks.length, bob.snapshot.asked], [0, null]);
});

story("an ask can be taken back before its answer is here", async (world, alice) => {
  const tab = world.server.openTab();
  const dora = await world.person("dora", { tab, WebSocket: delaying(world, tab, ({ type }) => type === "ok", 1_000) }).at();
  const asked = dora.lock.ask();
  await world.pass(0);
  assert.equal(alice.snapshot.asks.length, 1);
  await finish(world, dora.lock.cancelAsk());
  assert.equal((await finish(world, asked)).outcome, "cancelled");
  assert.equal(alice.snapshot.asks.length, 0);
});

story("an ask is moot when the lock ends first", async (world, alice, bob) => {
  const asked = bob.lock.ask();
  await world.pass(0);
  await finish(world, alice.lock.release());
  assert.equal((await finish(world, asked)).outcome, "moot");
});

story("without a socket one can ask too", async (world, alice) => {
  const dora = await world.person("dora", { WebSocket: null }).at();
  const asked = dora.lock.ask("please");
  await world.pass(100);
  await finish(world, alice.lock.answer(alice.snapshot.asks[0].handoverId, true));
  assert.equal((await finish(world, asked)).outcome, "granted");
  assert.deepEqual([dora.state, dora.snapshot.fencingToken], ["held", 2]);
});
