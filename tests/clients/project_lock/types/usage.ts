// An editor in TypeScript, as a user would write it. It is checked, not run.

import {
  ProjectLockError,
  acquireProjectLock,
  createProjectLocks,
  releaseProjectLock,
  renewProjectLock,
  subscribeLockEvents,
  withProjectLock,
  type ProjectLockErrorCode,
  type ProjectLockEvent,
  type ProjectLockLease,
} from "../../../../static/client/project-lock.js";

export async function save(text: string, signal: AbortSignal): Promise<number> {
  return withProjectLock({ signal, onReadonly: ({ reason }) => show(reason) }, async (lease, { signal }) => {
    signal.throwIfAborted();
    return write(text, lease.leaseId);
  });
}

export async function byHand(): Promise<ProjectLockLease> {
  const { lease, didFallback } = await acquireProjectLock({ autoRenew: true, maxWaitMs: 10_000 });
  if (didFallback) show(`slower: ${lease.source}`);
  const renewed = await renewProjectLock({ lease, extendByMs: 60_000 });
  await releaseProjectLock({ lease: renewed, reason: "completed" });
  return renewed;
}

export function explain(error: unknown): string {
  if (!(error instanceof ProjectLockError)) return "unknown";
  const code: ProjectLockErrorCode = error.code;
  return error.retryable ? `${code}: try again` : code;
}

/** Every event is known: a new one would not compile here. */
export function describe(event: ProjectLockEvent): string {
  switch (event.type) {
    case "lock:attempt":
      return `${event.strategy} ${event.retry}`;
    case "lock:waiting":
      return `${event.delayMs} ms`;
    case "lock:acquired":
    case "lock:renewed":
    case "lock:released":
    case "lock:expired":
      return event.lease.leaseId;
    case "lock:renew-scheduled":
      return `${event.nextHeartbeatInMs} ms`;
    case "lock:warning":
      return event.warning === "heartbeat-delayed" ? event.lease.leaseId : event.error.code;
    case "lock:release-requested":
      return event.reason;
    case "lock:error":
      return `${event.operation} ${event.error.code}`;
    case "lock:readonly-entered":
      return `${event.reason} ${event.lastError.code}`;
    default:
      return event satisfies never;
  }
}

// What a browser has fits without a cast.
const own = createProjectLocks({
  navigator,
  directory: () => navigator.storage.getDirectory(),
  onTelemetry: ({ name, reason, at }) => show(`${name} ${reason} ${at}`),
});
const { unsubscribe } = own.subscribeLockEvents((event) => show(describe(event)));
unsubscribe();
subscribeLockEvents(({ alias }) => alias === "switch-to-fallback");

// @ts-expect-error a lease is needed
releaseProjectLock({});
// @ts-expect-error there is no such reason
byHand().then((lease) => releaseProjectLock({ lease, reason: "bored" }));
// @ts-expect-error a lease cannot be changed
byHand().then((lease) => (lease.expiresAt = 0));
// @ts-expect-error there is no such code
new ProjectLockError("no", { code: "no-such-code" });

declare function show(text: string): void;
declare function write(text: string, leaseId: string): Promise<number>;
