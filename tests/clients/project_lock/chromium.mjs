// project-lock.js in Chromium: real Web Locks, real files, real tabs. No server of doclock's is needed.
//
// CHROMIUM is the program, CLIENT_MODULES the folder whose node_modules has playwright-core.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { foreign, run } from "../doclock.mjs";
import { fileSystemBehaviour, webLocksBehaviour } from "./platform.mjs";

const { chromium } = foreign("playwright-core");

const STATIC = new URL("../../../static/", import.meta.url);

const server = createServer(async ({ url }, answer) => {
  if (url === "/") return answer.setHeader("content-type", "text/html").end("<!doctype html><link rel=icon href=data:,>");
  try {
    const text = await readFile(new URL(`.${new URL(url, "http://here").pathname}`, STATIC));
    answer.setHeader("content-type", "text/javascript").end(text);
  } catch {
    answer.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}/`;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    ...(process.getuid() === 0 ? ["--no-sandbox"] : []),
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
  ],
});

/** Tabs of one profile, which share Web Locks and files. Each test has its own. */
async function inProfile(test) {
  const context = await browser.newContext();
  const complaints = [];
  context.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  context.on("weberror", (error) => complaints.push(String(error.error())));
  try {
    await test(async ({ withoutWebLocks = false, withoutExclusiveWriters = false } = {}) => {
      const page = await context.newPage();
      page.setDefaultTimeout(20_000);
      if (withoutExclusiveWriters) await page.addInitScript(forgetExclusiveWriters);
      // As in a browser that has none: the service finds nothing where `locks` should be.
      if (withoutWebLocks) await page.addInitScript(() => delete Navigator.prototype.locks);
      await page.goto(address);
      await page.evaluate(inPage);
      return page;
    });
    assert.deepEqual(complaints, []);
  } finally {
    await context.close();
  }
}

// Runs in the page, before anything else: `createWritable` as in browsers that do not know `mode`.
function forgetExclusiveWriters() {
  const { createWritable } = FileSystemFileHandle.prototype;
  FileSystemFileHandle.prototype.createWritable = function () {
    return createWritable.call(this);
  };
}

// Runs in the page: the bare functions, and what they told.
async function inPage() {
  const locks = await import("/client/project-lock.js");
  const outcome = (call) => call.then((value) => ({ value }), ({ code, cause }) => ({ code, cause: cause?.code }));
  window.events = [];
  locks.subscribeLockEvents(({ type }) => window.events.push(type));
  window.acquire = (options) => outcome(locks.acquireProjectLock(options).then((granted) => Object.assign(window, granted) && granted.lease));
  window.renew = () => outcome(locks.renewProjectLock({ lease: window.lease }));
  window.release = () => outcome(locks.releaseProjectLock({ lease: window.lease }));
  window.files = async (folder, path = "") => {
    const found = {};
    for await (const [name, handle] of folder ?? (await navigator.storage.getDirectory())) {
      if (handle.kind === "directory") Object.assign(found, await window.files(handle, `${path}${name}/`));
      else found[`${path}${name}`] = await (await handle.getFile()).text();
    }
    return found;
  };
}

const acquire = (page, options) => page.evaluate((options) => window.acquire(options), options);
const release = (page) => page.evaluate(() => window.release());
const renew = (page) => page.evaluate(() => window.renew());
const files = (page) => page.evaluate(() => window.files());

await run([
  async function two_pages_contend_by_web_locks() {
    await inProfile(async (open) => {
      const [one, other] = [await open(), await open()];
      const { value: lease } = await acquire(one);
      assert.equal(lease.strategy, "web-lock");
      assert.deepEqual(await one.evaluate(() => window.events), ["lock:attempt", "lock:acquired", "lock:renew-scheduled"]);
      assert.deepEqual(await acquire(other, { maxWaitMs: 300 }), { code: "acquire-timeout", cause: "acquire-denied" });
      assert.ok((await renew(one)).value.expiresAt > lease.expiresAt);
      await release(one);
      assert.equal((await acquire(other)).value.strategy, "web-lock");
      assert.deepEqual(await files(one), {});
    });
  },

  async function a_waiting_page_gets_the_lock_when_the_other_lets_go() {
    await inProfile(async (open) => {
      const [one, other] = [await open(), await open()];
      await acquire(one);
      const waiting = acquire(other, { maxWaitMs: 10_000 });
      await other.waitForFunction(() => window.events.includes("lock:waiting"));
      await release(one);
      assert.equal((await waiting).value.strategy, "web-lock");
    });
  },

  async function a_closed_tab_leaves_the_lock_to_the_other() {
    await inProfile(async (open) => {
      const [one, other] = [await open(), await open()];
      await acquire(one, { autoRenew: true });
      const waiting = acquire(other, { maxWaitMs: 10_000 });
      await other.waitForFunction(() => window.events.includes("lock:waiting"));
      await one.close();
      assert.equal((await waiting).value.strategy, "web-lock");
    });
  },

  async function without_web_locks_the_file_is_really_used() {
    await inProfile(async (open) => {
      const page = await open({ withoutWebLocks: true });
      const { value } = await acquire(page);
      assert.deepEqual([value.strategy, value.source, value.viaFallback, value.ttlMillis], ["file-lock", "opfs-lock", true, 30_000]);
      const { leaseId, ownerId, expiresAt } = value;
      assert.deepEqual(await files(page), { "project/.lock": JSON.stringify({ leaseId, ownerId, expiresAt }) });
      const { value: renewed } = await renew(page);
      assert.deepEqual(JSON.parse((await files(page))["project/.lock"]), { leaseId, ownerId, expiresAt: renewed.expiresAt });
      await release(page);
      assert.deepEqual(await files(page), {});
      assert.deepEqual(await page.evaluate(() => window.events), [
        "lock:attempt",
        "lock:warning",
        "lock:attempt",
        "lock:acquired",
        "lock:renew-scheduled",
        "lock:attempt",
        "lock:renew-scheduled",
        "lock:renewed",
        "lock:release-requested",
        "lock:released",
      ]);
    });
  },

  async function two_pages_contend_by_the_file() {
    for (const withoutExclusiveWriters of [false, true]) {
      await inProfile(async (open) => {
        const how = { withoutWebLocks: true, withoutExclusiveWriters };
        const pages = [await open(how), await open(how)];
        for (let round = 0; round < 20; round += 1) {
          const outcomes = await Promise.all(pages.map((page) => acquire(page, { retryPolicy: { maxAttempts: 2 } })));
          const winners = pages.filter((_, index) => outcomes[index].value);
          assert.ok(winners.length <= 1, "both hold it");
          for (const page of winners) await release(page);
        }
        assert.ok((await acquire(pages[0])).value);
        assert.equal((await acquire(pages[1], { maxWaitMs: 300 })).cause, "fallback-conflict");
      });
    }
  },

  async function a_page_with_web_locks_and_one_without_exclude_each_other() {
    await inProfile(async (open) => {
      const [one, other] = [await open(), await open({ withoutWebLocks: true })];
      await acquire(other);
      assert.deepEqual(await acquire(one, { maxWaitMs: 300 }), { code: "acquire-timeout", cause: "fallback-conflict" });
      await release(other);
      assert.equal((await acquire(one)).value.strategy, "web-lock");
    });
  },

  async function a_stolen_web_lock_turns_the_page_read_only() {
    await inProfile(async (open) => {
      const [one, other] = [await open(), await open()];
      await acquire(one, { autoRenew: true });
      await other.evaluate(() => navigator.locks.request("project-lock", { steal: true }, () => {}));
      await one.waitForFunction(() => window.events.includes("lock:readonly-entered"));
      assert.equal((await renew(one)).code, "lease-stale");
    });
  },

  async function the_doubles_do_what_chromium_does() {
    await inProfile(async (open) => {
      const page = await open();
      for (const [name, check] of Object.entries(webLocksBehaviour)) {
        assert.deepEqual(await page.evaluate(`(${check})(navigator.locks)`), check.expected, name);
      }
      for (const [name, check] of Object.entries(fileSystemBehaviour)) {
        assert.deepEqual(await page.evaluate(`navigator.storage.getDirectory().then(${check})`), check.expected, name);
      }
    });
  },

  async function the_doubles_work_in_a_page_too() {
    await inProfile(async (open) => {
      const page = await open();
      const types = await page.evaluate(async () => {
        const { createProjectLocks } = await import("/client/project-lock.js");
        const { EventProbe, FakeClock, InMemoryOpfsFile } = await import("/client/testing.js");
        const clock = new FakeClock();
        const locks = createProjectLocks({ navigator: {}, clock, directory: new InMemoryOpfsFile({ clock }).root });
        const probe = new EventProbe(locks);
        await locks.acquireProjectLock({ autoRenew: true });
        await clock.advance(25_000);
        return probe.types;
      });
      assert.equal(types.at(-1), "lock:renewed");
    });
  },
]);

await browser.close();
// Connections of a test that has failed may still be open.
process.exit();
