// What the tests of project-lock.js share: a browser made of doubles, and events in short.

import assert from "node:assert/strict";
import { createProjectLocks } from "../../../static/client/project-lock.js";
import { EventProbe, FakeClock, InMemoryOpfsFile, MockNavigatorLocks } from "../../../static/client/testing.js";

/** One browser: its tabs share Web Locks, files and the time. */
export class Browser {
  clock = new FakeClock();
  telemetry = [];
  errors = [];
  #ids = 0;

  constructor(fileOptions = {}) {
    this.file = new InMemoryOpfsFile({ clock: this.clock, ...fileOptions });
    this.webLocks = new MockNavigatorLocks();
  }

  /** A tab with Web Locks. */
  tab(options = {}) {
    return this.#tab({ locks: this.webLocks.openTab() }, options);
  }

  /** A tab that has none, and so uses the file. */
  tabWithoutWebLocks(options = {}) {
    return this.#tab({}, options);
  }

  #tab(navigator, options) {
    const locks = createProjectLocks({
      navigator,
      clock: this.clock,
      directory: this.file.root,
      random: () => `00000000-0000-4000-8000-${String((this.#ids += 1)).padStart(12, "0")}`,
      onTelemetry: (record) => this.telemetry.push(record),
      onListenerError: (error) => this.errors.push(error),
      ...options,
    });
    return { ...locks, navigator, probe: new EventProbe(locks) };
  }

  /** What is in `project/.lock`. */
  async record() {
    const text = await this.file.read();
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Lets someone else hold the file for so long. */
  async occupy(ms = 30_000) {
    const record = { leaseId: "theirs", ownerId: "someone-else", expiresAt: this.clock.now() + ms };
    await this.file.write(JSON.stringify(record));
    return record;
  }

  /** The outcome of a call, with the clock moved on until it has one. */
  async outcome(call, stepMs = 500, most = 200) {
    let settled;
    call.then((value) => (settled = { value }), (error) => (settled = { error }));
    for (let steps = 0; steps < most; steps += 1) {
      await this.clock.advance(0);
      if (settled) return settled;
      await this.clock.advance(stepMs);
    }
    throw new Error("not settled");
  }

  async rejected(call, code) {
    const { error } = await this.outcome(call);
    assert.equal(error?.code, code, error?.stack ?? "it did not fail");
    return error;
  }
}

/**
 * Events in one line each, with both names and all they say, leases and errors left to tests of their own:
 * "lock:waiting = backoff {retry: 1, delayMs: 500}".
 */
export function inShort(events) {
  return events.map(({ type, alias, lease, error, lastError, ...rest }) => {
    if (error) rest.error = error.code;
    if (lastError) rest.lastError = lastError.code;
    if (lease) assert.equal(Object.isFrozen(lease), true);
    const said = Object.entries(rest).map(([name, value]) => `${name}: ${value}`);
    return [type, alias && `= ${alias}`, said.length > 0 && `{${said.join(", ")}}`].filter(Boolean).join(" ");
  });
}

/** The events since the last call, in short. */
export const heard = ({ probe }) => inShort(probe.take());

export const GRANTED = [
  "lock:attempt {strategy: web-lock, retry: 0}",
  "lock:acquired = acquired",
  "lock:renew-scheduled {nextHeartbeatInMs: 20000}",
];

export const GRANTED_BY_FILE = [
  "lock:attempt {strategy: web-lock, retry: 0}",
  "lock:warning = switch-to-fallback {warning: fallback-engaged, error: web-lock-unsupported}",
  "lock:attempt {strategy: file-lock, retry: 0}",
  "lock:acquired = acquired",
  "lock:renew-scheduled {nextHeartbeatInMs: 25000}",
];

export const READONLY = "autosave.lock.readonly";
