// The page around a lock: its connection, its token, its session, and how it goes and comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DocLockUnauthorized } from "../../../static/client/doclock.js";
import "../../../static/client/doclock/local.js"; // Loaded by then: its loading is not a matter of this clock.
import { World, checkWorld, finish, rejected } from "./setup.mjs";

const story = (name, tell) =>
  test(name, async () => {
    const world = new World();
    await tell(world);
    checkWorld(world);
  });

const connection = ({ client }) => client.connection.getSnapshot();

story("a page connects when something is watched, and leaves when nothing is", async (world) => {
  const alice = world.person("alice");
  assert.equal(connection(alice).state, "initial");
  await alice.at();
  const { state, ownerId, name, role } = connection(alice);
  assert.deepEqual([state, ownerId, name, role, world.server.connections], ["connected", "alice", "alice", "editor", 1]);
  alice.unsubscribe();
  await world.pass(500);
  assert.equal(world.server.connections, 1);
  await world.pass(1_000);
  assert.deepEqual([connection(alice).state, world.server.connections], ["initial", 0]);
});

story("a page that watches 200 documents in 20 rooms has one socket", async (world) => {
  const alice = world.person("alice");
  for (let n = 0; n < 200; n += 1) alice.client.lock(`room-${n % 20}`, { document: `d${n}` }).subscribe(() => {});
  await world.pass(1_000);
  assert.equal(world.server.connections, 1);
});

story("a room that is left is left at the server too", async (world) => {
  const alice = await world.person("alice").at("minutes");
  const bob = await world.person("bob").at("minutes");
  await bob.client.room("other").subscribe(() => {});
  await world.pass(0);
  bob.unsubscribe();
  await world.pass(4_000);
  const { participants } = alice.client.room("minutes").getSnapshot();
  assert.deepEqual([participants.map(({ ownerId }) => ownerId), connection(bob).state], [["alice"], "connected"]);
});

story("a request that is not answered goes by HTTP, and a server that is only slow is not left", async (world) => {
  const tab = world.server.openTab();
  const Deaf = class extends tab.options.WebSocket {
    send(data) {
      if (JSON.parse(data).type !== "lock") super.send(data);
    }
  };
  const alice = await world.person("alice", { tab, WebSocket: Deaf }).at();
  alice.seen = [];
  const lease = await finish(world, alice.lock.acquire());
  assert.equal(lease.fencingToken, 1);
  await world.pass(60_000);
  assert.ok(alice.seen.every(({ connection }) => connection === "connected"));
  assert.equal(alice.snapshot.canEdit, true);
});

story("a connection is lost only after 5 s, and restored with the next", async (world) => {
  const alice = await world.person("alice").at();
  const seen = [];
  alice.client.connection.subscribe(() => seen.push([connection(alice).state, connection(alice).lost].join(" ")));
  world.server.closeSockets();
  await world.pass(4_000);
  assert.deepEqual(seen, ["reconnecting false", "connected false"]);
  seen.length = 0;
  alice.tab.cut({ reset: true });
  await world.pass(6_000);
  assert.deepEqual([seen.at(-1), alice.snapshot.connectionLost], ["reconnecting true", true]);
  alice.tab.restore();
  await world.pass(100);
  assert.deepEqual([seen.at(-1), alice.snapshot.connectionLost], ["connected false", false]);
});

story("reconnects wait from 250 ms to 10 s, spread by jitter", async (world) => {
  const delays = (jitter) => {
    let last = world.clock.now();
    const waits = [];
    const tab = world.server.openTab();
    tab.cut({ reset: true });
    const Refusing = class {
      readyState = 0;
      close() {}
      constructor() {
        waits.push(world.clock.now() - last);
        last = world.clock.now();
        queueMicrotask(() => this.onclose({ code: 1006, reason: "" }));
      }
    };
    const person = world.person("alice", { tab, WebSocket: Refusing, jitter: () => jitter });
    return { person, waits };
  };
  const [least, most] = [delays(0), delays(1)];
  await least.person.at();
  await most.person.at();
  await world.pass(40_000);
  assert.deepEqual(most.waits.slice(1, 9), [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
  assert.deepEqual(least.waits.slice(1, 4), [125, 250, 500]);
});

story("a room is told on from where it was; what was missed is not missed", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  bob.tab.cut({ reset: true });
  await finish(world, alice.lock.acquire());
  await finish(world, alice.client.lock("minutes", { document: "intro" }).acquire());
  await finish(world, alice.lock.release({ documentVersion: "v2" }));
  assert.equal(bob.snapshot.holder, null);
  const before = bob.client.room("minutes").getSnapshot();
  bob.tab.restore();
  await world.pass(2_000);
  const { locks } = bob.client.room("minutes").getSnapshot();
  assert.deepEqual(locks.map(({ document, holder }) => [document, holder.ownerId]), [["intro", "alice"]]);
  assert.deepEqual([bob.snapshot.holder, bob.snapshot.documentVersion], [null, "v2"]);
  assert.notEqual(before.locks, locks);
});

story("a log that is another one is read anew", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  bob.tab.cut({ reset: true });
  await finish(world, alice.lock.release());
  await world.server.stop();
  world.server.start({ newEpoch: true });
  bob.tab.restore();
  await world.pass(12_000);
  assert.equal(bob.snapshot.holder, null);
});

story("a server that restarts is resumed with the same token", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  await world.server.stop({ reconnectAfterMs: 3_000 });
  await world.pass(2_900);
  assert.deepEqual([connection(alice).state, alice.snapshot.canEdit], ["reconnecting", true]);
  world.server.start();
  await world.pass(2_000);
  assert.deepEqual([alice.state, alice.snapshot.fencingToken, alice.readonly], ["held", 1, []]);
  // A longer outage than the ttl: the server gives grace, and the lease is confirmed.
  await world.server.stop();
  await world.pass(60_000);
  assert.equal(alice.state, "readonly offline");
  world.server.start();
  await world.pass(11_000);
  assert.deepEqual([alice.state, alice.snapshot.fencingToken], ["held", 1]);
  assert.deepEqual(world.log, ["DocumentLocked 1 alice"]);
});

story("a silent connection is found out within 20 s, and at once on wake", async (world) => {
  const alice = await world.person("alice").at();
  alice.tab.cut();
  await world.pass(19_000);
  assert.equal(connection(alice).state, "connected");
  await world.pass(1_000);
  assert.equal(connection(alice).state, "reconnecting");
  alice.tab.restore();
  await world.pass(1_000);
  assert.equal(connection(alice).state, "connected");
  alice.tab.cut();
  alice.tab.show();
  await world.pass(5_000);
  assert.equal(connection(alice).state, "reconnecting");
});

story("a token is renewed before it ends, and the socket stays", async (world) => {
  let asked = 0;
  const getToken = () => ((asked += 1), world.server.token("alice", { expiresInMs: 120_000 }));
  const alice = await world.person("alice", { token: undefined, getToken }).at();
  await finish(world, alice.lock.acquire());
  alice.seen = [];
  await world.pass(600_000);
  assert.deepEqual([asked, alice.snapshot.canEdit, alice.readonly], [7, true, []]);
  assert.ok(alice.seen.every(({ connection }) => connection === "connected"));
});

story("a token that expired meanwhile is renewed on 4401, and the lock is kept", async (world) => {
  const alice = await world.person("alice", { token: undefined, getToken: () => world.server.token("alice") }).at();
  await finish(world, alice.lock.acquire());
  await world.pass(1_000);
  world.server.revokeTokens("alice");
  await world.pass(3_000);
  assert.deepEqual([connection(alice).state, alice.snapshot.fencingToken, alice.readonly], ["connected", 1, []]);
});

story("getToken that throws DocLockUnauthorized stops; anything else is retried", async (world) => {
  let answer = () => Promise.reject(new Error("no network"));
  let asked = 0;
  const alice = await world.person("alice", { token: undefined, getToken: () => ((asked += 1), answer()) }).at();
  await world.pass(10_000);
  assert.ok(asked > 3);
  assert.equal(connection(alice).state, "reconnecting");
  answer = () => Promise.reject(new DocLockUnauthorized("signed out"));
  await world.pass(20_000);
  assert.deepEqual([connection(alice).state, connection(alice).error.code], ["disconnected", "UNAUTHORIZED"]);
  const before = asked;
  await world.pass(60_000);
  assert.equal(asked, before);
  await rejected(world, alice.lock.acquire(), "UNAUTHORIZED");
  assert.equal(alice.state, "idle unauthorized");
  answer = async () => world.server.token("alice");
  alice.client.connect();
  await world.pass(1_000);
  assert.equal(connection(alice).state, "connected");
});

story("a token that is refused and cannot be renewed stops", async (world) => {
  const alice = await world.person("alice", { token: "nonsense" }).at();
  await world.pass(1_000);
  assert.deepEqual([connection(alice).state, connection(alice).error.code], ["disconnected", "UNAUTHORIZED"]);
});

story("a room that is forbidden says so", async (world) => {
  const alice = world.person("alice", { tokenOptions: { rooms: ["team-*"] } });
  await alice.at("minutes");
  const { error, isLive } = alice.client.room("minutes").getSnapshot();
  assert.deepEqual([error.code, isLive], ["ROOM_FORBIDDEN", false]);
});

story("a tab that is closed leaves its lock for 3 s", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  await finish(world, alice.lock.acquire());
  alice.tab.close();
  await world.pass(2_900);
  assert.equal(bob.snapshot.holder.ownerId, "alice");
  await world.pass(200);
  assert.equal(bob.snapshot.holder, null);
  assert.equal(world.log.at(-1), "DocumentUnlocked 1 alice released");
});

story("a reloaded page has its lock again, the same one", async (world) => {
  const before = await world.person("alice").at();
  await finish(world, before.lock.acquire());
  const tab = before.tab.reload();
  await world.pass(1_000);
  const after = await world.person("alice", { tab }).at();
  await world.pass(60_000);
  assert.deepEqual([after.state, after.snapshot.fencingToken, after.snapshot.lease.hold], ["held", 1, 2]);
  assert.deepEqual(world.log, ["DocumentLocked 1 alice"]);
});

story("a reloaded page that comes too late does not lock by itself", async (world) => {
  const before = await world.person("alice").at();
  await finish(world, before.lock.acquire());
  const tab = before.tab.reload();
  await world.pass(4_000);
  const after = await world.person("alice", { tab }).at();
  await world.pass(1_000);
  assert.deepEqual([after.state, after.readonly, world.server.lockOf("minutes")], ["idle", [], null]);
  await finish(world, after.lock.acquire());
  assert.equal(after.snapshot.fencingToken, 2);
});

story("a goodbye that comes late does not end the lock that was resumed", async (world) => {
  const tab = world.server.openTab();
  const late = [];
  const navigator = { ...tab.options.navigator, sendBeacon: (...goodbye) => Boolean(late.push(goodbye)) };
  const before = await world.person("alice", { tab, navigator }).at();
  await finish(world, before.lock.acquire());
  const next = tab.reload();
  const after = await world.person("alice", { tab: next }).at();
  await world.pass(0);
  assert.equal(after.state, "held");
  next.options.navigator.sendBeacon(...late[0]);
  await world.pass(60_000);
  assert.deepEqual([after.state, world.log], ["held", ["DocumentLocked 1 alice"]]);
});

story("a page kept by the browser comes back with its lock", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.tab.leave();
  assert.equal(alice.snapshot.canEdit, false);
  await world.pass(1_500);
  assert.equal(world.server.connections, 0);
  alice.tab.comeBack();
  await world.pass(500);
  assert.deepEqual([alice.state, alice.snapshot.fencingToken], ["held", 1]);
});

story("a page kept by the browser for longer is read-only, and does not take the lock back", async (world) => {
  const alice = await world.person("alice").at();
  await finish(world, alice.lock.acquire());
  alice.tab.leave();
  await world.pass(60_000);
  assert.deepEqual(alice.readonly, []);
  alice.tab.comeBack();
  await world.pass(60_000);
  assert.deepEqual([alice.state, alice.readonly, world.log.length], ["readonly released", ["released"], 2]);
  await finish(world, alice.lock.acquire());
  assert.equal(alice.snapshot.fencingToken, 2);
});

story("storage that is forbidden costs nothing but the resume", async (world) => {
  const forbidden = () => {
    throw new DOMException("no", "SecurityError");
  };
  const storage = { getItem: forbidden, setItem: forbidden, removeItem: forbidden };
  const alice = await world.person("alice", { storage }).at();
  await finish(world, alice.lock.acquire());
  alice.tab.close();
  await world.pass(4_000);
  assert.equal(world.server.lockOf("minutes"), null);
});

story("people in the room come and go", async (world) => {
  const alice = await world.person("alice").at();
  const bob = await world.person("bob").at();
  const names = () => alice.client.room("minutes").getSnapshot().participants.map(({ ownerId, isYou }) => `${ownerId}${isYou ? " (you)" : ""}`);
  assert.deepEqual(names(), ["alice (you)", "bob"]);
  bob.tab.kill();
  await world.pass(2_000);
  assert.deepEqual(names(), ["alice (you)"]);
});

story("offline: local serves alone while the server is away, says so, and asks the server when it is back", async (world) => {
  const alice = await world.person("alice", { offline: "local" }).at();
  await world.server.stop();
  const lease = await finish(world, alice.lock.acquire());
  assert.deepEqual([lease.source, alice.snapshot.isLocal, alice.snapshot.canEdit, alice.snapshot.fencingToken], ["web-lock", true, true, null]);
  const other = await world.person("alice", { offline: "local", tab: alice.tab.duplicate() }).at();
  await rejected(world, other.lock.acquire(), "UNREACHABLE");
  world.server.start();
  await world.pass(15_000);
  assert.deepEqual([alice.state, alice.snapshot.isLocal, alice.snapshot.fencingToken], ["held", false, 1]);
});

story("without offline: local nobody edits while the server is away", async (world) => {
  const alice = await world.person("alice").at();
  await world.server.stop();
  const error = await rejected(world, alice.lock.acquire(), "UNREACHABLE");
  assert.deepEqual([error.retryable, alice.state], [true, "idle"]);
  assert.deepEqual(alice.events.slice(-3), ["lock:attempt", "lock:error", "lock:readonly-entered"]);
});
