import type { HandoverOutcome, LockReason } from "./doclock.js";

export type Language = "en" | "ja";

/** Times, numbers and lists, as the language writes them. */
export interface Formats {
  time(at: number): string;
  number(value: number): string;
  list(items: readonly string[]): string;
  span(ms: number): [string, "second" | "minute" | "hour"];
  remaining(ms: number): string;
}

export type BannerAction =
  | "done"
  | "ask"
  | "wait"
  | "takeOver"
  | "editHere"
  | "leave"
  | "cancel"
  | "grant"
  | "keep"
  | "copy"
  | "compare"
  | "load"
  | "again"
  | "send";

/** Everything the banner says. `name` is the other person's; `…Ms` are spans, `until` is a time of day by this page's clock. */
export interface Messages {
  readonly language: Language;
  readonly formats: Formats;
  /** How long ago: `10 s ago`, or `now`. */
  ago(ms: number): string;
  /** Instead of a name that is not known. */
  readonly someone: string;
  /** The banner's own name, for those who do not see it. */
  readonly region: string;
  free(): string;
  mine(): string;
  slow(about: { leftMs: number }): string;
  theirs(about: { name: string; activeMs: number | null }): string;
  theirsViewOnly(about: { name: string }): string;
  otherTab(): string;
  waiting(about: { position: number | null }): string;
  yourTurn(): string;
  asked(about: { name: string; leftMs: number }): string;
  beingAsked(about: { name: string; message: string | null }): string;
  /** Without a name it is the end of editing, not a handover. */
  handingOver(about: { name: string | null }): string;
  offline(about: { until: number }): string;
  newer(about: { name: string | null }): string;
  viewOnly(): string;
  starting(): string;
  connecting(): string;
  offlineReader(): string;
  idle(): string;
  signedOut(): string;
  lost(about: { reason: LockReason; name: string; message: string | null; isYou: boolean }): string;
  outcome(about: { outcome: HandoverOutcome; name: string; message: string | null }): string;
  /** `code` is that of a DocLockError, `NO_CLIPBOARD` or `SAVE_FAILED`. */
  failed(about: { code: string }): string;
  copied(): string;
  readonly actions: Readonly<Record<BannerAction, string>>;
  readonly askNote: string;
  readonly keepNote: string;
  /** The key that leads to an ask. */
  readonly reachedBy: string;
}

export declare const messages: Readonly<Record<Language, Messages>>;

/** The first of these languages that there are texts for; English if there is none. */
export declare function languageOf(wanted: readonly (string | null | undefined)[]): Language;
