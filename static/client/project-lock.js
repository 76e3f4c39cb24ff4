// A lock on the project, between the tabs of one browser, without any server.
//
// Web Locks where the browser has them, otherwise the file `project/.lock` in the origin's private file system. The
// guide is docs/project-lock.md, the types are beside this file. Nothing happens before the first call: importing this
// module, or making a service, touches no global, so both work in Node.

import { ProjectLockService } from "./project-lock/service.js";

export { ProjectLockError } from "./project-lock/errors.js";

/** @typedef {import("./project-lock.js").ProjectLocks} ProjectLocks */

/** @type {typeof import("./project-lock.js").createProjectLocks} */
export function createProjectLocks(options = {}) {
  const service = new ProjectLockService(options);
  // Functions of their own and not methods, so that they can be taken apart and passed on.
  /** @type {ProjectLocks} */
  const locks = {
    acquireProjectLock: (options) => service.acquire(options),
    renewProjectLock: (options) => service.renew(options),
    releaseProjectLock: (options) => service.release(options),
    withProjectLock: (options, work) => service.with(options ?? {}, work),
    subscribeLockEvents: (listener) => service.subscribe(listener),
  };
  return Object.freeze(locks);
}

/** @type {ProjectLocks | undefined} */
let own;

/** The service of those who need no settings; all who import this module share it. */
function shared() {
  own ??= createProjectLocks();
  return own;
}

/** @type {ProjectLocks["acquireProjectLock"]} */
export const acquireProjectLock = (options) => shared().acquireProjectLock(options);

/** @type {ProjectLocks["renewProjectLock"]} */
export const renewProjectLock = (options) => shared().renewProjectLock(options);

/** @type {ProjectLocks["releaseProjectLock"]} */
export const releaseProjectLock = (options) => shared().releaseProjectLock(options);

/** @type {ProjectLocks["withProjectLock"]} */
export const withProjectLock = (options, work) => shared().withProjectLock(options, work);

/** @type {ProjectLocks["subscribeLockEvents"]} */
export const subscribeLockEvents = (listener) => shared().subscribeLockEvents(listener);
