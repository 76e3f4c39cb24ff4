import { formatsOf } from "./formats.js";

const formats = formatsOf("en");
const ordinal = new Intl.PluralRules("en", { type: "ordinal" });
const ENDINGS = { one: "st", two: "nd", few: "rd", other: "th", zero: "th", many: "th" };
const UNITS = { second: "s", minute: "min", hour: "h" };

/** @param {string | null} text */
const quoted = (text) => (text ? `: "${text}"` : "");

/** @param {number} ms */
const ago = (ms) => {
  if (ms < 1_000) return "now";
  const [count, unit] = formats.span(ms);
  return `${count} ${UNITS[unit]} ago`;
};

/** @type {import("../messages.js").Messages} */
export const en = {
  language: "en",
  formats,
  ago,
  someone: "Someone",
  region: "Who is editing",
  free: () => "Nobody is editing. Type to start.",
  mine: () => "You are editing",
  slow: ({ leftMs }) => `Connection is slow. You can edit for ${formats.remaining(leftMs)} s more`,
  theirs: ({ name, activeMs }) => `${name} is editing${activeMs === null ? "" : ` (active ${ago(activeMs)})`}. You can read.`,
  theirsViewOnly: ({ name }) => `${name} is editing. You may view only`,
  otherTab: () => "You are editing this in another tab",
  waiting: ({ position }) =>
    `${position === null ? "In" : `${formats.number(position)}${ENDINGS[ordinal.select(position)]} in`} line. Editing starts here by itself.`,
  yourTurn: () => "Your turn",
  asked: ({ name, leftMs }) => `Asked ${name} (${formats.remaining(leftMs)} s)`,
  beingAsked: ({ name, message }) => (message ? `${name} asks${quoted(message)}` : `${name} asks to edit`),
  handingOver: ({ name }) => (name ? `Saving, then ${name} edits` : "Saving, then done"),
  offline: ({ until }) => `Offline. You can edit until ${formats.time(until)}`,
  newer: ({ name }) => `${name ?? "Someone"} finished. A newer version exists.`,
  viewOnly: () => "You may view only",
  starting: () => "Starting…",
  connecting: () => "Connecting…",
  offlineReader: () => "Offline. You can read what is here.",
  idle: () => "Editing ended because you were away. Type to start again.",
  signedOut: () => "You are signed out. Sign in again to edit.",
  lost: ({ reason, name, message, isYou }) => {
    /** @type {Partial<Record<string, string>>} */
    const why = {
      taken_over: isYou ? "You took over in another tab" : `${name} took over`,
      other_tab: "You are editing this in another tab",
      revoked: `${name} ended your editing`,
      handed_over: `${name} edits now`,
      offline: "Offline for too long, so this is read-only",
      expired: "The connection was away for too long, so your editing ended",
      released: "Your editing ended when the page was left",
      unauthorized: "You are signed out",
    };
    return `${why[reason] ?? "Your editing ended"}${quoted(message)}. Your text is kept here.`;
  },
  outcome: ({ outcome, name, message }) =>
    ({
      granted: `${name} handed over to you.`,
      denied: `${name} keeps editing${quoted(message) || "."}`,
      unanswered: `${name} did not answer.`,
      cancelled: "You no longer ask.",
      moot: `${name} is no longer editing.`,
    })[outcome],
  failed: ({ code }) =>
    /** @type {Partial<Record<string, string>>} */ ({
      UNREACHABLE: "The server cannot be reached. Try again in a moment.",
      LOCK_HELD: "Someone else was faster.",
      ROLE_FORBIDS: "You do not have the right to do this.",
      NO_CLIPBOARD: "This page may not copy. Select the text and copy it yourself.",
      SAVE_FAILED: "Saving failed, so nothing was handed over. You are still editing.",
    })[code] ?? `That did not work (${code}).`,
  copied: () => "Copied",
  actions: Object.freeze({
    done: "Done",
    ask: "Ask",
    wait: "Wait in line",
    takeOver: "Take over",
    editHere: "Edit here",
    leave: "Leave",
    cancel: "Cancel",
    grant: "Save and hand over",
    keep: "Keep editing",
    copy: "Copy",
    compare: "Compare",
    load: "Load and edit",
    again: "Edit again",
    send: "Send",
  }),
  askNote: "Why? (may stay empty)",
  keepNote: "A word back (may stay empty)",
  reachedBy: "F6",
};
