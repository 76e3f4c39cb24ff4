import type { InjectionKey, MaybeRefOrGetter, ShallowRef } from "vue";
import type { DocLockClient, LockHandle, LockOptions, LockSnapshot, RoomSnapshot } from "./doclock.js";

export declare const docLockKey: InjectionKey<DocLockClient>;

/** The handle, and what the lock is now. Room and options may be refs or getters. */
export declare function useDocLock(
  room: MaybeRefOrGetter<string>,
  options?: MaybeRefOrGetter<LockOptions | undefined>,
  client?: DocLockClient,
): { handle: ShallowRef<LockHandle>; snapshot: ShallowRef<LockSnapshot> };

export declare function useRoom(room: MaybeRefOrGetter<string>, client?: DocLockClient): ShallowRef<RoomSnapshot>;
