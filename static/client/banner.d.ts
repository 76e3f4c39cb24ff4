import type { LockHandle, VersionOrSave } from "./doclock.js";

export interface BannerClock {
  now(): number;
  setTimeout(callback: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** What only the page can do. What is not given has no button. */
export interface BannerHooks {
  /** Saves and says which version that made; before the lock is given up or handed over. */
  save?: Exclude<VersionOrSave, string>;
  /** The text that is kept here when the lock is lost, for "Copy". */
  text?: () => string;
  /** Shows how the kept text and the newest differ, for "Compare". */
  compare?: () => void;
}

/**
 * Who edits a document, and what one can do about it. Attributes: `lang` (default: that of the page around it, then the
 * browser's), `can-take-over`, `view-only`, `offline` (where the page knows better than the browser). Events:
 * `doclock-view` with `{state, text}` after each drawing, `doclock-error` with what an action failed with.
 */
export declare class DocLockBanner extends HTMLElement {
  handle: LockHandle | null;
  hooks: BannerHooks;
  /** Of the text that the page shows; the banner tells when the room has a newer one. */
  version: string | null;
  /** Default the page's own. */
  clock: BannerClock;
  /** The state shown, by its name in `messages.js`: `free`, `mine`, `theirs` and so on. */
  readonly state: string;
}

declare global {
  interface HTMLElementTagNameMap {
    "doclock-banner": DocLockBanner;
  }
}
