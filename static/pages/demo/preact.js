// preact with markup in template strings, which needs no build step; and hooks to draw what can be watched.

import { h, render } from "/vendor/preact.js";
import { useEffect, useReducer } from "/vendor/preact-hooks.js";
import htm from "/vendor/htm.js";

export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useRef, useState } from "/vendor/preact-hooks.js";

/**
 * Draws again whenever the thing tells of a change.
 *
 * @template {{subscribe(listener: () => void): () => unknown} | null} T
 * @param {T} watched
 * @returns {T}
 */
export function useWatch(watched) {
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useEffect(() => {
    const unsubscribe = watched?.subscribe(() => draw(undefined));
    return () => void unsubscribe?.();
  }, [watched]);
  return watched;
}

/** Draws again every so often, for times that say how long ago. @param {number} everyMs */
export function useTicks(everyMs) {
  const [, draw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || draw(undefined), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}
