// Locks on documents, kept by a doclock server, for pages.
//
// The guide is docs/browser.md, the types are beside this file. Nothing happens before the first call: importing this
// module, or making a client, touches no global, so both work in Node.

import { Client } from "./doclock/client.js";

export { DocLockError, DocLockUnauthorized } from "./doclock/errors.js";

/** @type {typeof import("./doclock.js").createDocLock} */
export function createDocLock(options = {}) {
  const client = new Client(options);
  // Functions of their own and not methods, so that they can be taken apart and passed on.
  /** @type {import("./doclock.js").DocLockClient} */
  const docLock = {
    lock: (room, options) => client.lock(room, options).handle,
    room: (name) => client.room(name).handle,
    connection: Object.freeze({
      subscribe: (/** @type {() => unknown} */ listener) => client.connection.store.subscribe(listener),
      getSnapshot: () => client.connection.store.getSnapshot(),
    }),
    withLock: (room, options, work) => client.withLock(room, options ?? {}, work),
    subscribeLockEvents: (listener) => client.subscribeLockEvents(listener),
    connect: () => client.connect(),
    close: () => client.close(),
  };
  return Object.freeze(docLock);
}
