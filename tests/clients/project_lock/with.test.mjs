import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED, heard } from "./setup.mjs";

const forever = () => new Promise(() => {});

test("the work gets the lease and a signal; its value is returned after the release", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const value = await tab.withProjectLock(undefined, async (lease, { signal }) => {
    assert.equal(lease.strategy, "web-lock");
    assert.equal(signal.aborted, false);
    return 42;
  });
  assert.equal(value, 42);
  assert.deepEqual(heard(tab), [...GRANTED, "lock:release-requested {reason: completed}", "lock:released = released"]);
  assert.equal(browser.clock.pending, 0);
});

test("the lease is released when the work fails, and its error is rethrown", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const mine = new Error("disk full");
  for (const work of [() => { throw mine; }, async () => { throw mine; }]) {
    await assert.rejects(tab.withProjectLock({}, work), (error) => error === mine);
    assert.deepEqual(heard(tab).slice(-2), ["lock:release-requested {reason: aborted}", "lock:released = released"]);
  }
  assert.equal(browser.clock.pending, 0);
});

test("the work's own error wins over the release's", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const mine = new Error("disk full");
  const working = tab.withProjectLock({}, async () => {
    browser.file.fail("removeEntry");
    throw mine;
  });
  const { error } = await browser.outcome(working);
  assert.equal(error, mine);
  assert.equal(browser.telemetry[0].reason, "release-failed");
});

test("a release that fails does not undo the work, and onReadonly tells of it", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const readonly = [];
  const working = tab.withProjectLock({ onReadonly: ({ reason }) => readonly.push(reason) }, async () => {
    browser.file.fail("removeEntry");
    return "saved";
  });
  const { value } = await browser.outcome(working);
  assert.deepEqual([value, readonly], ["saved", ["release-failed"]]);
});

test("onReadonly is called when the lock cannot be had, and the work does not start", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy();
  const readonly = [];
  const working = tab.withProjectLock({ onReadonly: ({ reason }) => readonly.push(reason) }, () => assert.fail());
  await browser.rejected(working, "acquire-timeout");
  assert.deepEqual(readonly, ["acquire-timeout"]);
});

test("onReadonly is called once, and may fail", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  let calls = 0;
  const onReadonly = () => {
    calls += 1;
    throw new Error("of the editor");
  };
  const working = tab.withProjectLock(
    { onReadonly },
    (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  await browser.clock.advance(1_000);
  browser.file.fail("getFile");
  await browser.rejected(working, "renew-failed");
  assert.deepEqual(browser.telemetry.map(({ reason }) => reason), ["renew-failed", "release-failed"]);
  assert.deepEqual([calls, browser.errors.map(({ message }) => message)], [1, ["of the editor"]]);
});

test("a lease that is taken away ends the work at once, even one that ignores its signal", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const working = tab.withProjectLock({}, forever);
  await browser.clock.advance(1_000);
  await browser.webLocks.request("project-lock", { steal: true }, () => {});
  await assert.rejects(working, { code: "lease-stale" });
  assert.equal(browser.clock.pending, 0);
});

test("a work that slept with its laptop is told that its lease has expired", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  let wake;
  const working = tab.withProjectLock({}, () => new Promise((resolve) => (wake = resolve)));
  await browser.clock.advance(1_000);
  browser.clock.suspend(60_000);
  wake("saved too late");
  await assert.rejects(working, { code: "lease-expired" });
});

test("the caller's signal ends the work, and the lease is released when the work has ended", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const abort = new AbortController();
  const reason = new Error("the user left");
  const working = tab.withProjectLock({ signal: abort.signal }, async (_, { signal }) => {
    await browser.clock.sleep(1_000);
    await browser.clock.sleep(500);
    assert.equal(signal.reason, reason);
    signal.throwIfAborted();
  });
  await browser.clock.advance(1_100);
  abort.abort(reason);
  await browser.clock.advance(300);
  assert.equal((await browser.webLocks.query()).held.length, 1);
  const { error } = await browser.outcome(working, 100);
  assert.equal(error, reason);
  assert.equal((await browser.webLocks.query()).held.length, 0);
  assert.deepEqual([browser.telemetry, browser.clock.pending], [[], 0]);
});

test("an abort at the very moment of the grant reaches the work", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const abort = new AbortController();
  tab.subscribeLockEvents(({ type }) => type === "lock:acquired" && abort.abort());
  const working = tab.withProjectLock({ signal: abort.signal }, async (_, { signal }) => signal.throwIfAborted());
  await assert.rejects(working, { name: "AbortError" });
  assert.equal(tab.probe.types.at(-1), "lock:released");
});

test("a work that ignores the caller's signal keeps others out until its lease has run out, no longer", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const abort = new AbortController();
  const working = tab.withProjectLock({ signal: abort.signal }, forever);
  await browser.clock.advance(10_000);
  abort.abort();
  await browser.clock.advance(14_999);
  assert.equal((await browser.webLocks.query()).held.length, 1);
  const rejected = assert.rejects(working, { code: "web-lock-aborted" });
  await browser.clock.advance(1);
  await rejected;
  assert.deepEqual([(await browser.webLocks.query()).held, browser.telemetry], [[], []]);
});

test("a work that releases the lease itself may go on without it", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const value = await tab.withProjectLock({}, async (lease) => {
    await tab.releaseProjectLock({ lease });
    return "went on";
  });
  assert.equal(value, "went on");
  assert.equal(tab.probe.of("lock:released").length, 1);
});

test("when it settles the lease is free: the next one is granted at once", async () => {
  const browser = new Browser();
  const [tab, other] = [browser.tab(), browser.tab()];
  for (let turn = 0; turn < 10; turn += 1) {
    await tab.withProjectLock({}, async () => {});
    await other.withProjectLock({}, async () => {});
  }
  assert.deepEqual([tab.probe.of("lock:waiting"), other.probe.of("lock:waiting")], [[], []]);
});
