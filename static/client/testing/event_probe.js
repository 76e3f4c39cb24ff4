/**
 * @typedef {import("../project-lock.js").ProjectLockEvent} ProjectLockEvent
 * @typedef {import("../project-lock.js").ProjectLockSubscription} ProjectLockSubscription
 */

/** Records the events of a service, in order. */
export class EventProbe {
  /** @type {ProjectLockEvent[]} */
  events = [];
  #subscription;

  /** @param {{subscribeLockEvents(listener: (event: ProjectLockEvent) => unknown): ProjectLockSubscription}} locks */
  constructor(locks) {
    this.#subscription = locks.subscribeLockEvents((event) => this.events.push(event));
  }

  /** The names of the events: `lock:acquired` and so on. */
  get types() {
    return this.events.map(({ type }) => type);
  }

  /** The second names, of those events that have one: `acquired` and so on. */
  get aliases() {
    return this.events.flatMap(({ alias }) => (alias === undefined ? [] : [alias]));
  }

  /**
   * The events of one name.
   *
   * @template {ProjectLockEvent["type"]} T
   * @param {T} type
   */
  of(type) {
    return /** @type {Extract<ProjectLockEvent, {type: T}>[]} */ (this.events.filter((event) => event.type === type));
  }

  /** Returns what was recorded, and forgets it. */
  take() {
    return this.events.splice(0);
  }

  stop() {
    this.#subscription.unsubscribe();
  }
}
