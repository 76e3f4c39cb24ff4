import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED, GRANTED_BY_FILE, READONLY, heard } from "./setup.mjs";

const LEASE_KEYS = ["leaseId", "ownerId", "acquiredAt", "expiresAt", "ttlMillis", "source", "strategy", "viaFallback"];

test("a lease has exactly the promised fields, and survives JSON", async () => {
  const browser = new Browser();
  for (const tab of [browser.tab(), browser.tabWithoutWebLocks({ lockName: "other" })]) {
    const { lease } = await tab.acquireProjectLock();
    assert.deepEqual(Object.keys(lease), LEASE_KEYS);
    await tab.releaseProjectLock({ lease: JSON.parse(JSON.stringify(lease)) });
  }
});

test("the Web Lock is held by a callback that is pending, and free after the release", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { lease } = await tab.acquireProjectLock();
  const { held } = await browser.webLocks.query();
  assert.deepEqual(held.map(({ name, mode }) => ({ name, mode })), [{ name: "project-lock", mode: "exclusive" }]);
  await tab.releaseProjectLock({ lease });
  const other = browser.tab();
  await other.acquireProjectLock();
  assert.deepEqual(heard(other), GRANTED);
});

test("a refused Web Lock falls back to the file at once", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.navigator.locks.queue.push("denied");
  const { didFallback } = await tab.acquireProjectLock();
  assert.equal(didFallback, true);
  const warning = tab.probe.of("lock:warning")[0];
  assert.deepEqual([warning.error.code, warning.error.cause.name], ["acquire-denied", "SecurityError"]);
});

test("Web Locks that do not answer for 2 s fall back to the file", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.navigator.locks.queue.push("timeout");
  const acquiring = tab.acquireProjectLock();
  await browser.clock.advance(1_999);
  assert.deepEqual(heard(tab), GRANTED_BY_FILE.slice(0, 1));
  await browser.clock.advance(1);
  assert.equal((await acquiring).lease.strategy, "file-lock");
  assert.deepEqual(heard(tab), GRANTED_BY_FILE.slice(1).map((line) => line.replace("web-lock-unsupported", "acquire-denied")));
});

test("a Web Lock that is granted too late is given back", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const request = tab.navigator.locks.request.bind(tab.navigator.locks);
  tab.navigator.locks.request = async (...all) => {
    await browser.clock.sleep(3_000);
    return request(...all);
  };
  const { value } = await browser.outcome(tab.acquireProjectLock());
  assert.equal(value.lease.strategy, "file-lock");
  await browser.clock.advance(5_000);
  assert.deepEqual((await browser.webLocks.query()).held, []);
});

test("both kinds of lock get the same leaseId in one acquire", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.navigator.locks.queue.push("unsupported");
  const { lease } = await tab.acquireProjectLock();
  // The first id is the owner's, the second this lease's: no other was made for the file.
  assert.equal(lease.leaseId, "00000000-0000-4000-8000-000000000002");
  assert.equal((await browser.record()).leaseId, lease.leaseId);
});

test("a second acquire while the lease is held, or being acquired, fails at once with lease-mismatch", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const first = tab.acquireProjectLock();
  await assert.rejects(tab.acquireProjectLock(), { code: "lease-mismatch", retryable: false, operation: "acquire" });
  await first;
  tab.probe.take();
  await assert.rejects(tab.acquireProjectLock(), { code: "lease-mismatch" });
  assert.deepEqual(heard(tab), ["lock:error = acquire-failed {operation: acquire, retryable: false, error: lease-mismatch}"]);
  assert.deepEqual(browser.telemetry, []);
});

test("an acquire during a release waits for it", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  browser.file.before("removeEntry", () => browser.clock.sleep(700));
  const releasing = tab.releaseProjectLock({ lease });
  const { value } = await browser.outcome(tab.acquireProjectLock());
  await releasing;
  assert.equal((await browser.record()).leaseId, value.lease.leaseId);
});

test("a signal that is aborted already ends it before anything is tried", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const reason = new Error("closed");
  const error = await browser.rejected(tab.acquireProjectLock({ signal: AbortSignal.abort(reason) }), "web-lock-aborted");
  assert.equal(error.cause, reason);
  assert.deepEqual(heard(tab), ["lock:error = acquire-failed {operation: acquire, retryable: false, error: web-lock-aborted}"]);
});

test("an abort while waiting for the next try ends it at once, and is not read-only", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy();
  const abort = new AbortController();
  const acquiring = tab.acquireProjectLock({ signal: abort.signal });
  await browser.clock.advance(100);
  abort.abort();
  await assert.rejects(acquiring, { code: "web-lock-aborted" });
  assert.deepEqual([browser.clock.pending, browser.telemetry], [0, []]);
  assert.equal((await browser.record()).leaseId, "theirs");
});

test("an abort while the file is written leaves no file behind", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  browser.file.before("close", () => browser.clock.sleep(300));
  const abort = new AbortController();
  const acquiring = tab.acquireProjectLock({ signal: abort.signal });
  await browser.clock.advance(100);
  abort.abort();
  await assert.rejects(acquiring, { code: "web-lock-aborted" });
  await browser.clock.advance(1_000);
  assert.deepEqual([browser.file.paths, browser.clock.pending], [[], 0]);
});

test("an abort after the lease was granted changes nothing", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const abort = new AbortController();
  const { lease } = await tab.acquireProjectLock({ signal: abort.signal });
  abort.abort();
  await tab.renewProjectLock({ lease });
  await tab.releaseProjectLock({ lease });
});

test("maxWaitMs alone waits that long, by the policy of its own", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy();
  const error = await browser.rejected(tab.acquireProjectLock({ maxWaitMs: 2_000 }), "acquire-timeout");
  assert.equal(error.cause.code, "fallback-conflict");
  assert.deepEqual(tab.probe.of("lock:waiting").map(({ delayMs }) => delayMs), [200, 400, 800, 600]);
});

test("retryPolicy is bounded by 5 s unless maxWaitMs says otherwise", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy(60_000);
  const retryPolicy = { initialDelayMs: 1_000, maxDelayMs: 2_000 };
  await browser.rejected(tab.acquireProjectLock({ retryPolicy }), "acquire-timeout");
  assert.deepEqual(tab.probe.of("lock:waiting").map(({ delayMs }) => delayMs), [1_000, 2_000, 2_000]);
  tab.probe.take();
  await browser.rejected(tab.acquireProjectLock({ retryPolicy: { maxAttempts: 1 }, maxWaitMs: 60_000 }), "acquire-timeout");
  assert.deepEqual(tab.probe.of("lock:waiting"), []);
});

test("nonsense in options is refused before anything is tried", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  await assert.rejects(tab.acquireProjectLock({ maxWaitMs: NaN }), RangeError);
  await assert.rejects(tab.acquireProjectLock({ retryPolicy: { initialDelayMs: -1 } }), RangeError);
  await assert.rejects(tab.acquireProjectLock({ retryPolicy: { multiplier: "2" } }), RangeError);
  const { lease } = await tab.acquireProjectLock();
  for (const extendByMs of [0, -1, NaN, Infinity, 300_001]) {
    await assert.rejects(tab.renewProjectLock({ lease, extendByMs }), RangeError);
  }
});

test("a folder that cannot be opened ends it at once with fallback-open-failed, and is read-only", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  browser.file.fail("getDirectoryHandle");
  await assert.rejects(tab.acquireProjectLock(), { code: "fallback-open-failed", retryable: false, operation: "acquire" });
  assert.deepEqual(heard(tab), [
    ...GRANTED_BY_FILE.slice(0, 3),
    "lock:error = acquire-failed {operation: acquire, retryable: false, error: fallback-open-failed}",
    "lock:readonly-entered {reason: acquire-timeout, lastError: fallback-open-failed}",
  ]);
  assert.deepEqual(browser.telemetry, [{ name: READONLY, reason: "acquire-timeout", at: browser.clock.now() }]);
});

test("without Web Locks and without files it says so", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks({ directory: undefined });
  await assert.rejects(tab.acquireProjectLock(), { code: "fallback-open-failed" });
});

test("a write that fails is tried again", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  browser.file.fail("write", { times: 2 });
  const { value } = await browser.outcome(tab.acquireProjectLock());
  assert.equal((await browser.record()).leaseId, value.lease.leaseId);
  assert.deepEqual(tab.probe.of("lock:error").map(({ error }) => error.code), ["fallback-write-failed", "fallback-write-failed"]);
});

test("a file system that never answers does not hold an acquire for ever", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  browser.file.before("getFileHandle", () => new Promise(() => {}));
  const error = await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  assert.equal(error.cause.code, "fallback-write-failed");
});

test("a directory may be a function, asked only when it is needed", async () => {
  const browser = new Browser();
  let asked = 0;
  const directory = async () => {
    asked += 1;
    return browser.file.root;
  };
  const tab = browser.tabWithoutWebLocks({ directory });
  assert.equal(asked, 0);
  await tab.acquireProjectLock();
  assert.deepEqual([asked > 0, browser.file.paths], [true, ["project/.lock"]]);
});

test("a Web Lock that someone holds is never bypassed by the file", async () => {
  const browser = new Browser();
  await browser.tab().acquireProjectLock({ autoRenew: true });
  for (const outcome of ["denied", "timeout", "unsupported"]) {
    const tab = browser.tab();
    tab.navigator.locks.queue.push(outcome);
    const error = await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
    assert.equal(error.cause.code, "acquire-denied");
    assert.deepEqual(browser.file.paths, []);
  }
});

test("a file that someone holds is respected by those who have the Web Lock", async () => {
  const browser = new Browser();
  const inFallback = browser.tabWithoutWebLocks();
  const { lease } = await inFallback.acquireProjectLock({ autoRenew: true });
  const tab = browser.tab();
  const error = await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  assert.equal(error.cause.code, "fallback-conflict");
  assert.deepEqual((await browser.webLocks.query()).held, []);
  await inFallback.releaseProjectLock({ lease });
  assert.equal((await tab.acquireProjectLock()).lease.strategy, "web-lock");
});

test("a tab that is closed leaves the Web Lock to the others", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  await tab.acquireProjectLock({ autoRenew: true });
  tab.navigator.locks.close();
  assert.equal((await browser.tab().acquireProjectLock()).didFallback, false);
});

test("fallback-engaged is told again after Web Locks have worked", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const once = async (outcome) => {
    tab.navigator.locks.queue.push(outcome);
    const { lease } = await tab.acquireProjectLock();
    await tab.releaseProjectLock({ lease });
    return tab.probe.take().filter(({ warning }) => warning === "fallback-engaged").length;
  };
  assert.deepEqual([await once("denied"), await once("denied"), await once("granted"), await once("denied")], [1, 0, 0, 1]);
});
