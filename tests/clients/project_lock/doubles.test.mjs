// The doubles are shipped, so they are held to what browsers do; chromium.mjs runs the parts of this that it can on the
// real thing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EventProbe, FakeClock, InMemoryOpfsFile, MockNavigatorLocks } from "../../../static/client/testing.js";
import { fileSystemBehaviour, webLocksBehaviour } from "./platform.mjs";

for (const [name, check] of Object.entries(webLocksBehaviour)) {
  test(`MockNavigatorLocks: ${name}`, async () => {
    assert.deepEqual(await check(new MockNavigatorLocks()), check.expected);
  });
}

for (const [name, check] of Object.entries(fileSystemBehaviour)) {
  test(`InMemoryOpfsFile: ${name}`, async () => {
    assert.deepEqual(await check(new InMemoryOpfsFile().root), check.expected);
  });
}

test("MockNavigatorLocks: the queue decides what happens to the next requests", async () => {
  const locks = new MockNavigatorLocks();
  const mine = new Error("mine");
  locks.queue.push("unsupported", "denied", mine, "unavailable", "granted");
  await assert.rejects(locks.request("a", () => {}), { name: "NotSupportedError" });
  await assert.rejects(locks.request("a", () => {}), { name: "SecurityError" });
  await assert.rejects(locks.request("a", () => {}), (error) => error === mine);
  assert.equal(await locks.request("a", (lock) => lock), null);
  assert.equal((await locks.request("a", (lock) => lock)).name, "a");
  locks.queue.push("timeout");
  const clock = new FakeClock();
  assert.equal(await Promise.race([locks.request("a", () => "granted"), clock.advance(0).then(() => "no answer")]), "no answer");
});

test("MockNavigatorLocks: tabs share locks, and closing one frees its own", async () => {
  const locks = new MockNavigatorLocks();
  const other = locks.openTab();
  locks.request("a", () => new Promise(() => {}));
  other.request("b", () => new Promise(() => {}));
  const waiting = other.request("a", (lock) => lock.name);
  assert.deepEqual((await other.query()).held.map(({ name, clientId }) => [name, clientId]), [["a", "tab-1"], ["b", "tab-2"]]);
  assert.equal((await locks.query()).pending.length, 1);
  locks.close();
  assert.equal(await waiting, "a");
  assert.deepEqual((await other.query()).held.map(({ name }) => name), ["b"]);
});

test("InMemoryOpfsFile: read, write and delete are the test's own hands", async () => {
  const file = new InMemoryOpfsFile({ contents: "one" });
  file.fail("getFile");
  file.fail("removeEntry");
  assert.equal(await file.read(), "one");
  await file.write("two");
  assert.equal(await file.read(), "two");
  await file.delete();
  assert.deepEqual([await file.read(), file.paths, file.everMade], [undefined, [], ["project/.lock"]]);
});

test("InMemoryOpfsFile: steps fail as often as said, and wait", async () => {
  const clock = new FakeClock();
  const file = new InMemoryOpfsFile({ clock, path: "a/b/c.txt", contents: "text" });
  const folder = await (await file.root.getDirectoryHandle("a")).getDirectoryHandle("b");
  file.fail("getFileHandle", { times: 1, error: new Error("once") });
  await assert.rejects(folder.getFileHandle("c.txt"), { message: "once" });
  const handle = await folder.getFileHandle("c.txt");
  file.before("getFile", () => clock.sleep(100));
  let got;
  handle.getFile().then((value) => (got = value));
  await clock.advance(99);
  assert.equal(got, undefined);
  await clock.advance(1);
  assert.deepEqual([got.name, got.size, got.lastModified], ["c.txt", 4, clock.now() - 100]);
  file.heal();
  assert.equal(await (await handle.getFile()).text(), "text");
});

test("InMemoryOpfsFile: without exclusive writers, mode is not even read", async () => {
  const file = new InMemoryOpfsFile({ contents: "", exclusiveWriters: false });
  const handle = await (await file.root.getDirectoryHandle("project")).getFileHandle(".lock");
  const options = {
    get mode() {
      return assert.fail("it was read");
    },
  };
  const [one, other] = [await handle.createWritable(options), await handle.createWritable(options)];
  await one.write("one");
  await other.write("other");
  await one.close();
  await other.close();
  assert.equal(await file.read(), "other");
});

test("FakeClock: timers run in order and at their time, and what they set off comes first", async () => {
  const clock = new FakeClock(1_000);
  const log = [];
  clock.setTimeout(() => log.push(`b ${clock.now()}`), 20);
  clock.setTimeout(() => {
    log.push(`a ${clock.now()}`);
    clock.sleep(5).then(() => log.push(`after a ${clock.monotonic()}`));
  }, 10);
  const cancelled = clock.setTimeout(() => log.push("never"), 15);
  clock.clearTimeout(cancelled);
  assert.equal(clock.pending, 2);
  await clock.advance(100);
  assert.deepEqual(log, ["a 1010", "after a 15", "b 1020"]);
  assert.deepEqual([clock.now(), clock.monotonic(), clock.pending], [1_100, 100, 0]);
});

test("FakeClock: a suspended laptop's time of day goes on, its timers do not", async () => {
  const clock = new FakeClock(0);
  let rang = false;
  clock.setTimeout(() => (rang = true), 10);
  clock.suspend(60_000);
  assert.deepEqual([clock.now(), clock.monotonic(), rang], [60_000, 0, false]);
  await clock.advance(10);
  assert.deepEqual([clock.now(), clock.monotonic(), rang], [60_010, 10, true]);
});

test("EventProbe: records both names, by name, and until it is stopped", () => {
  let tell;
  const probe = new EventProbe({
    subscribeLockEvents: (listener) => {
      tell = listener;
      return { unsubscribe: () => (tell = () => {}) };
    },
  });
  tell({ type: "lock:attempt", strategy: "web-lock", retry: 0 });
  tell({ type: "lock:waiting", alias: "backoff", retry: 1, delayMs: 500 });
  assert.deepEqual([probe.types, probe.aliases], [["lock:attempt", "lock:waiting"], ["backoff"]]);
  assert.equal(probe.of("lock:waiting")[0].delayMs, 500);
  assert.equal(probe.take().length, 2);
  probe.stop();
  tell({ type: "lock:attempt", strategy: "web-lock", retry: 0 });
  assert.deepEqual(probe.events, []);
});
