// Until when this page may edit. The server counts from the moment it committed a grant or a renewal; the page counts
// from before it asked, so that it never counts longer than the server does.

import { Stopwatch } from "../project-lock/timing.js";

/** @typedef {import("../project-lock.js").ProjectLockClock} ProjectLockClock */
/** @typedef {{watch: Stopwatch, span: number}} Countdown */

/** How long before its lock can be someone else's a page stops editing; a third of a short ttl. */
const MARGIN_MS = 5_000;

/** @param {Countdown} countdown */
const left = ({ watch, span }) => span - watch.elapsed();

export class Deadline {
  #clock;
  #margin;
  /** @type {Countdown} */
  #countdown;
  #askedAt;
  #serverTime;

  /**
   * @param {ProjectLockClock} clock
   * @param {import("./wire.js").Message} answer
   * @param {Stopwatch} watch started before the request was sent
   */
  constructor(clock, answer, watch) {
    this.#clock = clock;
    this.#margin = Math.min(MARGIN_MS, (answer.ttl_seconds * 1000) / 3);
    this.#countdown = { watch, span: answer.expires_in_ms };
    this.#askedAt = watch;
    this.#serverTime = Date.parse(answer.server_time);
  }

  /**
   * The server has renewed the lock by itself. Such a message may have waited while the page stood still, so it counts
   * from the last answer to a request, by the server's clock; and never from later than its arrival.
   *
   * @param {import("./wire.js").Message} message
   */
  extended({ expires_at, expires_in_ms }) {
    const bySending = { watch: this.#askedAt, span: Date.parse(expires_at) - this.#serverTime };
    const byArrival = { watch: new Stopwatch(this.#clock), span: expires_in_ms };
    const next = left(bySending) < left(byArrival) ? bySending : byArrival;
    if (left(next) > left(this.#countdown)) this.#countdown = next;
  }

  /** How long this page may still edit. */
  editableMs() {
    return left(this.#countdown) - this.#margin;
  }
}
