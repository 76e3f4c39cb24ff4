import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser } from "./setup.mjs";

const STEPS = ["getDirectoryHandle", "getFileHandle", "getFile", "text", "createWritable", "write", "close", "removeEntry"];

// The same numbers for the same seed, so that a run that fails can be run again.
function randomBy(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Delays of each step, before and after it takes effect: mostly none, sometimes long. */
function slowDisk(browser, random, longest) {
  const pause = () => {
    const chance = random();
    if (chance < 0.5) return undefined;
    return browser.clock.sleep(Math.floor(random() * (chance < 0.9 ? 60 : longest)));
  };
  for (const step of STEPS) {
    browser.file.before(step, pause);
    browser.file.after(step, pause);
  }
}

/**
 * Who holds the lock as the tabs themselves see it, by their events; fails as soon as two do. A holder that was told to
 * stop, by read-only or expiry, does not count: it does not write any more.
 */
function watch(tabs, browser, seed) {
  const holders = new Set();
  const counts = { grants: 0 };
  for (const [index, tab] of tabs.entries()) {
    tab.subscribeLockEvents(({ type }) => {
      if (["lock:expired", "lock:readonly-entered", "lock:release-requested"].includes(type)) holders.delete(index);
      if (type !== "lock:acquired") return;
      counts.grants += 1;
      holders.add(index);
      if (holders.size > 1) counts.doubles = `seed ${seed}, at ${browser.clock.monotonic()} ms: tabs ${[...holders]}`;
    });
  }
  return counts;
}

async function live(tab, browser, random, rounds) {
  for (let round = 0; round < rounds; round += 1) {
    await browser.clock.sleep(Math.floor(random() * 800));
    try {
      const { lease } = await tab.acquireProjectLock({ retryPolicy: { initialDelayMs: 100 }, maxWaitMs: 3_000 });
      if (random() < 0.2) continue;
      await browser.clock.sleep(Math.floor(random() * 1_000));
      if (random() < 0.3) await tab.renewProjectLock({ lease });
      await tab.releaseProjectLock({ lease });
    } catch (error) {
      assert.equal(error.name, "ProjectLockError", error.stack);
    }
  }
}

async function run(seed, { exclusiveWriters, longest, tabs: makeTabs }) {
  const random = randomBy(seed);
  const browser = new Browser({ exclusiveWriters });
  const tabs = makeTabs(browser);
  const counts = watch(tabs, browser, seed);
  slowDisk(browser, random, longest);
  let done = 0;
  for (const tab of tabs) live(tab, browser, random, 6).then(() => (done += 1));
  while (done < tabs.length) await browser.clock.advance(1_000);
  assert.equal(counts.doubles, undefined);
  return counts.grants;
}

const THREE_FILES = (browser) => [browser.tabWithoutWebLocks(), browser.tabWithoutWebLocks(), browser.tabWithoutWebLocks()];

for (const exclusiveWriters of [true, false]) {
  const how = exclusiveWriters ? "with exclusive writers" : "without exclusive writers";
  for (const [disk, longest] of [["quick", 30], ["slow", 250], ["very slow", 3_000]]) {
    test(`three tabs racing for the file never both hold it: ${disk} disk, ${how}`, async () => {
      let grants = 0;
      for (let seed = 1; seed <= 60; seed += 1) {
        grants += await run(seed, { exclusiveWriters, longest, tabs: THREE_FILES });
      }
      // Without exclusive writers, a disk slower than the time to settle grants little.
      assert.ok(grants >= (exclusiveWriters ? 60 : 10), `only ${grants} grants: the race was not run`);
    });
  }
}

test("tabs with and without Web Locks never both hold it", async () => {
  const mixed = (browser) => {
    const unsure = browser.tab();
    // Web Locks that answer this tab only now and then.
    const random = randomBy(7);
    const request = unsure.navigator.locks.request.bind(unsure.navigator.locks);
    unsure.navigator.locks.request = (...all) => (random() < 0.5 ? new Promise(() => {}) : request(...all));
    return [browser.tab(), unsure, browser.tabWithoutWebLocks({ navigator: { locks: broken(browser) } })];
  };
  // A tab that Web Locks refuse, but which may ask who holds what.
  const broken = (browser) => ({
    request: async () => {
      throw new DOMException("denied", "SecurityError");
    },
    query: () => browser.webLocks.query(),
  });
  let grants = 0;
  for (let seed = 1; seed <= 60; seed += 1) grants += await run(seed, { longest: 250, tabs: mixed });
  assert.ok(grants > 60, `only ${grants} grants`);
});

test("a writer that was too slow without exclusive writers does not count on its write", async () => {
  const browser = new Browser({ exclusiveWriters: false });
  const [slow, quick] = [browser.tabWithoutWebLocks(), browser.tabWithoutWebLocks()];
  let isFirst = true;
  // The slow one has looked, and found the file free; its write reaches the disk after the quick one has settled.
  browser.file.before("close", () => {
    if (!isFirst) return undefined;
    isFirst = false;
    return browser.clock.sleep(900);
  });
  const slowly = slow.acquireProjectLock();
  await browser.clock.advance(10);
  const quickly = quick.acquireProjectLock({ autoRenew: true });
  await browser.clock.advance(200);
  await quickly;
  await browser.rejected(slowly, "acquire-timeout");
  // The quick one's record is gone; it learns so at its heartbeat, before the slow one's record lets anyone in.
  const third = browser.tabWithoutWebLocks();
  await browser.rejected(third.acquireProjectLock(), "acquire-timeout");
  await browser.clock.advance(25_000);
  assert.equal(quick.probe.of("lock:readonly-entered")[0].reason, "lease-stale");
});
