import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Browser } from "./setup.mjs";

const CYCLES = 10_000;

// Node has it only by a flag, which can be set late.
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc");

for (const kind of ["tab", "tabWithoutWebLocks"]) {
  test(`${CYCLES} times acquire and release leave no timers, listeners, locks or files: ${kind}`, async () => {
    const browser = new Browser();
    const tab = browser[kind]();
    tab.probe.stop();
    const { signal } = new AbortController();
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      const { lease } = await tab.acquireProjectLock({ signal, autoRenew: true });
      await tab.releaseProjectLock({ lease });
    }
    assert.equal(browser.clock.pending, 0);
    assert.equal(getEventListeners(signal, "abort").length, 0);
    assert.deepEqual(await browser.webLocks.query(), { held: [], pending: [] });
    assert.deepEqual(browser.file.paths, []);
  });
}

test("withProjectLock leaves no listeners either, however it ends", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const { signal } = new AbortController();
  for (let cycle = 0; cycle < 1_000; cycle += 1) {
    await tab.withProjectLock({ signal, onReadonly() {} }, async () => {
      if (cycle % 2) throw new Error("now and then");
    }).catch(() => {});
    tab.probe.take();
  }
  assert.deepEqual([getEventListeners(signal, "abort").length, browser.clock.pending], [0, 0]);
});

test("memory does not grow with the number of leases", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  tab.probe.stop();
  const cycles = async (count) => {
    for (let cycle = 0; cycle < count; cycle += 1) await tab.withProjectLock({}, () => {});
    await browser.clock.advance(0);
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  let before = await cycles(2_000);
  const grown = [];
  for (let round = 0; round < 3; round += 1) {
    const after = await cycles(10_000);
    grown.push(after - before);
    before = after;
  }
  // What is kept for each lease would show in every round; what the engine keeps for itself does not.
  assert.ok(Math.min(...grown) < 10_000 * 50, `${grown} bytes more in rounds of 10000 leases`);
});

test("an acquire that had to wait leaves nothing on a signal that lives on", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  await browser.occupy(60_000);
  const { signal } = new AbortController();
  for (let turn = 0; turn < 3; turn += 1) await browser.rejected(tab.acquireProjectLock({ signal }), "acquire-timeout");
  assert.deepEqual([getEventListeners(signal, "abort").length, browser.clock.pending], [0, 0]);
});

test("a thousand subscribers all hear all, in the order in which they came", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const order = [];
  const subscriptions = Array.from({ length: 1_000 }, (_, index) =>
    tab.subscribeLockEvents(({ type }) => type === "lock:acquired" && order.push(index)),
  );
  await tab.acquireProjectLock();
  assert.deepEqual(order, Array.from({ length: 1_000 }, (_, index) => index));
  for (const { unsubscribe } of subscriptions) unsubscribe();
  await browser.clock.advance(25_000);
  assert.equal(order.length, 1_000);
});
