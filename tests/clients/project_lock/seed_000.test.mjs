// The test cases of the design of the project lock service, by their numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ProjectLockError } from "../../../static/client/project-lock.js";
import { Browser, GRANTED, GRANTED_BY_FILE, heard } from "./setup.mjs";

test("TC-01 a Web Lock is granted at once", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease, didFallback } = await tab.acquireProjectLock();
  assert.equal(didFallback, false);
  assert.deepEqual(lease, {
    leaseId: "00000000-0000-4000-8000-000000000002",
    ownerId: "00000000-0000-4000-8000-000000000001",
    acquiredAt: browser.clock.now(),
    expiresAt: browser.clock.now() + 25_000,
    ttlMillis: 25_000,
    source: "web-lock",
    strategy: "web-lock",
    viaFallback: false,
  });
  assert.deepEqual(tab.probe.events[1].lease, lease);
  assert.deepEqual(heard(tab), GRANTED);
  assert.deepEqual(browser.file.everMade, []);
});

test("TC-02 without Web Locks the file is used", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.navigator.locks.queue.push("unsupported");
  const { lease, didFallback } = await tab.acquireProjectLock();
  assert.equal(didFallback, true);
  assert.deepEqual(lease, {
    leaseId: "00000000-0000-4000-8000-000000000002",
    ownerId: "00000000-0000-4000-8000-000000000001",
    acquiredAt: browser.clock.now(),
    expiresAt: browser.clock.now() + 30_000,
    ttlMillis: 30_000,
    source: "opfs-lock",
    strategy: "file-lock",
    viaFallback: true,
  });
  assert.deepEqual(tab.probe.aliases, ["switch-to-fallback", "acquired"]);
  assert.deepEqual(heard(tab), GRANTED_BY_FILE);
  const { leaseId, ownerId, expiresAt } = lease;
  assert.equal(await browser.file.read(), JSON.stringify({ leaseId, ownerId, expiresAt }));
});

test("TC-03 a file that is someone else's is tried again, with growing waits", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy(2_000);
  const retryPolicy = { initialDelayMs: 200, maxDelayMs: 5_000, multiplier: 2, maxAttempts: Infinity };
  const { value } = await browser.outcome(tab.acquireProjectLock({ retryPolicy }), 100);
  assert.equal(value.lease.leaseId, (await browser.record()).leaseId);
  const tries = [200, 400, 800, 1_600].flatMap((delayMs, index) => [
    "lock:error = acquire-failed {operation: acquire, retryable: true, error: fallback-conflict}",
    "lock:warning {warning: fallback-degraded, error: fallback-conflict}",
    `lock:waiting = backoff {retry: ${index + 1}, delayMs: ${delayMs}}`,
    `lock:attempt {strategy: file-lock, retry: ${index + 1}}`,
  ]);
  assert.deepEqual(heard(tab), [...GRANTED_BY_FILE.slice(0, 3), ...tries, ...GRANTED_BY_FILE.slice(3)]);
});

test("TC-04 an AbortSignal ends the acquiring, without a fallback", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.navigator.locks.queue.push("timeout");
  const abort = new AbortController();
  const acquiring = tab.acquireProjectLock({ signal: abort.signal });
  await browser.clock.advance(0);
  abort.abort();
  await assert.rejects(acquiring, (error) => {
    assert.ok(error instanceof ProjectLockError);
    assert.deepEqual([error.code, error.retryable, error.operation], ["web-lock-aborted", false, "acquire"]);
    assert.equal(error.cause, abort.signal.reason);
    return true;
  });
  assert.deepEqual(heard(tab), [
    "lock:attempt {strategy: web-lock, retry: 0}",
    "lock:error = acquire-failed {operation: acquire, retryable: false, error: web-lock-aborted}",
  ]);
  await browser.clock.advance(60_000);
  assert.deepEqual([heard(tab), browser.file.everMade, browser.clock.pending], [[], [], 0]);
});

test("TC-05 renewing moves expiresAt", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  await browser.clock.advance(10_000);
  tab.probe.take();
  const renewed = await tab.renewProjectLock({ lease });
  assert.deepEqual(renewed, { ...lease, expiresAt: lease.expiresAt + 10_000 });
  assert.equal((await browser.record()).expiresAt, renewed.expiresAt);
  assert.deepEqual(heard(tab), [
    "lock:attempt {strategy: file-lock, retry: 0}",
    "lock:renew-scheduled {nextHeartbeatInMs: 25000}",
    "lock:renewed = renewed",
  ]);
});

test("TC-06 a file that cannot be removed fails the release", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  tab.probe.take();
  browser.file.fail("removeEntry");
  const error = await browser.rejected(tab.releaseProjectLock({ lease }), "release-failed");
  assert.deepEqual([error.retryable, error.operation, error.cause.code], [true, "release", "fallback-write-failed"]);
  const failed = "lock:error = release-failed {operation: release, retryable: true, error: fallback-write-failed}";
  assert.deepEqual(heard(tab), [
    "lock:release-requested {reason: completed}",
    failed,
    failed,
    failed,
    failed,
    "lock:readonly-entered {reason: release-failed, lastError: fallback-write-failed}",
  ]);
});

test("TC-07 a lease that has expired is told of, and must be acquired anew", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock();
  tab.probe.take();
  await browser.clock.advance(24_999);
  assert.deepEqual(heard(tab), []);
  await browser.clock.advance(1);
  assert.deepEqual(tab.probe.events[0].lease, lease);
  assert.deepEqual(heard(tab), ["lock:expired = expired"]);
  await assert.rejects(tab.renewProjectLock({ lease }), { code: "lease-expired", retryable: false });
  const { lease: next } = await tab.acquireProjectLock();
  assert.notEqual(next.leaseId, lease.leaseId);
});
