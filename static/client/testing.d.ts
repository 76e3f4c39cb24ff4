import type { CreateDocLockOptions } from "./doclock.js";
import type { ProjectLockClock, ProjectLockEvent, ProjectLocks } from "./project-lock.js";

/** A clock that moves only when it is told to. */
export declare class FakeClock implements ProjectLockClock {
  /** @param now milliseconds since 1970; default the start of 2026 */
  constructor(now?: number);
  now(): number;
  monotonic(): number;
  setTimeout(callback: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  sleep(ms: number): Promise<void>;
  /** How many timers wait. */
  readonly pending: number;
  /** Lets time pass. Timers run in order, and what they set off is done before the next one runs. */
  advance(ms: number): Promise<void>;
  /** Closes the laptop's lid: the time of day goes on, the monotonic clock and the timers do not. */
  suspend(ms: number): void;
  /** Sets the time of day. */
  setWall(now: number): void;
}

/**
 * What happens to a request: `granted` as a browser would, `unavailable` as if someone else had the lock, `unsupported`
 * and `denied` fail with NotSupportedError and SecurityError, `timeout` never answers, an error is what it fails with.
 */
export type MockLockOutcome = "granted" | "unavailable" | "unsupported" | "denied" | "timeout" | Error;

/** `navigator.locks` of one tab. */
export declare class MockNavigatorLocks {
  constructor(sameBrowser?: MockNavigatorLocks);
  /** What happens to the next requests, one each. When it is empty they are served as a browser would. */
  queue: MockLockOutcome[];
  /** Another tab of the same browser. */
  openTab(): MockNavigatorLocks;
  /** Closes this tab: its locks go to whoever waits. */
  close(): void;
  request<T>(name: string, callback: (lock: { readonly name: string; readonly mode: LockMode } | null) => T): Promise<Awaited<T>>;
  request<T>(
    name: string,
    options: LockOptions,
    callback: (lock: { readonly name: string; readonly mode: LockMode } | null) => T,
  ): Promise<Awaited<T>>;
  query(): Promise<{
    held: { name: string; mode: LockMode; clientId: string }[];
    pending: { name: string; mode: LockMode; clientId: string }[];
  }>;
}

/** What is done to files, for `fail`, `before` and `after`. */
export type OpfsStep =
  | "getDirectoryHandle"
  | "getFileHandle"
  | "getFile"
  | "text"
  | "createWritable"
  | "write"
  | "close"
  | "removeEntry";

/** An origin's private file system in memory, seen from one file in it. */
export declare class InMemoryOpfsFile {
  constructor(options?: {
    /** Default `project/.lock`. */
    path?: string;
    /** Without it there is no file at first. */
    contents?: string;
    /** Dates the files; default the real one. */
    clock?: { now(): number };
    /** `false` is a browser whose `createWritable` does not know `mode`. */
    exclusiveWriters?: boolean;
  });
  /** What `navigator.storage.getDirectory()` gives in a browser. */
  readonly root: FileSystemDirectoryHandle;
  /** The paths of all files. */
  readonly paths: string[];
  /** Every path at which a file was ever made, once each. */
  readonly everMade: string[];
  /** What is in the file; nothing when there is none. Nothing delays or fails this, `write` and `delete`. */
  read(): Promise<string | undefined>;
  write(text: string): Promise<void>;
  delete(): Promise<void>;
  /** Lets a step fail, as often as said, or until `heal`. */
  fail(step: OpfsStep, how?: { error?: unknown; times?: number }): void;
  /** Runs code before a step takes effect, which waits for it. */
  before(step: OpfsStep, hook: () => unknown): void;
  /** Runs code after a step took effect and before it answers. */
  after(step: OpfsStep, hook: () => unknown): void;
  /** Ends all failures and delays. */
  heal(): void;
}

/** Records the events of a service, in order. */
export declare class EventProbe {
  constructor(locks: Pick<ProjectLocks, "subscribeLockEvents">);
  events: ProjectLockEvent[];
  /** The names of the events: `lock:acquired` and so on. */
  readonly types: ProjectLockEvent["type"][];
  /** The second names, of those events that have one: `acquired` and so on. */
  readonly aliases: NonNullable<ProjectLockEvent["alias"]>[];
  /** The events of one name. */
  of<T extends ProjectLockEvent["type"]>(type: T): Extract<ProjectLockEvent, { type: T }>[];
  /** Returns what was recorded, and forgets it. */
  take(): ProjectLockEvent[];
  stop(): void;
}

export interface FakeTokenOptions {
  /** Default the owner's id. */
  readonly name?: string;
  /** Default `editor`. */
  readonly role?: "viewer" | "editor" | "admin";
  readonly rooms?: string[];
  readonly permissions?: string[];
  readonly kind?: "person" | "agent" | "job";
  /** Default an hour. */
  readonly expiresInMs?: number;
}

/** One tab of a browser. */
export interface FakeTab {
  /** What `createDocLock` takes, but for the token: `createDocLock({ token, ...tab.options })`. */
  readonly options: Required<
    Pick<CreateDocLockOptions, "url" | "clock" | "random" | "jitter" | "fetch" | "WebSocket" | "storage" | "navigator" | "window" | "document">
  >;
  /** Takes the network away. Connections fall silent, or with `reset` break at once. */
  cut(options?: { reset?: boolean }): void;
  restore(): void;
  /** Stops the page's code while the browser goes on answering pings. */
  freeze(): void;
  thaw(): void;
  hide(): void;
  show(): void;
  /** A key is pressed. */
  type(): void;
  /** Goes to another page, which keeps this one for `comeBack`. */
  leave(): void;
  comeBack(): void;
  close(): void;
  /** Ends it without a word. */
  kill(): void;
  /** Returns the page that takes its place. */
  reload(): FakeTab;
  duplicate(): FakeTab;
}

/** A doclock in memory, with the same messages and answers. One lock per document; `request_id` is not remembered. */
export interface FakeServer {
  readonly clock: FakeClock;
  readonly url: string;
  openTab(): FakeTab;
  token(owner: string, options?: FakeTokenOptions): string;
  /** The log: grants, endings, saves. */
  readonly events: readonly {
    readonly type: "DocumentLocked" | "DocumentUnlocked" | "DocumentSaved";
    readonly sequence: number;
    readonly at: number;
    readonly room: string;
    readonly document: string;
    readonly fencing_token: number;
    readonly owner_id?: string;
    readonly reason?: string;
    readonly by?: string | null;
    readonly document_version?: string | null;
  }[];
  /** How many sockets are open. */
  readonly connections: number;
  lockOf(
    room: string,
    document?: string,
  ): { leaseId: string; hold: number; fencingToken: number; ownerId: string; sessionId: string | null; expiresAt: number } | null;
  /** Ends a lock as an admin does. */
  forceUnlock(room: string, options?: { document?: string; by?: string }): void;
  /** Refuses all tokens that the owner has now. */
  revokeTokens(owner: string): void;
  closeSockets(code?: number, reason?: string): void;
  /** Takes the server down: with `reconnectAfterMs` after a goodbye, otherwise at once. */
  stop(options?: { reconnectAfterMs?: number }): Promise<void>;
  /** Brings it back. Locks that were live when it went have their whole ttl. */
  start(options?: { newEpoch?: boolean }): void;
}

export declare function createFakeServer(options?: { clock?: FakeClock }): FakeServer;
