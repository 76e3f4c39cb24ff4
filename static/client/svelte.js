// doclock.js for Svelte 4 and 5: `setDocLock(client)` in a component above, `useDocLock` and `useRoom` below it.
//
// Nothing happens at mount but watching; locks are taken by `acquire`.

import { getContext, setContext } from "svelte";
import { readable } from "svelte/store";

const KEY = Symbol("doclock");

/** @type {typeof import("./svelte.js").setDocLock} */
export const setDocLock = (client) => setContext(KEY, client);

function getClient() {
  const client = getContext(KEY);
  if (!client) throw new Error("No component above this one has called setDocLock");
  return /** @type {import("./doclock.js").DocLockClient} */ (client);
}

/**
 * @template {object} T
 * @param {import("./doclock.js").Watchable<T>} watchable
 */
const storeOf = ({ subscribe, getSnapshot }) =>
  readable(getSnapshot(), (set) => {
    const unsubscribe = subscribe(() => set(getSnapshot()));
    set(getSnapshot());
    return unsubscribe;
  });

/** @type {typeof import("./svelte.js").useDocLock} */
export function useDocLock(room, options, client = getClient()) {
  const handle = client.lock(room, options);
  return { ...handle, ...storeOf(handle) };
}

/** @type {typeof import("./svelte.js").useRoom} */
export const useRoom = (room, client = getClient()) => storeOf(client.room(room));
