import assert from "node:assert/strict";
import { test } from "node:test";
import { Browser, GRANTED_BY_FILE, heard } from "./setup.mjs";

const FAR = Date.UTC(9999, 0);
const record = (changes) => JSON.stringify({ leaseId: "theirs", ownerId: "someone-else", expiresAt: 0, ...changes });

const NO_LOCK_FILES = {
  "not JSON": "{leaseId: theirs",
  "half a record": record({ expiresAt: FAR }).slice(0, 40),
  "null": "null",
  "a number": "42",
  "a list": "[]",
  "no leaseId": record({ leaseId: undefined, expiresAt: FAR }),
  "leaseId of a wrong type": record({ leaseId: 42, expiresAt: FAR }),
  "ownerId of a wrong type": record({ ownerId: { toString: "x" }, expiresAt: FAR }),
  "expiresAt as text": record({ expiresAt: "9999-01-01" }),
  "expiresAt NaN": '{"leaseId":"theirs","ownerId":"someone-else","expiresAt":NaN}',
  "expiresAt null, which is what JSON makes of NaN": record({ expiresAt: NaN }),
  "expiresAt infinite": '{"leaseId":"theirs","ownerId":"someone-else","expiresAt":1e999}',
  "expiresAt in the far future": record({ expiresAt: FAR }),
  "huge": record({ leaseId: "x".repeat(10_000_000), expiresAt: FAR }),
  "deeply nested": `${"[".repeat(2_000)}${"]".repeat(2_000)}`,
  "prototype games": '{"__proto__":{"leaseId":"theirs","ownerId":"x","expiresAt":9e15}}',
  "control characters": "\u0000\u001b[31m\ufeff",
};

for (const [name, contents] of Object.entries(NO_LOCK_FILES)) {
  test(`a file that is no lock file is replaced, and told as degraded: ${name}`, async () => {
    const browser = new Browser({ contents });
    const tab = browser.tabWithoutWebLocks();
    const { lease } = await tab.acquireProjectLock();
    assert.deepEqual(Object.keys(await browser.record()), ["leaseId", "ownerId", "expiresAt"]);
    assert.equal((await browser.record()).leaseId, lease.leaseId);
    const lines = [...GRANTED_BY_FILE];
    lines.splice(3, 0, "lock:warning {warning: fallback-degraded, error: fallback-read-failed}");
    assert.deepEqual(heard(tab), lines);
  });
}

test("a huge file is not even read", async () => {
  const browser = new Browser({ contents: "x".repeat(5_000) });
  browser.file.before("text", () => assert.fail("it was read"));
  await browser.tabWithoutWebLocks().acquireProjectLock();
});

test("an empty file, as a crash leaves it, is free", async () => {
  const browser = new Browser({ contents: "" });
  const tab = browser.tabWithoutWebLocks();
  await tab.acquireProjectLock();
  assert.deepEqual(heard(tab), GRANTED_BY_FILE);
});

test("an overdue file is free, from the millisecond at which it ends", async () => {
  const browser = new Browser();
  await browser.occupy(10_000);
  await browser.clock.advance(9_999);
  const early = browser.tabWithoutWebLocks();
  await browser.rejected(early.acquireProjectLock({ retryPolicy: { maxAttempts: 1 } }), "acquire-timeout");
  await browser.clock.advance(1);
  await browser.tabWithoutWebLocks().acquireProjectLock();
});

test("a good record is respected after the clock was set back", async () => {
  const browser = new Browser();
  await browser.tabWithoutWebLocks().acquireProjectLock({ autoRenew: true });
  browser.clock.setWall(browser.clock.now() - 3_600_000);
  for (let round = 0; round < 4; round += 1) {
    const error = await browser.rejected(browser.tabWithoutWebLocks().acquireProjectLock(), "acquire-timeout");
    assert.equal(error.cause.code, "fallback-conflict");
    await browser.clock.advance(20_000);
  }
});

test("the file of a tab that crashed is free after 30 s", async () => {
  const browser = new Browser();
  await browser.tabWithoutWebLocks().acquireProjectLock();
  const tab = browser.tabWithoutWebLocks();
  await browser.rejected(tab.acquireProjectLock(), "acquire-timeout");
  await browser.clock.advance(30_000);
  await tab.acquireProjectLock();
});

test("a file that cannot be read once is tried again; twice in a row, it is made anew", async () => {
  const browser = new Browser();
  await browser.occupy();
  browser.file.fail("text", { times: 1 });
  const one = browser.tabWithoutWebLocks();
  const error = await browser.rejected(one.acquireProjectLock(), "acquire-timeout");
  assert.equal(error.cause.code, "fallback-conflict");
  assert.deepEqual(one.probe.of("lock:error").map(({ error }) => error.code), [
    "fallback-read-failed",
    "fallback-conflict",
    "fallback-conflict",
  ]);
  browser.file.fail("text");
  const other = browser.tabWithoutWebLocks();
  const { value } = await browser.outcome(other.acquireProjectLock());
  assert.equal((await browser.record()).leaseId, value.lease.leaseId);
  assert.deepEqual(other.probe.of("lock:waiting").map(({ delayMs }) => delayMs), [500, 1000]);
});

test("a write that fails leaves the file as it was, and no writer open", async () => {
  const browser = new Browser();
  await browser.occupy(100);
  await browser.clock.advance(100);
  browser.file.fail("close", { times: 1 });
  const tab = browser.tabWithoutWebLocks();
  const acquiring = tab.acquireProjectLock();
  await browser.clock.advance(0);
  assert.equal((await browser.record()).leaseId, "theirs");
  await browser.clock.advance(500);
  await acquiring;
});

test("the file is made in project/ only, whatever happens", async () => {
  const browser = new Browser();
  const { root } = browser.file;
  for (const folder of ["collector", "analyzer", "workflow-cookbook"]) await root.getDirectoryHandle(folder, { create: true });
  const tab = browser.tabWithoutWebLocks();
  for (const step of ["getDirectoryHandle", "getFileHandle", "getFile", "text", "createWritable", "write", "close", "removeEntry"]) {
    browser.file.fail(step, { times: 1 });
    const { value } = await browser.outcome(tab.acquireProjectLock());
    if (value) {
      await browser.outcome(tab.renewProjectLock(value));
      await browser.outcome(tab.releaseProjectLock(value));
    }
    await browser.clock.advance(60_000);
  }
  assert.deepEqual(browser.file.everMade, ["project/.lock"]);
});

test("a folder where the file should be ends it with fallback-open-failed or fallback-read-failed, harming nothing", async () => {
  const browser = new Browser();
  const project = await browser.file.root.getDirectoryHandle("project", { create: true });
  await project.getDirectoryHandle(".lock", { create: true });
  const { error } = await browser.outcome(browser.tabWithoutWebLocks().acquireProjectLock());
  assert.equal(error.name, "ProjectLockError");
  await project.getDirectoryHandle(".lock");
});

test("a file that is about to run out is left alone by a release: its next holder's could be hit", async () => {
  const browser = new Browser();
  const tab = browser.tabWithoutWebLocks();
  const { lease } = await tab.acquireProjectLock();
  await browser.clock.advance(29_500);
  await tab.releaseProjectLock({ lease });
  assert.equal(tab.probe.types.at(-1), "lock:released");
  assert.deepEqual(browser.file.paths, ["project/.lock"]);
  await browser.clock.advance(500);
  await browser.tabWithoutWebLocks().acquireProjectLock();
});

test("Web Locks do not read a file that is no lock file as someone's", async () => {
  const browser = new Browser({ contents: NO_LOCK_FILES.huge });
  assert.equal((await browser.tab().acquireProjectLock()).didFallback, false);
});
