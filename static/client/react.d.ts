import type { Context } from "react";
import type { DocLockClient, LockHandle, LockOptions, LockSnapshot, RoomSnapshot } from "./doclock.js";

export declare const DocLockContext: Context<DocLockClient | null>;

/** What the lock is now, and what can be done with it. The same object until something changes. */
export declare function useDocLock(room: string, options?: LockOptions): Omit<LockHandle, keyof LockSnapshot> & LockSnapshot;

export declare function useRoom(room: string): RoomSnapshot;
