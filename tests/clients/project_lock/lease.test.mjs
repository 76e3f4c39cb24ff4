import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED, READONLY, heard } from "./setup.mjs";

test("a renewed expiresAt is strictly greater, even within one millisecond or after the clock was set back", async () => {
  for (const kind of ["tab", "tabWithoutWebLocks"]) {
    const browser = new Browser();
    const tab = browser[kind]();
    let { lease } = await tab.acquireProjectLock();
    for (const change of [() => {}, () => browser.clock.setWall(browser.clock.now() - 3_600_000), () => {}]) {
      change();
      const renewed = await tab.renewProjectLock({ lease, extendByMs: 10 });
      assert.ok(renewed.expiresAt > lease.expiresAt);
      lease = renewed;
    }
  }
});

test("extendByMs says how long from now", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock();
  const renewed = await tab.renewProjectLock({ lease, extendByMs: 120_000 });
  assert.equal(renewed.expiresAt, browser.clock.now() + 120_000);
  await browser.clock.advance(119_999);
  assert.equal(tab.probe.of("lock:expired").length, 0);
  await browser.clock.advance(1);
  assert.equal(tab.probe.of("lock:expired").length, 1);
});

test("autoRenew renews 5 s before the end, again and again", async () => {
  const browser = new Browser();
  for (const [tab, every] of [[browser.tab(), 20_000], [browser.tabWithoutWebLocks({ lockName: "other" }), 25_000]]) {
    const { lease } = await tab.acquireProjectLock({ autoRenew: true });
    await browser.clock.advance(every - 1);
    assert.equal(tab.probe.of("lock:renewed").length, 0);
    await browser.clock.advance(1);
    assert.equal(tab.probe.of("lock:renewed").length, 1);
    await browser.clock.advance(9 * every);
    assert.equal(tab.probe.of("lock:renewed").length, 10);
    assert.equal(tab.probe.of("lock:warning").filter(({ warning }) => warning === "heartbeat-delayed").length, 0);
    await tab.releaseProjectLock({ lease });
  }
  assert.equal(browser.clock.pending, 0);
});

test("without autoRenew nothing is renewed", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  await tab.acquireProjectLock();
  await browser.clock.advance(60_000);
  assert.deepEqual(heard(tab), [...GRANTED, "lock:expired = expired"]);
  assert.deepEqual([browser.telemetry, browser.clock.pending], [[], 0]);
});

test("renewIntervalMs renews earlier, never later", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock({ autoRenew: true, renewIntervalMs: 10_000 });
  assert.equal(tab.probe.of("lock:renew-scheduled")[0].nextHeartbeatInMs, 10_000);
  await browser.clock.advance(30_000);
  assert.equal(tab.probe.of("lock:renewed").length, 3);
  await tab.releaseProjectLock({ lease });
  await tab.acquireProjectLock({ autoRenew: true, renewIntervalMs: 3_600_000 });
  assert.equal(tab.probe.of("lock:renew-scheduled").at(-1).nextHeartbeatInMs, 20_000);
});

test("a heartbeat that fails once is told as delayed, and goes on", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await tab.acquireProjectLock({ autoRenew: true });
  tab.probe.take();
  browser.file.fail("write", { times: 1 });
  await browser.clock.advance(26_000);
  assert.deepEqual(heard(tab), [
    "lock:attempt {strategy: file-lock, retry: 0}",
    "lock:error {operation: renew, retryable: true, error: fallback-write-failed}",
    "lock:warning {warning: heartbeat-delayed}",
    "lock:attempt {strategy: file-lock, retry: 1}",
    "lock:renew-scheduled {nextHeartbeatInMs: 25000}",
    "lock:renewed = renewed",
  ]);
});

test("a heartbeat that runs late is told as delayed", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  await tab.acquireProjectLock({ autoRenew: true });
  await browser.clock.advance(10_000);
  tab.probe.take();
  browser.clock.suspend(13_000);
  await browser.clock.advance(1_000);
  assert.deepEqual(heard(tab), [
    "lock:warning {warning: heartbeat-delayed}",
    "lock:attempt {strategy: web-lock, retry: 0}",
    "lock:renew-scheduled {nextHeartbeatInMs: 20000}",
    "lock:renewed = renewed",
  ]);
});

test("a laptop's sleep counts: expired, then lease-expired, then read-only, within a second of waking up", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock({ autoRenew: true });
  tab.probe.take();
  browser.clock.suspend(3_600_000);
  await browser.clock.advance(1_000);
  assert.deepEqual(heard(tab), [
    "lock:expired = expired",
    "lock:error {operation: renew, retryable: false, error: lease-expired}",
    "lock:readonly-entered {reason: lease-stale, lastError: lease-expired}",
  ]);
  assert.deepEqual(browser.telemetry, [{ name: READONLY, reason: "lease-stale", at: browser.clock.now() }]);
  await assert.rejects(tab.renewProjectLock({ lease }), { code: "lease-expired" });
  assert.equal((await browser.tab().acquireProjectLock()).didFallback, false);
});

test("a clock that is set back does not make a lease last longer", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  await tab.acquireProjectLock();
  browser.clock.setWall(browser.clock.now() - 3_600_000);
  await browser.clock.advance(25_000);
  assert.equal(tab.probe.of("lock:expired").length, 1);
});

test("an operation that meets an expiry before any timer did: expired, then lease-expired", async () => {
  for (const [operation, call] of [
    ["renew", (tab, lease) => tab.renewProjectLock({ lease })],
    ["release", (tab, lease) => tab.releaseProjectLock({ lease })],
  ]) {
    const browser = new Browser();
    const tab = browser.tab();
    const { lease } = await tab.acquireProjectLock();
    tab.probe.take();
    browser.clock.suspend(25_000);
    await assert.rejects(call(tab, lease), { code: "lease-expired", operation });
    assert.deepEqual(tab.probe.types.slice(0, 2), ["lock:expired", "lock:error"]);
    assert.equal(tab.probe.events[1].error.code, "lease-expired");
    // Whoever wanted to go on must stop writing; whoever was done anyway has lost nothing.
    assert.equal(browser.telemetry.length, operation === "renew" ? 1 : 0);
    await assert.rejects(call(tab, lease), { code: "lease-expired" });
    assert.equal(tab.probe.of("lock:expired").length, 1);
    assert.equal((await tab.acquireProjectLock()).didFallback, false);
  }
});

test("releasing twice, or a lease from before, is no error and says nothing", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease: first } = await tab.acquireProjectLock();
  await Promise.all([tab.releaseProjectLock({ lease: first }), tab.releaseProjectLock({ lease: first })]);
  assert.equal(tab.probe.of("lock:released").length, 1);
  const { lease } = await tab.acquireProjectLock();
  tab.probe.take();
  await tab.releaseProjectLock({ lease: first });
  assert.deepEqual(heard(tab), []);
  await tab.renewProjectLock({ lease });
});

test("a lease of another service is refused with lease-mismatch", async () => {
  const browser = new Browser();
  const [one, other] = [browser.tab(), browser.tab({ lockName: "other" })];
  const { lease } = await one.acquireProjectLock();
  await other.acquireProjectLock();
  await assert.rejects(other.renewProjectLock({ lease }), { code: "lease-mismatch", operation: "renew" });
  await assert.rejects(other.releaseProjectLock({ lease }), { code: "lease-mismatch", operation: "release" });
  await one.renewProjectLock({ lease });
});

test("a released lease cannot be renewed", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock();
  await tab.releaseProjectLock({ lease });
  await assert.rejects(tab.renewProjectLock({ lease }), { code: "lease-mismatch" });
});

test("a release is tried after 0.5, 1 and 2 s, and may succeed at last", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  const at = [];
  const start = browser.clock.now();
  tab.subscribeLockEvents(({ type }) => type === "lock:error" && at.push(browser.clock.now() - start));
  browser.file.fail("removeEntry", { times: 3 });
  const { value } = await browser.outcome(tab.releaseProjectLock({ lease, reason: "aborted" }), 100);
  assert.equal(value, undefined);
  assert.deepEqual(at, [0, 500, 1_500]);
  assert.equal(browser.clock.now() - start, 3_500);
  assert.deepEqual([browser.file.paths, browser.telemetry], [[], []]);
  assert.equal(tab.probe.of("lock:release-requested")[0].reason, "aborted");
});

test("force gives the lease up with one try and no error", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  tab.probe.take();
  browser.file.fail("removeEntry");
  await tab.releaseProjectLock({ lease, force: true });
  assert.deepEqual(heard(tab), [
    "lock:release-requested {reason: completed}",
    "lock:error = release-failed {operation: release, retryable: true, error: fallback-write-failed}",
    "lock:released = released",
  ]);
  await tab.releaseProjectLock({ lease, force: true });
});

test("after a release that failed, the same service may acquire at once; others when the file is overdue", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  browser.file.fail("removeEntry");
  await browser.rejected(tab.releaseProjectLock({ lease }), "release-failed");
  await browser.rejected(browser.tabWithoutWebLocks().acquireProjectLock(), "acquire-timeout");
  await tab.acquireProjectLock();
});

test("a read-only lease keeps others out until it is released, replaced or expired", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock({ autoRenew: true });
  browser.file.fail("write");
  await browser.clock.advance(26_000);
  assert.equal(browser.telemetry[0].reason, "renew-failed");
  assert.equal((await browser.record()).leaseId, lease.leaseId);
  browser.file.heal();
  const { lease: next } = await tab.acquireProjectLock();
  assert.equal((await browser.record()).leaseId, next.leaseId);
});

test("a lease whose file someone else has, or that is gone, is stale; their file is left alone", async () => {
  for (const change of ["occupy", "delete"]) {
    const browser = new Browser();
    const tab = browser.tabWithoutWebLocks();
    const { lease } = await tab.acquireProjectLock({ autoRenew: true });
    const theirs = change === "occupy" ? await browser.occupy(60_000) : await browser.file.delete();
    tab.probe.take();
    await browser.clock.advance(25_000);
    assert.deepEqual(heard(tab), [
      "lock:attempt {strategy: file-lock, retry: 0}",
      "lock:error {operation: renew, retryable: false, error: lease-stale}",
      "lock:readonly-entered {reason: lease-stale, lastError: lease-stale}",
    ]);
    await tab.releaseProjectLock({ lease });
    assert.deepEqual(await browser.record(), theirs);
  }
});

test("a release leaves a file alone that became someone else's unnoticed", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  const theirs = await browser.occupy();
  await tab.releaseProjectLock({ lease });
  assert.deepEqual(await browser.record(), theirs);
});

test("a stolen Web Lock is stale at once", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock({ autoRenew: true });
  tab.probe.take();
  await browser.webLocks.request("project-lock", { steal: true }, () => {});
  await browser.clock.advance(0);
  assert.deepEqual(heard(tab), [
    "lock:error {operation: renew, retryable: false, error: lease-stale}",
    "lock:readonly-entered {reason: lease-stale, lastError: lease-stale}",
  ]);
  await assert.rejects(tab.renewProjectLock({ lease }), { code: "lease-stale" });
  await tab.releaseProjectLock({ lease });
  assert.equal(browser.clock.pending, 0);
});

test("a renewal that is written after the lease has run out does not count", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  await browser.clock.advance(29_000);
  browser.file.before("close", () => browser.clock.sleep(1_500));
  const error = await browser.rejected(tab.renewProjectLock({ lease }), "lease-expired");
  assert.equal(error.operation, "renew");
  assert.deepEqual(tab.probe.types.slice(-3), ["lock:expired", "lock:error", "lock:readonly-entered"]);
});

test("a release during a renewal comes after it", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  browser.file.before("close", () => browser.clock.sleep(300));
  const renewing = tab.renewProjectLock({ lease });
  await browser.clock.advance(100);
  await browser.outcome(tab.releaseProjectLock({ lease }));
  await renewing;
  assert.deepEqual([browser.file.paths, browser.clock.pending], [[], 0]);
});

test("a release while a renewal waits for its second try comes after that", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  browser.file.fail("write", { times: 1 });
  const renewing = tab.renewProjectLock({ lease });
  await browser.clock.advance(200);
  await browser.outcome(tab.releaseProjectLock({ lease }));
  await renewing;
  assert.deepEqual(tab.probe.types.slice(-3), ["lock:renew-scheduled", "lock:renewed", "lock:released"]);
  assert.deepEqual([browser.file.paths, browser.telemetry], [[], []]);
});

test("a release has ended when the browser has freed the lock, not before", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const request = tab.navigator.locks.request.bind(tab.navigator.locks);
  tab.navigator.locks.request = async (...all) => {
    await request(...all);
    await browser.clock.sleep(50);
  };
  const { lease } = await tab.acquireProjectLock();
  const releasing = tab.releaseProjectLock({ lease });
  await browser.clock.advance(49);
  assert.equal(tab.probe.of("lock:released").length, 0);
  await browser.clock.advance(1);
  await releasing;
});

test("every read-only is told to telemetry, after a lock:error with the same error", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy(1_600);
  await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  await browser.clock.advance(1_000);
  const { lease } = await tab.acquireProjectLock();
  browser.file.fail("close");
  await browser.rejected(tab.renewProjectLock({ lease }), "renew-failed");
  browser.file.fail("removeEntry");
  await browser.rejected(tab.releaseProjectLock({ lease }), "release-failed");
  browser.file.heal();
  const { lease: next } = await tab.acquireProjectLock();
  browser.clock.suspend(60_000);
  await browser.rejected(tab.renewProjectLock({ lease: next }), "lease-expired");
  const reasons = ["acquire-timeout", "renew-failed", "release-failed", "lease-stale"];
  assert.deepEqual(browser.telemetry.map(({ reason }) => reason), reasons);
  assert.deepEqual(tab.probe.of("lock:readonly-entered").map(({ reason }) => reason), reasons);
  const { events } = tab.probe;
  for (const [index, { type, lastError }] of events.entries()) {
    if (type !== "lock:readonly-entered") continue;
    const error = events.slice(0, index).findLast((event) => event.type === "lock:error");
    assert.equal(error.error, lastError);
  }
});
