/** What a lease rests on: a Web Lock, or the file `project/.lock`. */
export type ProjectLockSource = "web-lock" | "opfs-lock";
export type ProjectLockStrategy = "web-lock" | "file-lock";
export type ProjectLockOperation = "acquire" | "renew" | "release";
export type ProjectLockReadonlyReason = "acquire-timeout" | "renew-failed" | "lease-stale" | "release-failed";
export type ProjectLockReleaseReason = "completed" | "aborted" | "expired";

export type ProjectLockErrorCode =
  | "web-lock-unsupported"
  | "web-lock-aborted"
  | "acquire-denied"
  | "acquire-timeout"
  | "fallback-conflict"
  | "fallback-open-failed"
  | "fallback-read-failed"
  | "fallback-write-failed"
  | "lease-mismatch"
  | "lease-expired"
  | "lease-stale"
  | "renew-failed"
  | "release-failed";

/** A right to write the project until `expiresAt`. Plain data: it survives JSON. */
export interface ProjectLockLease {
  readonly leaseId: string;
  /** The service that holds it, which is one tab unless a page makes several. */
  readonly ownerId: string;
  readonly acquiredAt: number;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  /** What a renewal adds unless it says otherwise: 25 s by a Web Lock, 30 s by the file. */
  readonly ttlMillis: number;
  readonly source: ProjectLockSource;
  readonly strategy: ProjectLockStrategy;
  readonly viaFallback: boolean;
}

export interface LockRetryPolicy {
  /** Default 200. */
  readonly initialDelayMs?: number;
  /** Default 5000. */
  readonly maxDelayMs?: number;
  /** Default 2. */
  readonly multiplier?: number;
  /** Default: as many as fit into `maxWaitMs`. */
  readonly maxAttempts?: number;
}

export interface ProjectLockAcquireOptions {
  /** Ends the waiting with `web-lock-aborted`. */
  readonly signal?: AbortSignal;
  /** No new try starts after this; default 5000. */
  readonly maxWaitMs?: number;
  /** Without it and without `maxWaitMs`: three tries, 500 ms and 1000 ms apart. */
  readonly retryPolicy?: LockRetryPolicy;
  /** Renews by itself, 5 s before the lease ends. */
  readonly autoRenew?: boolean;
  /** Renews by itself earlier than that. */
  readonly renewIntervalMs?: number;
}

export interface WithProjectLockOptions extends Omit<ProjectLockAcquireOptions, "autoRenew"> {
  /** Called once, when the lock could not be had, kept or given back. */
  readonly onReadonly?: (event: ProjectLockReadonlyEvent) => unknown;
}

/** `signal` is aborted when the lease is lost or the caller aborts: the work must end then. */
export type ProjectLockWork<T> = (lease: ProjectLockLease, context: { readonly signal: AbortSignal }) => T | PromiseLike<T>;

export interface ProjectLockRenewOptions {
  readonly lease: ProjectLockLease;
  /** How long the lease is good for from now, at most 300000; default its `ttlMillis`. It never gets shorter. */
  readonly extendByMs?: number;
}

export interface ProjectLockReleaseOptions {
  readonly lease: ProjectLockLease;
  /** Said in the event; default `completed`. */
  readonly reason?: ProjectLockReleaseReason;
  /** One try, no error: a file that cannot be removed is left to run out. */
  readonly force?: boolean;
}

export declare class ProjectLockError extends Error {
  constructor(
    message: string,
    params: { code: ProjectLockErrorCode; operation?: ProjectLockOperation; retryable?: boolean; cause?: unknown },
  );
  readonly code: ProjectLockErrorCode;
  readonly operation: ProjectLockOperation | undefined;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  readonly cause?: unknown;
}

export interface ProjectLockReadonlyEvent {
  readonly type: "lock:readonly-entered";
  readonly alias?: undefined;
  readonly reason: ProjectLockReadonlyReason;
  readonly lastError: ProjectLockError;
}

/** `alias` is the second name that some events have. */
export type ProjectLockEvent =
  | { readonly type: "lock:attempt"; readonly alias?: undefined; readonly strategy: ProjectLockStrategy; readonly retry: number }
  | { readonly type: "lock:waiting"; readonly alias?: "backoff"; readonly retry: number; readonly delayMs: number }
  | { readonly type: "lock:acquired"; readonly alias?: "acquired"; readonly lease: ProjectLockLease }
  | {
      readonly type: "lock:renew-scheduled";
      readonly alias?: undefined;
      readonly lease: ProjectLockLease;
      readonly nextHeartbeatInMs: number;
    }
  | { readonly type: "lock:renewed"; readonly alias?: "renewed"; readonly lease: ProjectLockLease }
  | {
      readonly type: "lock:warning";
      readonly alias?: "switch-to-fallback";
      readonly warning: "fallback-engaged" | "fallback-degraded";
      readonly error: ProjectLockError;
    }
  | {
      readonly type: "lock:warning";
      readonly alias?: undefined;
      readonly warning: "heartbeat-delayed";
      readonly lease: ProjectLockLease;
    }
  | {
      readonly type: "lock:release-requested";
      readonly alias?: undefined;
      readonly lease: ProjectLockLease;
      readonly reason: ProjectLockReleaseReason;
    }
  | { readonly type: "lock:released"; readonly alias?: "released"; readonly lease: ProjectLockLease }
  | { readonly type: "lock:expired"; readonly alias?: "expired"; readonly lease: ProjectLockLease }
  | {
      readonly type: "lock:error";
      readonly alias?: "acquire-failed" | "release-failed";
      readonly operation: ProjectLockOperation;
      readonly error: ProjectLockError;
      readonly retryable: boolean;
    }
  | ProjectLockReadonlyEvent;

export type ProjectLockEventListener = (event: ProjectLockEvent) => unknown;

export interface ProjectLockSubscription {
  /** May be called more than once. */
  unsubscribe(): void;
}

export interface ProjectLockTelemetry {
  readonly name: "autosave.lock.readonly";
  readonly reason: ProjectLockReadonlyReason;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** The time, and timers. `monotonic` never goes back, and may stand still while the computer sleeps. */
export interface ProjectLockClock {
  now(): number;
  monotonic(): number;
  setTimeout(callback: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** The part of `navigator.locks` that is used. */
export interface ProjectLockManager {
  request(
    name: string,
    options: { mode: "exclusive"; ifAvailable: true },
    callback: (lock: { readonly name: string } | null) => unknown,
  ): Promise<unknown>;
  query(): Promise<{ readonly held?: readonly { readonly name?: string }[] }>;
}

export interface CreateProjectLocksOptions {
  /** Default: the page's own, looked up at the first call. */
  readonly navigator?: { readonly locks?: ProjectLockManager; readonly storage?: Pick<StorageManager, "getDirectory"> };
  readonly clock?: ProjectLockClock;
  /** Makes ids; default `crypto.randomUUID`. */
  readonly random?: () => string;
  /** The folder that `project/` is in, or a function that finds it; default the origin's private file system. */
  readonly directory?:
    | FileSystemDirectoryHandle
    | (() => FileSystemDirectoryHandle | PromiseLike<FileSystemDirectoryHandle>);
  /** Name of the Web Lock. Give each `directory` its own; default `project-lock`. */
  readonly lockName?: string;
  readonly onTelemetry?: (record: ProjectLockTelemetry) => unknown;
  /** Gets what a listener, `onReadonly` or `onTelemetry` throws; default `console.error`. */
  readonly onListenerError?: (error: unknown) => void;
}

export interface ProjectLocks {
  acquireProjectLock(options?: ProjectLockAcquireOptions): Promise<{ lease: ProjectLockLease; didFallback: boolean }>;
  renewProjectLock(options: ProjectLockRenewOptions): Promise<ProjectLockLease>;
  releaseProjectLock(options: ProjectLockReleaseOptions): Promise<void>;
  withProjectLock<T>(options: WithProjectLockOptions | undefined, work: ProjectLockWork<T>): Promise<T>;
  subscribeLockEvents(listener: ProjectLockEventListener): ProjectLockSubscription;
}

export declare function createProjectLocks(options?: CreateProjectLocksOptions): ProjectLocks;

export declare const acquireProjectLock: ProjectLocks["acquireProjectLock"];
export declare const renewProjectLock: ProjectLocks["renewProjectLock"];
export declare const releaseProjectLock: ProjectLocks["releaseProjectLock"];
export declare const withProjectLock: ProjectLocks["withProjectLock"];
export declare const subscribeLockEvents: ProjectLocks["subscribeLockEvents"];
