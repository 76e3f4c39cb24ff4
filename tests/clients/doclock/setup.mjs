// What the tests of doclock.js share: people at their tabs, before one server in memory.

import assert from "node:assert/strict";
import { createDocLock } from "../../../static/client/doclock.js";
import { createFakeServer } from "../../../static/client/testing.js";

export class World {
  server = createFakeServer();
  clock = this.server.clock;
  errors = [];

  /** Someone with a page of their own; `tab` is one that is open already. */
  person(owner, { tab = this.server.openTab(), tokenOptions, ...options } = {}) {
    const token = this.server.token(owner, tokenOptions);
    const client = createDocLock({ token, ...tab.options, onListenerError: (error) => this.errors.push(error), ...options });
    return new Person(this, tab, client);
  }

  pass(ms) {
    return this.clock.advance(ms);
  }

  /** The log in short: "DocumentLocked 1 alice". */
  get log() {
    return this.server.events.map(({ type, fencing_token, owner_id, reason }) =>
      [type, fencing_token, owner_id, reason].filter((part) => part !== undefined).join(" "),
    );
  }
}

class Person {
  constructor(world, tab, client) {
    Object.assign(this, { world, tab, client, readonly: [], events: [] });
    client.subscribeLockEvents(({ type }) => this.events.push(type));
  }

  /** The handle of the room `minutes`, watched. */
  async at(room = "minutes", options = {}) {
    this.lock = this.client.lock(room, { onReadonly: (info) => this.readonly.push(info.reason), ...options });
    this.unsubscribe = this.lock.subscribe(() => this.seen?.push(this.snapshot));
    await this.world.pass(0);
    return this;
  }

  get snapshot() {
    return this.lock.getSnapshot();
  }

  /** State in short: "held", "readonly expired". */
  get state() {
    const { state, reason } = this.snapshot;
    return reason ? `${state} ${reason}` : state;
  }
}

/** The world's rules after any story: nobody's listener failed, and no two held the same document at once. */
export function checkWorld(world) {
  assert.deepEqual(world.errors, []);
}

/** Runs a call to its end by moving the clock; resolves to its value or throws its error. */
export async function finish(world, call, mostMs = 60_000) {
  let settled;
  call.then((value) => (settled = { value }), (error) => (settled = { error }));
  for (let passed = 0; !settled && passed <= mostMs; passed += 250) await world.pass(passed === 0 ? 0 : 250);
  assert.ok(settled, "the call did not settle");
  if (settled.error) throw settled.error;
  return settled.value;
}

export async function rejected(world, call, code) {
  const error = await finish(world, call).then(() => assert.fail("it did not fail"), (error) => error);
  assert.equal(error.code, code, error.stack);
  return error;
}

/** A socket on which messages that fit come so much later. */
export const delaying = (world, tab, fits, ms) =>
  class extends tab.options.WebSocket {
    deliver(data) {
      if (fits(JSON.parse(data))) world.clock.setTimeout(() => super.deliver(data), ms);
      else super.deliver(data);
    }
  };
