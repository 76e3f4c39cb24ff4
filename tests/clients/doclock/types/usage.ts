// An editor in TypeScript, as a user would write it. It is checked, not run.

import {
  DocLockError,
  DocLockUnauthorized,
  createDocLock,
  type DocLockClient,
  type DocLockEvent,
  type LockReason,
  type LockSnapshot,
} from "../../../../static/client/doclock.js";
import * as declared from "../../../../static/client/testing.js";
import { createFakeServer } from "../../../../static/client/testing/fake_server.js";

// What a browser has fits without a cast.
export const client: DocLockClient = createDocLock({
  url: "https://locks.example",
  getToken: async () => {
    const answer = await fetch("/doclock-token");
    if (answer.status === 401) throw new DocLockUnauthorized();
    return answer.text();
  },
  WebSocket,
  fetch,
  navigator,
  window,
  document,
  storage: sessionStorage,
});

const lock = client.lock("minutes", {
  document: "intro",
  onHandover: async ({ by, message }) => ({ grant: confirm(`${by.name}: ${message}`), documentVersion: save }),
  onReadonly: ({ reason, by }) => show(`${explain(reason)} ${by}`),
});

export async function edit(signal: AbortSignal): Promise<number> {
  const { fencingToken } = await lock.acquire({ wait: true, signal });
  await lock.saved(await save());
  await lock.release({ documentVersion: "v2" });
  const { outcome } = await lock.ask("typo");
  if (outcome === "denied") show("no");
  return client.withLock("minutes", { ttlSeconds: 60 }, async ({ lease, signal }) => {
    signal.throwIfAborted();
    return lease.fencingToken + fencingToken;
  });
}

export function draw({ state, canEdit, holder, position, asks, deadlineMs }: LockSnapshot): string {
  return `${state} ${canEdit} ${holder?.name} ${position} ${asks.length} ${deadlineMs}`;
}

/** Every reason is known: a new one would not compile here. */
function explain(reason: LockReason): string {
  switch (reason) {
    case "expired":
    case "released":
    case "offline":
    case "idle":
      return "ask again";
    case "taken_over":
    case "revoked":
    case "handed_over":
    case "other_tab":
      return "someone else has it";
    case "forbidden":
    case "unauthorized":
      return "not allowed";
    default:
      return reason satisfies never;
  }
}

export function describe(event: DocLockEvent): string {
  return event.type === "lock:error" ? event.error.code : event.type;
}

export const isHeld = (error: unknown) => error instanceof DocLockError && error.code === "LOCK_HELD";

const unsubscribe: () => void = lock.subscribe(() => show(draw(lock.getSnapshot())));
unsubscribe();
client.room("minutes").getSnapshot().locks.map(({ document, isYou }) => `${document} ${isYou}`);

// @ts-expect-error a snapshot cannot be changed
lock.getSnapshot().canEdit = true;
// @ts-expect-error there is no such option
client.lock("minutes", { ttl: 30 });
// @ts-expect-error an answer needs a yes or no
lock.answer("id");

// The server in memory fits where the real one goes.
const server: declared.FakeServer = (createFakeServer satisfies typeof declared.createFakeServer)();
export const fake = createDocLock({ token: server.token("alice", { role: "admin" }), ...server.openTab().options });

declare function show(text: string): void;
declare function save(): Promise<string>;
