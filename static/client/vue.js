// doclock.js for Vue 3: `app.provide(docLockKey, client)` once, `useDocLock` and `useRoom` in `setup`.
//
// Nothing happens at mount but watching; locks are taken by `acquire`.

import { inject, onScopeDispose, shallowRef, toValue, watch } from "vue";

export const docLockKey = Symbol("doclock");

function useClient() {
  const client = inject(docLockKey, null);
  if (!client) throw new Error("Nobody has provided docLockKey above this component");
  return /** @type {import("./doclock.js").DocLockClient} */ (client);
}

/**
 * @template {object} T
 * @template {import("./doclock.js").Watchable<T>} W
 * @param {() => W} find
 */
function useWatchable(find) {
  const handle = shallowRef(find());
  const snapshot = shallowRef(handle.value.getSnapshot());
  const follow = (/** @type {W} */ next) => {
    handle.value = next;
    snapshot.value = next.getSnapshot();
    return next.subscribe(() => (snapshot.value = next.getSnapshot()));
  };
  let stop = follow(handle.value);
  watch(find, (next) => next !== handle.value && (stop(), (stop = follow(next))));
  onScopeDispose(() => stop());
  return { handle, snapshot };
}

/** @type {typeof import("./vue.js").useDocLock} */
export const useDocLock = (room, options, client = useClient()) => useWatchable(() => client.lock(toValue(room), toValue(options)));

/** @type {typeof import("./vue.js").useRoom} */
export const useRoom = (room, client = useClient()) => useWatchable(() => client.room(toValue(room))).snapshot;
