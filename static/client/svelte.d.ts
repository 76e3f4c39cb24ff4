import type { Readable } from "svelte/store";
import type { DocLockClient, LockHandle, LockOptions, LockSnapshot, RoomSnapshot } from "./doclock.js";

export declare function setDocLock(client: DocLockClient): DocLockClient;

/** A store of what the lock is now (`$lock.canEdit`), with the handle's functions (`lock.acquire()`). */
export declare function useDocLock(
  room: string,
  options?: LockOptions,
  client?: DocLockClient,
): Omit<LockHandle, "subscribe"> & Readable<LockSnapshot>;

export declare function useRoom(room: string, client?: DocLockClient): Readable<RoomSnapshot>;
