import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { ProjectLockError } from "../../../static/client/project-lock.js";

const run = promisify(execFile);
const MODULE = new URL("../../../static/client/project-lock.js", import.meta.url).href;
const DOUBLES = new URL("../../../static/client/testing.js", import.meta.url).href;

/** Runs a script in a Node of its own; it must end by itself. */
const inNode = (script) => run(process.execPath, ["--input-type=module", "-e", script], { timeout: 20_000 });

test("importing the modules and making a service touches nothing global", async () => {
  // Every name a browser's page would lend is a trap: reading it is what fails.
  const { stdout } = await inNode(`
    const touched = [];
    const trap = (name) => Object.defineProperty(globalThis, name, {
      configurable: true,
      get() { touched.push(name); return undefined; },
    });
    const before = new Set(Object.getOwnPropertyNames(globalThis));
    for (const name of ["navigator", "document", "window", "localStorage", "sessionStorage", "crypto", "performance",
      "setTimeout", "setInterval", "queueMicrotask", "fetch", "BroadcastChannel", "addEventListener", "console"]) {
      before.add(name);
      trap(name);
    }
    const { createProjectLocks } = await import(${JSON.stringify(MODULE)});
    await import(${JSON.stringify(DOUBLES)});
    const locks = createProjectLocks();
    locks.subscribeLockEvents(() => {}).unsubscribe();
    const added = Object.getOwnPropertyNames(globalThis).filter((name) => !before.has(name));
    process.stdout.write(JSON.stringify({ touched, added }));
  `);
  const { touched, added } = JSON.parse(stdout);
  assert.deepEqual([touched, added], [[], []]);
});

test("an open lease with its heartbeat does not keep Node alive", async () => {
  const { stdout } = await inNode(`
    import { createProjectLocks } from ${JSON.stringify(MODULE)};
    import { MockNavigatorLocks } from ${JSON.stringify(DOUBLES)};
    const { acquireProjectLock } = createProjectLocks({ navigator: { locks: new MockNavigatorLocks() } });
    const { lease } = await acquireProjectLock({ autoRenew: true });
    console.log(lease.strategy);
  `);
  assert.equal(stdout.trim(), "web-lock");
});

test("the bare functions share one service, made at the first call", async () => {
  const { stdout } = await inNode(`
    import { InMemoryOpfsFile, MockNavigatorLocks } from ${JSON.stringify(DOUBLES)};
    import * as bare from ${JSON.stringify(MODULE)};
    // Only now is there a navigator: nobody may have looked for it before.
    const file = new InMemoryOpfsFile();
    const navigator = { locks: new MockNavigatorLocks(), storage: { getDirectory: async () => file.root } };
    Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
    const types = [];
    const subscription = bare.subscribeLockEvents(({ type }) => types.push(type));
    const { lease } = await bare.acquireProjectLock();
    const renewed = await bare.renewProjectLock({ lease });
    await bare.releaseProjectLock({ lease: renewed });
    await bare.withProjectLock({}, () => {});
    subscription.unsubscribe();
    console.log(types.join(" "));
  `);
  const once = "lock:attempt lock:acquired lock:renew-scheduled";
  const renewed = "lock:attempt lock:renew-scheduled lock:renewed";
  const released = "lock:release-requested lock:released";
  assert.equal(stdout.trim(), `${once} ${renewed} ${released} ${once} ${released}`);
});

test("in Node, where there is neither, acquiring says so and Node ends", async () => {
  const { stdout } = await inNode(`
    import { acquireProjectLock } from ${JSON.stringify(MODULE)};
    Object.defineProperty(globalThis, "navigator", { value: undefined, configurable: true });
    await acquireProjectLock().catch(({ code }) => console.log(code));
  `);
  assert.equal(stdout.trim(), "fallback-open-failed");
});

test("ProjectLockError can be made by users, and knows which codes are worth another try", () => {
  const cause = new Error("why");
  const error = new ProjectLockError("no", { code: "renew-failed", operation: "renew", retryable: false, cause });
  assert.ok(error instanceof Error);
  assert.deepEqual(
    [error.name, error.message, error.code, error.operation, error.retryable, error.cause],
    ["ProjectLockError", "no", "renew-failed", "renew", false, cause],
  );
  const retryable = {
    "web-lock-unsupported": true,
    "web-lock-aborted": false,
    "acquire-denied": true,
    "acquire-timeout": false,
    "fallback-conflict": true,
    "fallback-open-failed": false,
    "fallback-read-failed": true,
    "fallback-write-failed": true,
    "lease-mismatch": false,
    "lease-expired": false,
    "lease-stale": false,
    "renew-failed": true,
    "release-failed": true,
  };
  for (const [code, expected] of Object.entries(retryable)) {
    assert.equal(new ProjectLockError("", { code }).retryable, expected, code);
  }
});
