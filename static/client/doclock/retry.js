import { sleep } from "../project-lock/timing.js";
import { isTrouble } from "./errors.js";

/** @typedef {import("../project-lock.js").ProjectLockClock} ProjectLockClock */

const DELAYS_MS = [500, 1_000];

/**
 * Sends, and sends again if no answer came: twice, then it fails as the last one did.
 *
 * @template T
 * @param {ProjectLockClock} clock
 * @param {(retry: number) => Promise<T>} send
 * @param {{signal?: () => AbortSignal, onRetry?: (error: unknown, retry: number, delayMs: number) => void}} [options] `signal` ends a pause
 */
export async function persist(clock, send, { signal, onRetry } = {}) {
  for (let retry = 0; ; retry += 1) {
    try {
      return await send(retry);
    } catch (error) {
      const delayMs = DELAYS_MS[retry];
      if (!isTrouble(error) || delayMs === undefined) throw error;
      onRetry?.(error, retry + 1, delayMs);
      await pause(clock, delayMs, signal?.());
    }
  }
}

/**
 * Resolves after `ms`, or as soon as the signal is aborted.
 *
 * @param {ProjectLockClock} clock
 * @param {number} ms
 * @param {AbortSignal} [signal]
 */
export const pause = (clock, ms, signal) => sleep(clock, ms, signal).catch(() => {});
