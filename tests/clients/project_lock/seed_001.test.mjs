// The seven test cases of the AutoSave project lock design, by their names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED, GRANTED_BY_FILE, READONLY, heard } from "./setup.mjs";

const RENEWED = [
  "lock:attempt {strategy: web-lock, retry: 0}",
  "lock:renew-scheduled {nextHeartbeatInMs: 20000}",
  "lock:renewed = renewed",
];
const RELEASED = ["lock:release-requested {reason: completed}", "lock:released = released"];

test("1 Web Lock 正常フロー: acquire, renew, release; the heartbeat is due at ttlMillis - 5000", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock();
  const renewed = await tab.renewProjectLock({ lease });
  await tab.releaseProjectLock({ lease: renewed });
  assert.equal(tab.probe.of("lock:renew-scheduled")[0].nextHeartbeatInMs, lease.ttlMillis - 5_000);
  assert.deepEqual(tab.probe.aliases, ["acquired", "renewed", "released"]);
  assert.deepEqual(heard(tab), [...GRANTED, ...RENEWED, ...RELEASED]);
  assert.deepEqual((await browser.webLocks.query()).held, []);
});

test("2 フォールバック切替: the file is made, viaFallback is true, fallback-engaged is told once", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  assert.equal(lease.viaFallback, true);
  assert.deepEqual(browser.file.paths, ["project/.lock"]);
  await tab.releaseProjectLock({ lease });
  await tab.acquireProjectLock();
  const { lease: _, ...engaged } = tab.probe.of("lock:warning")[0];
  assert.deepEqual([tab.probe.of("lock:warning").length, engaged.warning], [1, "fallback-engaged"]);
  assert.deepEqual(heard(tab), [...GRANTED_BY_FILE, ...RELEASED, ...GRANTED_BY_FILE.filter((line) => !/warning/.test(line))]);
});

test("3 再試行バックオフ: waits of [500, 1000], then read-only with acquire-timeout", async () => {
  const browser = new Browser();
  const holder = browser.tab();
  await holder.acquireProjectLock({ autoRenew: true });
  const tab = browser.tab();
  const error = await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  assert.deepEqual([error.retryable, error.operation, error.cause.code], [false, "acquire", "acquire-denied"]);
  assert.deepEqual(tab.probe.of("lock:waiting").map(({ delayMs }) => delayMs), [500, 1000]);
  const denied = "lock:error = acquire-failed {operation: acquire, retryable: true, error: acquire-denied}";
  assert.deepEqual(heard(tab), [
    "lock:attempt {strategy: web-lock, retry: 0}",
    denied,
    "lock:waiting = backoff {retry: 1, delayMs: 500}",
    "lock:attempt {strategy: web-lock, retry: 1}",
    denied,
    "lock:waiting = backoff {retry: 2, delayMs: 1000}",
    "lock:attempt {strategy: web-lock, retry: 2}",
    denied,
    "lock:readonly-entered {reason: acquire-timeout, lastError: acquire-denied}",
  ]);
});

test("4 TTL 更新: the file's expiresAt moves to 30 s from now; after two failed tries the lease is read-only", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  await browser.clock.advance(5_000);
  const renewed = await tab.renewProjectLock({ lease });
  assert.equal(renewed.expiresAt, browser.clock.now() + 30_000);
  assert.deepEqual(await browser.record(), {
    leaseId: lease.leaseId,
    ownerId: lease.ownerId,
    expiresAt: browser.clock.now() + 30_000,
  });
  tab.probe.take();
  browser.file.fail("close");
  await browser.rejected(tab.renewProjectLock({ lease }), "renew-failed");
  assert.deepEqual(heard(tab), [
    "lock:attempt {strategy: file-lock, retry: 0}",
    "lock:error {operation: renew, retryable: true, error: fallback-write-failed}",
    "lock:warning {warning: heartbeat-delayed}",
    "lock:attempt {strategy: file-lock, retry: 1}",
    "lock:error {operation: renew, retryable: true, error: fallback-write-failed}",
    "lock:readonly-entered {reason: renew-failed, lastError: fallback-write-failed}",
  ]);
  browser.file.heal();
  await assert.rejects(tab.renewProjectLock({ lease }), { code: "lease-stale" });
});

test("5 Readonly 降格イベント: renew-failed, lease-stale and release-failed each give their reason", async () => {
  const cases = {
    "renew-failed": async (browser, tab, lease) => {
      browser.file.fail("write");
      await browser.rejected(tab.renewProjectLock({ lease }), "renew-failed");
    },
    "lease-stale": async (browser, tab, lease) => {
      await browser.occupy();
      await browser.rejected(tab.renewProjectLock({ lease }), "lease-stale");
    },
    "release-failed": async (browser, tab, lease) => {
      browser.file.fail("removeEntry");
      await browser.rejected(tab.releaseProjectLock({ lease }), "release-failed");
    },
  };
  const snapshot = {
    "renew-failed": { reason: "renew-failed", lastError: "fallback-write-failed" },
    "lease-stale": { reason: "lease-stale", lastError: "lease-stale" },
    "release-failed": { reason: "release-failed", lastError: "fallback-write-failed" },
  };
  for (const [name, breakIt] of Object.entries(cases)) {
    const browser = new Browser();
    const tab = browser.tabWithoutWebLocks();
    const { lease } = await tab.acquireProjectLock();
    await breakIt(browser, tab, lease);
    const told = tab.probe.of("lock:readonly-entered");
    assert.deepEqual(told.map(({ reason, lastError }) => ({ reason, lastError: lastError.code })), [snapshot[name]]);
    assert.deepEqual(browser.telemetry, [{ name: READONLY, reason: name, at: browser.clock.now() }]);
  }
});

test("6 withProjectLock 心拍制御: a long task is kept alive, and ends when onReadonly is called", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const readonly = [];
  let signalOfWork;
  const working = tab.withProjectLock({ onReadonly: (event) => readonly.push(event) }, (lease, { signal }) => {
    signalOfWork = signal;
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await browser.clock.advance(75_000);
  assert.equal(tab.probe.of("lock:renewed").length, 3);
  assert.equal(signalOfWork.aborted, false);
  tab.probe.take();
  browser.file.fail("close");
  await browser.rejected(working, "renew-failed");
  assert.deepEqual(readonly.map(({ reason }) => reason), ["renew-failed"]);
  assert.equal(signalOfWork.aborted, true);
  assert.deepEqual(heard(tab).slice(-3), [
    "lock:readonly-entered {reason: renew-failed, lastError: fallback-write-failed}",
    "lock:release-requested {reason: aborted}",
    "lock:released = released",
  ]);
  assert.deepEqual(browser.file.paths, []);
});

test("7 イベント購読解除: no event arrives after unsubscribing, which may be done twice", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const events = [];
  const subscription = tab.subscribeLockEvents(({ type }) => events.push(type));
  const { lease } = await tab.acquireProjectLock();
  subscription.unsubscribe();
  subscription.unsubscribe();
  await tab.releaseProjectLock({ lease });
  assert.deepEqual(events, ["lock:attempt", "lock:acquired", "lock:renew-scheduled"]);
  assert.deepEqual(tab.probe.types.slice(-1), ["lock:released"]);
});
