// A lock in the hands of one page: acquired, kept, lost, released.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createDocLock } from "../../../static/client/doclock.js";
import { World, checkWorld, finish, rejected } from "./setup.mjs";

const story = (name, tell) =>
  test(name, async () => {
    const world = new World();
    await tell(world);
    checkWorld(world);
  });

story("a lock is acquired, shown and released", async (world) => {
  const alice = await world.person("alice").at();
  assert.equal(alice.state, "idle");
  const lease = await finish(world, alice.lock.acquire());
  assert.deepEqual([lease.fencingToken, lease.ownerId, lease.room, lease.document], [1, "alice", "minutes", "main"]);
  const { canEdit, fencingToken, isYou, holder, connection } = alice.snapshot;
  assert.deepEqual([alice.state, canEdit, fencingToken, isYou, holder.ownerId, connection], ["held", true, 1, true, "alice", "connected"]);
  await finish(world, alice.lock.release({ documentVersion: "v2" }));
  assert.deepEqual([alice.state, alice.snapshot.canEdit, alice.snapshot.fencingToken], ["idle", false, null]);
  assert.deepEqual(world.log, ["DocumentLocked 1 alice", "DocumentUnlocked 1 alice released"]);
  assert.equal(alice.snapshot.documentVersion, "v2");
});

story("a handle does nothing before it is used", async (world) => {
  const alice = world.person("alice");
  const handle = alice.client.lock("minutes");
  alice.client.room("minutes");
  await world.pass(10_000);
  assert.equal(world.server.connections, 0);
  assert.equal(handle.getSnapshot().connection, "initial");
  assert.equal(alice.client.lock("minutes"), handle);
});

test("neither import nor construction touches a global", () => {
  const touched = [];
  const names = ["WebSocket", "fetch", "sessionStorage", "navigator", "window", "document", "crypto", "location", "performance"];
  const before = names.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  for (const name of names) Object.defineProperty(globalThis, name, { configurable: true, get: () => touched.push(name) });
  try {
    const client = createDocLock({ token: "t" });
    client.lock("minutes").getSnapshot();
    client.room("minutes").getSnapshot();
  } finally {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
  }
  assert.deepEqual(touched, []);
});

story("someone else's lock refuses, and is shown", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  const error = await rejected(world, bob.lock.acquire(), "LOCK_HELD");
  assert.deepEqual([error.operation, error.retryable, error.problem.lock.holder.name], ["acquire", true, "alice"]);
  const { holder, isYou, activity, holderToken } = bob.snapshot;
  assert.deepEqual([bob.state, holder.name, isYou, activity, holderToken], ["idle", "alice", false, "active", 1]);
});

story("a snapshot is frozen, and the same object until something changes", async (world) => {
  const alice = await world.person("alice").at();
  const idle = alice.snapshot;
  assert.ok(Object.isFrozen(idle) && Object.isFrozen(idle.asks));
  await world.pass(3_000);
  assert.equal(alice.snapshot, idle);
  alice.seen = [];
  await finish(world, alice.lock.acquire());
  assert.notEqual(alice.snapshot, idle);
  assert.equal(new Set(alice.seen).size, alice.seen.length);
  const held = alice.snapshot;
  await world.pass(5_000);
  assert.equal(alice.snapshot, held);
  await world.pass(10_000);
  assert.ok(alice.snapshot.deadlineMs > held.deadlineMs);
});

story("the server keeps the lock while the socket is there, and no heartbeat is sent", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.seen = [];
  for (let minute = 0; minute < 5; minute += 1) {
    await world.pass(59_000);
    alice.tab.type();
  }
  assert.equal(alice.snapshot.fencingToken, 1);
  assert.ok(alice.seen.every(({ state, canEdit }) => state === "held" && canEdit));
});

story("without a socket the lock is kept by heartbeats over HTTP", async (world) => {
  const alice = await world.person("alice", { WebSocket: null }).at();
  await finish(world, alice.lock.acquire());
  await world.pass(120_000);
  assert.deepEqual([alice.state, alice.snapshot.connection, alice.snapshot.holder.ownerId], ["held", "disconnected", "alice"]);
  assert.equal(world.server.connections, 0);
  await finish(world, alice.lock.release());
  assert.deepEqual(world.log, ["DocumentLocked 1 alice", "DocumentUnlocked 1 alice released"]);
});

story("the network off for 15 s does not lose the lock", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  await world.pass(9_000);
  alice.tab.cut();
  await world.pass(15_000);
  assert.equal(alice.snapshot.canEdit, true);
  alice.tab.restore();
  await world.pass(60_000);
  assert.deepEqual([alice.state, alice.snapshot.fencingToken, alice.readonly], ["held", 1, []]);
});

for (const how of [{ reset: true }, { reset: false }]) {
  story(`the network off for 45 s (${how.reset ? "reset" : "silent"}) is read-only before anyone else can hold it`, async (world) => {
    const alice = await world.person("alice").at();
    const bob = await world.person("bob").at();
    await finish(world, alice.lock.acquire());
    alice.tab.cut(how);
    let readonlyAt;
    alice.lock.subscribe(() => !alice.snapshot.canEdit && (readonlyAt ??= world.clock.now()));
    const waiting = bob.lock.acquire({ wait: true });
    await world.pass(45_000);
    await waiting;
    const [, , grantToBob] = world.server.events;
    assert.deepEqual(world.log.slice(1), ["DocumentUnlocked 1 alice expired", "DocumentLocked 2 bob"]);
    assert.ok(grantToBob.at - readonlyAt >= 5_000, `${grantToBob.at - readonlyAt}`);
    assert.deepEqual([alice.state, alice.readonly], ["readonly offline", ["offline"]]);
    alice.tab.restore();
    await world.pass(20_000);
    assert.equal(alice.state, "readonly expired");
    assert.deepEqual(alice.readonly, ["offline"]);
    assert.equal(bob.snapshot.canEdit, true);
  });
}

story("a lock in doubt is this page's again once the server confirms the same lease", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.tab.cut();
  await world.pass(26_000);
  assert.equal(alice.state, "readonly offline");
  assert.equal(alice.snapshot.fencingToken, null);
  alice.tab.restore();
  await world.pass(1_000);
  assert.deepEqual([alice.state, alice.snapshot.fencingToken], ["held", 1]);
  assert.deepEqual(world.log, ["DocumentLocked 1 alice"]);
});

story("a laptop that slept is read-only before the first key does something", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.seen = [];
  world.clock.suspend(60_000);
  alice.tab.type();
  assert.deepEqual(alice.seen.map(({ canEdit }) => canEdit), [false]);
  assert.deepEqual(alice.readonly, ["offline"]);
});

story("whoever draws after sleep draws read-only, and is told once", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  world.clock.suspend(60_000);
  assert.deepEqual([alice.snapshot.state, alice.snapshot.canEdit], ["readonly", false]);
  await Promise.resolve();
  assert.deepEqual([alice.readonly, alice.state], [["offline"], "readonly offline"]);
});

story("the wall clock set back does not lengthen the lock", async (world) => {
  const alice = await world.person("alice", { WebSocket: null }).at();
  await finish(world, alice.lock.acquire());
  alice.tab.cut();
  world.clock.setWall(world.clock.now() - 3_600_000);
  await world.pass(26_000);
  assert.equal(alice.state, "readonly offline");
});

story("a frozen page whose lock was kept edits on; what was sent to it meanwhile does not count from its arrival", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.tab.freeze();
  await world.pass(60_000);
  alice.tab.thaw();
  await world.pass(0);
  assert.deepEqual([alice.snapshot.canEdit, alice.snapshot.fencingToken], [true, 1]);
  // As if it was thawed in a room without network: the last renewal it heard of is 25 s old.
  const bob = await world.person("bob").at("other");
  await finish(world, bob.lock.acquire());
  bob.tab.freeze();
  await world.pass(11_000);
  bob.tab.cut();
  await world.pass(24_000);
  bob.tab.thaw();
  await world.pass(0);
  assert.equal(bob.snapshot.canEdit, false);
});

story("the deadline counts from before the request was sent", async (world) => {
  const tab = world.server.openTab();
  const slowly = async (url, request) => {
    await world.clock.sleep(3_000);
    const answer = await tab.options.fetch(url, request);
    await world.clock.sleep(3_000);
    return answer;
  };
  const alice = await world.person("alice", { tab, WebSocket: null, fetch: slowly }).at();
  const sentAt = world.clock.now();
  await finish(world, alice.lock.acquire());
  assert.equal(alice.snapshot.deadlineMs, sentAt + 25_000);
});

story("a short ttl leaves a third of it as margin", async (world) => {
  const alice = await world.person("alice").at("minutes", { ttlSeconds: 6 });
  const at = world.clock.now();
  await finish(world, alice.lock.acquire());
  assert.equal(alice.snapshot.deadlineMs, at + 4_000);
  await world.pass(60_000);
  assert.equal(alice.snapshot.canEdit, true);
});

story("a failed heartbeat is retried twice with backoff", async (world) => {
  const tab = world.server.openTab();
  const sent = [];
  const failing = (url, request) => {
    if (request.method === "PUT") sent.push(world.clock.now());
    return request.method === "PUT" ? Promise.reject(new TypeError("no")) : tab.options.fetch(url, request);
  };
  const alice = await world.person("alice", { tab, WebSocket: null, fetch: failing }).at();
  await finish(world, alice.lock.acquire());
  const start = world.clock.now();
  await world.pass(19_000);
  assert.deepEqual(sent.map((at) => at - start), [10_000, 10_500, 11_500]);
  assert.equal(alice.events.filter((type) => type === "lock:warning").length, 2);
  assert.equal(alice.snapshot.canEdit, true);
});

story("a force-unlocked lock is told at once and never taken back", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  world.server.forceUnlock("minutes", { by: "root" });
  await world.pass(120_000);
  assert.deepEqual([alice.state, alice.snapshot.by, alice.readonly], ["readonly revoked", "root", ["revoked"]]);
  assert.deepEqual(world.log, ["DocumentLocked 1 alice", "DocumentUnlocked 1 alice revoked"]);
});

story("a lock that was taken over while the page was away is not taken back, and the page learns by whom", async (world) => {
  const alice = await world.person("alice").at();
  const carol = await world.person("carol", { tokenOptions: { permissions: ["takeover"] } }).at();
  await finish(world, alice.lock.acquire());
  await world.pass(0);
  alice.tab.cut({ reset: true });
  const lease = await finish(world, carol.lock.takeOver());
  assert.equal(lease.fencingToken, 2);
  await world.pass(5_000);
  alice.tab.restore();
  await world.pass(120_000);
  assert.deepEqual([alice.state, alice.snapshot.by, alice.snapshot.holder.ownerId], ["readonly taken_over", "carol", "carol"]);
  assert.deepEqual(alice.readonly.length, 1);
  assert.equal(world.server.lockOf("minutes").ownerId, "carol");
});

story("a take-over without the right is refused, and one of a holder that has changed", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  await rejected(world, bob.lock.takeOver(), "ROLE_FORBIDS");
  assert.equal(bob.state, "idle forbidden");
  const admin = await world.person("root", { tokenOptions: { role: "admin" } }).at();
  await rejected(world, admin.lock.takeOver({ expectedToken: 7 }), "LOCK_HELD");
  await finish(world, admin.lock.takeOver({ expectedToken: 1 }));
  assert.equal(alice.state, "readonly taken_over");
});

story("another tab of the same person is another session", async (world) => {
  const one = await world.person("alice").at();
  await finish(world, one.lock.acquire());
  const other = await world.person("alice", { tab: one.tab.duplicate() }).at();
  const error = await rejected(world, other.lock.acquire(), "LOCK_HELD");
  assert.equal(error.problem.is_you, true);
  assert.deepEqual([other.snapshot.isYou, other.snapshot.canEdit], [true, false]);
  await finish(world, other.lock.takeOver());
  assert.deepEqual([other.state, one.state], ["held", "readonly taken_over"]);
});

story("without Web Locks the older of two tabs with one session learns of the other", async (world) => {
  const tab = world.server.openTab();
  const { locks: _, ...navigator } = tab.options.navigator;
  const one = await world.person("alice", { tab, navigator }).at();
  await finish(world, one.lock.acquire());
  const copy = tab.duplicate();
  const other = await world.person("alice", { tab: copy, navigator: { sendBeacon: copy.options.navigator.sendBeacon } }).at();
  await finish(world, other.lock.acquire());
  world.server.closeSockets();
  await world.pass(2_000);
  assert.deepEqual([one.state, other.state], ["readonly other_tab", "held"]);
});

story("acquire and release go one after the other, as when a view is mounted twice", async (world) => {
  const alice = await world.person("alice").at();
  const calls = [alice.lock.acquire(), alice.lock.release(), alice.lock.acquire()];
  const [, , last] = await finish(world, Promise.allSettled(calls));
  assert.equal(last.value.fencingToken, alice.snapshot.fencingToken);
  assert.equal(alice.state, "held");
  assert.equal(world.server.lockOf("minutes").ownerId, "alice");
});

story("an acquire that is aborted leaves no lock behind", async (world) => {
  const alice = await world.person("alice").at();
  const abort = new AbortController();
  const call = alice.lock.acquire({ signal: abort.signal });
  abort.abort();
  await rejected(world, call, "ABORTED");
  await rejected(world, alice.lock.acquire({ signal: abort.signal }), "ABORTED");
  assert.deepEqual([alice.state, world.server.lockOf("minutes")], ["idle", null]);
});

story("a save is told to the room, and to nobody when the lock is lost", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  await finish(world, alice.lock.saved("v7"));
  assert.equal(bob.snapshot.documentVersion, "v7");
  world.server.forceUnlock("minutes");
  await world.pass(0);
  await rejected(world, alice.lock.saved("v8"), "NOT_HELD");
  assert.equal(bob.snapshot.documentVersion, "v7");
});

story("a release saves first, with typing refused; a save that fails goes on editing", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  const failing = alice.lock.release({ documentVersion: () => Promise.reject(new Error("disk full")) });
  await assert.rejects(finish(world, failing), /disk full/);
  assert.equal(alice.snapshot.canEdit, true);
  const during = [];
  await finish(world, alice.lock.release({ documentVersion: async () => (during.push(alice.state, alice.snapshot.fencingToken), "v3") }));
  assert.deepEqual([during, alice.snapshot.documentVersion, world.log.at(-1)], [["releasing", 1], "v3", "DocumentUnlocked 1 alice released"]);
});

story("a lock nobody types under is given up after idleReleaseMs", async (world) => {
  const alice = await world.person("alice").at("minutes", { idleReleaseMs: 60_000 });
  await finish(world, alice.lock.acquire());
  await world.pass(50_000);
  alice.tab.type();
  await world.pass(50_000);
  assert.equal(alice.snapshot.canEdit, true);
  await world.pass(11_000);
  assert.deepEqual([alice.state, world.server.lockOf("minutes"), alice.readonly], ["idle idle", null, []]);
});

story("others see whether the holder is active, idle or away", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  const seen = [];
  for (const act of [() => world.pass(60_000), () => alice.tab.type(), () => alice.tab.hide(), () => alice.tab.show()]) {
    await act();
    await world.pass(0);
    seen.push(bob.snapshot.activity);
  }
  assert.deepEqual(seen, ["idle", "active", "away", "active"]);
});

story("withLock runs the work under the lock and stops it when the lock is lost", async (world) => {
  const alice = world.person("alice");
  const done = await finish(world, alice.client.withLock("minutes", {}, ({ fencingToken, lease }) => [fencingToken, lease.ownerId]));
  assert.deepEqual([done, world.server.lockOf("minutes")], [[1, "alice"], null]);
  const failing = alice.client.withLock("minutes", {}, () => Promise.reject(new Error("mine")));
  await assert.rejects(finish(world, failing), /mine/);
  assert.equal(world.server.lockOf("minutes"), null);
  const lost = alice.client.withLock("minutes", {}, ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason.code))));
  await world.pass(0);
  world.server.forceUnlock("minutes");
  assert.equal(await finish(world, lost), "NOT_HELD");
  assert.equal(world.log.length, 6);
});

story("the events of one lock, by both names", async (world) => {
  const alice = world.person("alice");
  const heard = [];
  alice.client.subscribeLockEvents(({ type, alias }) => heard.push(alias ? `${type} = ${alias}` : type));
  await alice.at();
  await finish(world, alice.lock.acquire());
  await world.pass(10_000);
  await finish(world, alice.lock.release());
  assert.deepEqual(heard, [
    "lock:attempt",
    "lock:acquired = acquired",
    "lock:renew-scheduled",
    "lock:renewed = renewed",
    "lock:renew-scheduled",
    "lock:release-requested",
    "lock:released = released",
  ]);
});

story("a viewer is told that it may not lock", async (world) => {
  const viewer = await world.person("vera", { tokenOptions: { role: "viewer" } }).at();
  await rejected(world, viewer.lock.acquire(), "ROLE_FORBIDS");
  assert.equal(viewer.state, "idle forbidden");
  assert.equal(viewer.client.connection.getSnapshot().role, "viewer");
});

story("a client that is closed has given up its locks", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  await finish(world, alice.client.close());
  await world.pass(3_000);
  assert.deepEqual([world.server.lockOf("minutes"), world.server.connections], [null, 0]);
  await rejected(world, alice.lock.acquire(), "CLOSED");
});
