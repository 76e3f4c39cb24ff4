import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED, heard } from "./setup.mjs";

test("a subscriber that throws, or whose promise fails, harms neither the lock nor the others", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const types = [];
  tab.subscribeLockEvents(() => {
    throw new Error("thrown");
  });
  tab.subscribeLockEvents(async () => {
    throw new Error("rejected");
  });
  tab.subscribeLockEvents(({ type }) => types.push(type));
  const { lease } = await tab.acquireProjectLock();
  await tab.releaseProjectLock({ lease });
  assert.deepEqual(types, tab.probe.types);
  await browser.clock.advance(0);
  assert.equal(browser.errors.length, 2 * types.length);
});

test("what onTelemetry throws harms nobody", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks({
    onTelemetry: () => {
      throw new Error("no network");
    },
  });
  await browser.occupy();
  await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  assert.deepEqual(browser.errors.map(({ message }) => message), ["no network"]);
});

test("a subscriber that unsubscribes another one stops it at once", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  const heardLate = [];
  tab.subscribeLockEvents(() => later.unsubscribe());
  const later = tab.subscribeLockEvents(({ type }) => heardLate.push(type));
  await tab.acquireProjectLock();
  assert.deepEqual(heardLate, []);
});

test("a subscriber that subscribes others does not loop", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  let calls = 0;
  const subscribeAgain = () => {
    calls += 1;
    tab.subscribeLockEvents(subscribeAgain);
  };
  tab.subscribeLockEvents(subscribeAgain);
  await tab.acquireProjectLock();
  assert.equal(calls, 1 + 2 + 4);
});

test("one function subscribed twice hears twice, and is unsubscribed one at a time", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  let calls = 0;
  const listener = () => (calls += 1);
  const [one, other] = [tab.subscribeLockEvents(listener), tab.subscribeLockEvents(listener)];
  const { lease } = await tab.acquireProjectLock();
  assert.equal(calls, 6);
  one.unsubscribe();
  one.unsubscribe();
  await tab.releaseProjectLock({ lease });
  assert.equal(calls, 8);
  other.unsubscribe();
});

test("events are frozen: no subscriber can change what the next one hears", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.subscribeLockEvents((event) => {
    event.type = "changed";
  });
  await tab.acquireProjectLock();
  assert.deepEqual(heard(tab), GRANTED);
  assert.equal(browser.errors.length, 3);
});

test("a subscriber may release the lease it was just told of", async () => {
  const browser = new Browser();
  const tab = browser.tab();
  tab.subscribeLockEvents(({ type, lease }) => (type === "lock:acquired" ? tab.releaseProjectLock({ lease }) : undefined));
  await tab.acquireProjectLock();
  await browser.clock.advance(0);
  assert.equal(tab.probe.types.at(-1), "lock:released");
  assert.deepEqual([(await browser.webLocks.query()).held, browser.clock.pending], [[], 0]);
});

test("only a function can subscribe", () => {
  assert.throws(() => new Browser().tab().subscribeLockEvents(undefined), TypeError);
});

test("services do not hear each other", async () => {
  const browser = new Browser();
  const [one, other] = [browser.tab(), browser.tab()];
  await one.acquireProjectLock();
  assert.deepEqual(other.probe.events, []);
});
