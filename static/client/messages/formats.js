// Times, numbers and lists, as a language writes them.

/** @typedef {"second" | "minute" | "hour"} Unit */

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** @param {string} language */
export function formatsOf(language) {
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
  const list = new Intl.ListFormat(language, { type: "conjunction" });
  return {
    /** @param {number} at milliseconds since 1970 */
    time: (at) => clock.format(at),
    /** @param {number} value */
    number: (value) => whole.format(value),
    /** @param {readonly string[]} items */
    list: (items) => list.format(items),
    /**
     * The largest unit of which at least one has passed.
     *
     * @param {number} ms
     * @returns {[string, Unit]}
     */
    span(ms) {
      if (ms < MINUTE_MS) return [whole.format(Math.max(0, Math.floor(ms / 1000))), "second"];
      if (ms < HOUR_MS) return [whole.format(Math.floor(ms / MINUTE_MS)), "minute"];
      return [whole.format(Math.floor(ms / HOUR_MS)), "hour"];
    },
    /**
     * Seconds that remain: never 0 while something remains.
     *
     * @param {number} ms
     */
    remaining: (ms) => whole.format(Math.max(0, Math.ceil(ms / 1000))),
  };
}
