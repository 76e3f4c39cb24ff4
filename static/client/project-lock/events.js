/** @typedef {import("../project-lock.js").ProjectLockEvent} ProjectLockEvent */
/** @typedef {import("../project-lock.js").ProjectLockEventListener} ProjectLockEventListener */
/** @typedef {import("../project-lock.js").ProjectLockSubscription} ProjectLockSubscription */

/**
 * Who hears of lock events. A listener that throws is reported and harms neither the lock nor the other listeners.
 */
export class Subscribers {
  // One entry per subscription and not per function, so that a function subscribed twice can be unsubscribed once.
  /** @type {Set<{listener: ProjectLockEventListener}>} */
  #subscriptions = new Set();
  #reportError;

  /** @param {(error: unknown) => void} reportError */
  constructor(reportError) {
    this.#reportError = reportError;
  }

  /**
   * @param {ProjectLockEventListener} listener
   * @returns {ProjectLockSubscription}
   */
  subscribe(listener) {
    if (typeof listener !== "function") throw new TypeError("subscribeLockEvents needs a function");
    const subscription = { listener };
    this.#subscriptions.add(subscription);
    return { unsubscribe: () => void this.#subscriptions.delete(subscription) };
  }

  /** @param {ProjectLockEvent} event */
  tell(event) {
    const named = Object.freeze(withAlias(event));
    for (const subscription of [...this.#subscriptions]) {
      // An earlier listener may have unsubscribed this one while it was told of the same event.
      if (this.#subscriptions.has(subscription)) this.guarded(() => subscription.listener(named));
    }
  }

  /**
   * Runs code of the caller's, whose failure is reported and goes no further.
   *
   * @param {() => unknown} callback
   */
  guarded(callback) {
    try {
      // An async listener fails by its promise.
      Promise.resolve(callback()).catch(this.#reportError);
    } catch (error) {
      this.#reportError(error);
    }
  }
}

/** @type {Partial<Record<ProjectLockEvent["type"], ProjectLockEvent["alias"]>>} */
const ALIASES = {
  "lock:waiting": "backoff",
  "lock:acquired": "acquired",
  "lock:renewed": "renewed",
  "lock:released": "released",
  "lock:expired": "expired",
};

/**
 * Adds the event's second name, where it has one.
 *
 * @param {ProjectLockEvent} event
 * @returns {ProjectLockEvent}
 */
function withAlias(event) {
  const alias = aliasOf(event);
  return alias === undefined ? event : /** @type {ProjectLockEvent} */ ({ ...event, alias });
}

/**
 * @param {ProjectLockEvent} event
 * @returns {ProjectLockEvent["alias"]}
 */
function aliasOf(event) {
  if (event.type === "lock:warning") return event.warning === "fallback-engaged" ? "switch-to-fallback" : undefined;
  if (event.type === "lock:error") {
    if (event.operation === "acquire") return "acquire-failed";
    return event.operation === "release" ? "release-failed" : undefined;
  }
  return ALIASES[event.type];
}
