import type { ProjectLockClock, ProjectLockManager } from "./project-lock.js";

/** The connection to the server. `disconnected` means that nothing more is tried: see `error`. */
export type ConnectionState = "initial" | "connecting" | "connected" | "reconnecting" | "disconnected";

/** A lock, seen from this page. Only `held` and `renewing` may edit. */
export type LockState = "idle" | "acquiring" | "waiting" | "held" | "renewing" | "releasing" | "readonly";

/**
 * Why this page may not edit, or why its lock ended. `offline`: the deadline came without word from the server, which is
 * asked again as soon as it answers. `other_tab`: another tab with the same session has the lock. `idle`: given up after
 * `idleReleaseMs`. `forbidden`: the token does not allow to lock here. The others are the server's.
 */
export type LockReason =
  | "expired"
  | "taken_over"
  | "revoked"
  | "handed_over"
  | "released"
  | "offline"
  | "other_tab"
  | "idle"
  | "forbidden"
  | "unauthorized";

export type Activity = "active" | "idle" | "away";
export type HandoverOutcome = "granted" | "denied" | "unanswered" | "cancelled" | "moot";
export type DocLockOperation = "acquire" | "renew" | "release" | "ask" | "answer" | "cancel" | "watch" | "connect" | "look";

export interface Person {
  readonly ownerId: string;
  readonly name: string | null;
}

export interface Participant extends Person {
  readonly isYou: boolean;
}

export interface Holder extends Person {
  /** Known for your own locks, and to admins. */
  readonly sessionId: string | null;
  readonly kind: "person" | "agent" | "job";
}

/** Times are milliseconds since 1970, by the server's clock. */
export interface DocLockLease {
  readonly leaseId: string;
  readonly hold: number;
  readonly room: string;
  readonly document: string;
  readonly fencingToken: number;
  readonly ownerId: string;
  readonly sessionId: string;
  readonly acquiredAt: number;
  readonly expiresAt: number;
  readonly ttlMillis: number;
  readonly metadata: unknown;
  readonly source: "server" | "web-lock" | "opfs-lock";
  readonly strategy: "server" | "web-lock" | "file-lock";
  readonly viaFallback: boolean;
}

/** Someone asks the holder, which is you. */
export interface HandoverAsk {
  readonly handoverId: string;
  readonly by: Person;
  readonly message: string | null;
}

/** What you asked of the holder. */
export interface OwnAsk {
  readonly handoverId: string;
  readonly message: string | null;
  /** When it counts as unanswered, by this page's clock. */
  readonly deadlineMs: number;
}

export interface LockSnapshot {
  readonly state: LockState;
  readonly canEdit: boolean;
  readonly reason: LockReason | null;
  /** Who ended the lock, where someone did. */
  readonly by: string | null;
  readonly lease: DocLockLease | null;
  /** Goes with every save; null unless this page holds the lock. */
  readonly fencingToken: number | null;
  readonly holder: Holder | null;
  /** The token of the lock that `holder` has, for `takeOver`. */
  readonly holderToken: number | null;
  /** Whether the holder is you, here or in another tab. */
  readonly isYou: boolean;
  readonly activity: Activity | null;
  /** When the holder was last active, in milliseconds since 1970 by the server's clock. */
  readonly activeAt: number | null;
  /** Place in line, 1 is next. */
  readonly position: number | null;
  readonly asks: readonly HandoverAsk[];
  readonly asked: OwnAsk | null;
  /** When this page turns read-only unless the server is heard from, in milliseconds since 1970 by this page's clock. */
  readonly deadlineMs: number | null;
  readonly documentVersion: string | null;
  /** Whether the lock is this browser's own because the server is away (`offline: "local"`). */
  readonly isLocal: boolean;
  readonly connection: ConnectionState;
  /** Whether there has been no connection for 5 s. */
  readonly connectionLost: boolean;
}

export interface RoomLock {
  readonly document: string;
  readonly fencingToken: number;
  readonly holder: Holder;
  readonly isYou: boolean;
  readonly acquiredAt: number;
  readonly expiresAt: number;
  readonly activity: Activity;
  readonly activeAt: number | null;
  readonly metadata: unknown;
  readonly documentVersion: string | null;
}

export interface RoomSnapshot {
  readonly locks: readonly RoomLock[];
  readonly participants: readonly Participant[];
  readonly connection: ConnectionState;
  readonly connectionLost: boolean;
  /** Whether the room has been told by the server at least once. */
  readonly isLive: boolean;
  /** Why the server refuses to tell of the room. */
  readonly error: DocLockError | null;
}

export interface ConnectionSnapshot {
  readonly state: ConnectionState;
  /** True after 5 s without a connection, false again with `restored`. */
  readonly lost: boolean;
  /** Who the server says you are; null before it has. */
  readonly ownerId: string | null;
  readonly name: string | null;
  readonly role: "viewer" | "editor" | "admin" | null;
  readonly error: DocLockError | null;
}

/** Something to watch. Snapshots are frozen, and the same object until something changes. */
export interface Watchable<T> {
  /** Calls `listener` after each change. Returns what ends it. */
  subscribe(listener: () => unknown): () => void;
  getSnapshot(): T;
}

/** A version, or a function that saves and says which version that made. Typing is refused while it runs. */
export type VersionOrSave = string | (() => string | undefined | void | PromiseLike<string | undefined | void>);

export interface HandoverAnswer {
  readonly grant: boolean;
  readonly documentVersion?: VersionOrSave;
  readonly message?: string;
}

export interface ReadonlyInfo {
  readonly reason: LockReason;
  readonly by: string | null;
  readonly error: DocLockError | null;
}

export interface LockOptions {
  /** Default `main`, the room's own. */
  readonly document?: string;
  /** How long the lock outlives the last sign of this page; default the server's, 30. */
  readonly ttlSeconds?: number;
  /** Default 10000; at most a third of the ttl is used. */
  readonly heartbeatMs?: number;
  /** Gives the lock up after so long without input; 0, the default, is never. */
  readonly idleReleaseMs?: number;
  /** Up to 2 KiB, shown to others. */
  readonly metadata?: Record<string, unknown>;
  /** Someone asks for the lock. What it returns is the answer; nothing leaves it to `answer`. */
  readonly onHandover?: (ask: HandoverAsk) => HandoverAnswer | undefined | void | PromiseLike<HandoverAnswer | undefined | void>;
  /** Called once each time this page has to stop editing. */
  readonly onReadonly?: (info: ReadonlyInfo) => unknown;
}

export interface AcquireOptions {
  /** Stand in line while someone has it. */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

export interface LockHandle extends Watchable<LockSnapshot> {
  readonly room: string;
  readonly document: string;
  /** Resolves when this page may edit; rejects with `LOCK_HELD` if someone else has it and `wait` is not set. */
  acquire(options?: AcquireOptions): Promise<DocLockLease>;
  release(options?: { documentVersion?: VersionOrSave }): Promise<void>;
  /** Tells the room of a saved version. */
  saved(documentVersion: string): Promise<void>;
  /** Asks the holder to hand over. Resolves when it is answered; if granted, once this page holds the lock. */
  ask(message?: string): Promise<{ outcome: HandoverOutcome; message: string | null }>;
  cancelAsk(): Promise<void>;
  answer(handoverId: string, grant: boolean, options?: { documentVersion?: VersionOrSave; message?: string }): Promise<void>;
  /** Takes the lock from its holder, unless that is not the one with `expectedToken` (default: the one in the snapshot). */
  takeOver(options?: { expectedToken?: number }): Promise<DocLockLease>;
  cancelWait(): Promise<void>;
}

export type RoomHandle = Watchable<RoomSnapshot>;

export interface WithLockOptions extends LockOptions, AcquireOptions {}

export type DocLockEvent =
  | { readonly type: "lock:attempt"; readonly alias?: undefined; readonly strategy: "server"; readonly retry: number }
  | { readonly type: "lock:waiting"; readonly alias?: "backoff"; readonly retry: number; readonly delayMs: number }
  | { readonly type: "lock:acquired"; readonly alias?: "acquired"; readonly lease: DocLockLease }
  | {
      readonly type: "lock:renew-scheduled";
      readonly alias?: undefined;
      readonly lease: DocLockLease;
      readonly nextHeartbeatInMs: number;
    }
  | { readonly type: "lock:renewed"; readonly alias?: "renewed"; readonly lease: DocLockLease }
  | {
      readonly type: "lock:warning";
      readonly alias?: "switch-to-fallback";
      readonly warning: "fallback-engaged" | "heartbeat-delayed";
      readonly lease?: DocLockLease;
      readonly error: DocLockError;
    }
  | { readonly type: "lock:release-requested"; readonly alias?: undefined; readonly lease: DocLockLease; readonly reason: string }
  | { readonly type: "lock:released"; readonly alias?: "released"; readonly lease: DocLockLease }
  | { readonly type: "lock:expired"; readonly alias?: "expired"; readonly lease: DocLockLease }
  | {
      readonly type: "lock:error";
      readonly alias?: "acquire-failed" | "release-failed";
      readonly operation: DocLockOperation;
      readonly error: DocLockError;
      readonly retryable: boolean;
    }
  | {
      readonly type: "lock:readonly-entered";
      readonly alias?: undefined;
      readonly reason: "acquire-timeout" | "renew-failed" | "lease-stale" | "release-failed";
      readonly lastError: DocLockError | null;
    };

export interface DocLockClient {
  /** The handle of a document: one per document, however often it is asked for. New options replace those given before. */
  lock(room: string, options?: LockOptions): LockHandle;
  room(room: string): RoomHandle;
  readonly connection: Watchable<ConnectionSnapshot>;
  /** Runs `work` under the lock. `signal` aborts when the lock is lost: the work must end then. */
  withLock<T>(
    room: string,
    options: WithLockOptions | undefined,
    work: (held: { lease: DocLockLease; fencingToken: number; signal: AbortSignal }) => T | PromiseLike<T>,
  ): Promise<T>;
  subscribeLockEvents(listener: (event: DocLockEvent) => unknown): { unsubscribe(): void };
  /** Tries again at once, also after `disconnected`. */
  connect(): void;
  /** Gives up all locks and ends the connection, for good. */
  close(): Promise<void>;
}

/** The part of `WebSocket` that is used. */
export interface WebSocketLike {
  readonly readyState: number;
  onopen: ((event: any) => unknown) | null;
  onmessage: ((event: any) => unknown) | null;
  onclose: ((event: any) => unknown) | null;
  onerror: ((event: any) => unknown) | null;
  send(data: string): void;
  close(code?: number, reason?: string): void;
}

/** The part of `fetch` that is used. */
export type FetchLike = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string; signal?: AbortSignal; keepalive?: boolean },
) => Promise<{ readonly ok: boolean; readonly status: number; json(): Promise<any> }>;

/** The part of `window` and `document` that is listened to. */
export interface EventTargetLike {
  addEventListener(type: string, listener: (event: any) => void, options?: any): void;
  removeEventListener(type: string, listener: (event: any) => void, options?: any): void;
}

export interface CreateDocLockOptions {
  /** Where the server is, as in `https://locks.example`; default the page's own origin. */
  readonly url?: string;
  readonly token?: string;
  /** Asked for a token at the start, before the last one expires, and when the server refuses one. */
  readonly getToken?: () => string | PromiseLike<string>;
  /** Lets `project-lock.js` serve alone while the server is away. */
  readonly offline?: "local";
  /** null: none, everything goes by HTTP. The others below: the page's own unless given. */
  readonly WebSocket?: (new (url: string, protocols: string[]) => WebSocketLike) | null;
  readonly fetch?: FetchLike;
  readonly clock?: ProjectLockClock;
  /** Makes ids; default `crypto.randomUUID`. */
  readonly random?: () => string;
  /** Spreads reconnects, 0 to 1; default `Math.random`. */
  readonly jitter?: () => number;
  /** Keeps the tab's session; default `sessionStorage`. null: none. */
  readonly storage?: Pick<Storage, "getItem" | "setItem" | "removeItem"> | null;
  readonly navigator?: {
    readonly locks?: ProjectLockManager;
    readonly storage?: Pick<StorageManager, "getDirectory">;
    sendBeacon?(url: string, data: string): boolean;
  };
  readonly window?: EventTargetLike;
  readonly document?: EventTargetLike & { readonly visibilityState?: string };
  /** Gets what a listener or callback throws; default `console.error`. */
  readonly onListenerError?: (error: unknown) => void;
}

export declare function createDocLock(options?: CreateDocLockOptions): DocLockClient;

/** `code` is the server's, or `UNREACHABLE`, `ABORTED`, `CLOSED`, `UNAUTHORIZED`, `NOT_HELD`. */
export declare class DocLockError extends Error {
  constructor(
    message: string,
    params: { code: string; operation?: DocLockOperation; retryable?: boolean; cause?: unknown; problem?: Record<string, any> },
  );
  readonly code: string;
  readonly operation: DocLockOperation | undefined;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  /** The server's whole answer, where it gave one: `lock`, `is_you`, `field`, `retry_after_ms` and so on. */
  readonly problem: Record<string, any> | undefined;
  readonly cause?: unknown;
}

/** Thrown by `getToken` when there will be no token: the person has signed out. Nothing more is tried then. */
export declare class DocLockUnauthorized extends DocLockError {
  constructor(message?: string, options?: { cause?: unknown });
}
