// doclock.js for React 18 and later: `<DocLockContext.Provider value={client}>` above, the hooks below it.
//
// Nothing happens at mount but watching; locks are taken by `acquire`.

import { createContext, useContext, useEffect, useMemo, useSyncExternalStore } from "react";

/** @typedef {import("./doclock.js").DocLockClient} DocLockClient */

export const DocLockContext = createContext(/** @type {DocLockClient | null} */ (null));

function useClient() {
  const client = useContext(DocLockContext);
  if (!client) throw new Error("There is no DocLockContext.Provider above this component");
  return client;
}

/** @type {typeof import("./react.js").useDocLock} */
export function useDocLock(room, options = {}) {
  const client = useClient();
  const { document } = options;
  const handle = useMemo(() => client.lock(room, { document }), [client, room, document]);
  // After each render and not once: callbacks made in render are new ones each time.
  useEffect(() => void client.lock(room, options));
  const snapshot = useSyncExternalStore(handle.subscribe, handle.getSnapshot, handle.getSnapshot);
  return useMemo(() => ({ ...handle, ...snapshot }), [handle, snapshot]);
}

/** @type {typeof import("./react.js").useRoom} */
export function useRoom(room) {
  const client = useClient();
  const { subscribe, getSnapshot } = useMemo(() => client.room(room), [client, room]);
  return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
}
