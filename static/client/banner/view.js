// What the banner shows for a snapshot of a lock: a pure function, one branch per state of the table in docs/banner.md.

import { isNewer } from "./versions.js";

/**
 * @typedef {import("../doclock.js").LockSnapshot} LockSnapshot
 * @typedef {import("../messages.js").Messages} Messages
 * @typedef {import("../messages.js").BannerAction} BannerAction
 * @typedef {"free" | "mine" | "slow" | "theirs" | "otherTab" | "waiting" | "yourTurn" | "asked" | "beingAsked" | "handingOver" | "lost"
 *   | "offline" | "newer" | "viewOnly" | "starting" | "connecting" | "offlineReader" | "idle" | "signedOut"} ViewState
 *
 * @typedef {object} Memory what the snapshot does not say, because it was before or is of this page alone
 * @property {boolean} isTurn the lock came by waiting or asking, and nobody has typed since
 * @property {boolean} isSlow the last heartbeat has been on its way for 5 s
 * @property {boolean} isOffline
 * @property {string | null} givingTo the name of the one whose ask is being granted
 * @property {string | null} lastHolder the name of the one who held it last
 * @property {string | null} shownVersion of the text that the page shows
 * @property {boolean} canTakeOver
 * @property {boolean} isViewOnly
 * @property {{copy: boolean, compare: boolean}} page what the page can do
 * @property {(ownerId: string) => string | null} nameOf
 *
 * @typedef {object} View
 * @property {ViewState} state
 * @property {"calm" | "mine" | "asking" | "warning" | "alarm"} tone
 * @property {string} text
 * @property {readonly BannerAction[]} actions
 * @property {{politeness: "polite" | "assertive" | "silent", key: string} | null} announced said aloud when `key` changes
 */

/** A countdown is said at its start, and once more when so much remains. */
const LAST_CALL_MS = 10_000;

/** @param {ViewState} state @param {View["tone"]} tone @param {string} text @param {readonly BannerAction[]} [actions] @param {View["announced"]} [announced] @returns {View} */
const view = (state, tone, text, actions = [], announced = null) => ({ state, tone, text, actions, announced });

/** @param {string} key @returns {View["announced"]} */
const politely = (key) => ({ politeness: "polite", key });

/** @param {string} key @returns {View["announced"]} */
const alerting = (key) => ({ politeness: "assertive", key });

/**
 * @param {LockSnapshot} snapshot
 * @param {Memory} memory
 * @param {Messages} say
 * @param {number} now
 * @returns {View}
 */
export function viewOf(snapshot, memory, say, now) {
  const { state, reason, canEdit, holder, isYou, position, asked } = snapshot;
  if (state === "releasing") {
    return view("handingOver", "mine", say.handingOver({ name: memory.givingTo }), [], politely("handingOver"));
  }
  if (canEdit) return mine(snapshot, memory, say, now);
  const name = holder?.name ?? say.someone;
  // With the key of the state before and after it, so that only the outcome is heard.
  const around = state === "readonly" ? lostKey(reason) : `theirs ${holder?.ownerId}`;
  if (asked && holder) {
    return view("asked", "calm", say.asked({ name, leftMs: asked.deadlineMs - now }), ["cancel"], { politeness: "silent", key: around });
  }
  if (reason === "unauthorized" && state !== "readonly") return view("signedOut", "warning", say.signedOut(), [], politely("signedOut"));
  if (state === "readonly") return lost(snapshot, memory, say);
  if (state === "waiting") return view("waiting", "calm", say.waiting({ position }), ["leave"], politely(`waiting ${position}`));
  if (state === "acquiring") return view("starting", "calm", say.starting());
  if (snapshot.connectionLost) return view("offlineReader", "warning", say.offlineReader(), [], politely("offlineReader"));
  if (holder === null) return nobodys(snapshot, memory, say);
  if (isYou) return view("otherTab", "calm", say.otherTab(), ["editHere"], politely("otherTab"));
  if (memory.isViewOnly || reason === "forbidden") return view("viewOnly", "calm", say.theirsViewOnly({ name }));
  const activeMs = snapshot.activity === "active" ? 0 : snapshot.activeAt === null ? null : Math.max(0, now - snapshot.activeAt);
  /** @type {BannerAction[]} */
  const actions = ["ask", "wait"];
  if (memory.canTakeOver) actions.push("takeOver");
  return view("theirs", "calm", say.theirs({ name, activeMs }), actions, politely(around));
}

/** @param {LockSnapshot} snapshot @param {Memory} memory @param {Messages} say @param {number} now */
function mine({ asks, deadlineMs, connectionLost }, memory, say, now) {
  const leftMs = (deadlineMs ?? now) - now;
  if (memory.isOffline && deadlineMs !== null) return view("offline", "warning", say.offline({ until: deadlineMs }), [], politely("offline"));
  if ((connectionLost || memory.isSlow) && deadlineMs !== null) {
    return view("slow", "warning", say.slow({ leftMs }), [], politely(leftMs > LAST_CALL_MS ? "slow" : "slow, last call"));
  }
  const [ask] = asks;
  if (ask) {
    const text = say.beingAsked({ name: ask.by.name ?? say.someone, message: ask.message });
    return view("beingAsked", "asking", text, ["grant", "keep"], alerting(`beingAsked ${ask.handoverId}`));
  }
  if (memory.isTurn) return view("yourTurn", "mine", say.yourTurn(), ["done"], alerting("yourTurn"));
  return view("mine", "mine", say.mine(), ["done"], politely("mine"));
}

/** @param {LockSnapshot["reason"]} reason */
const lostKey = (reason) => `lost ${reason}`;

/** @param {LockSnapshot} snapshot @param {Memory} memory @param {Messages} say */
function lost({ reason, by, holder, isYou: isYours, documentVersion, connection }, memory, say) {
  const why = reason ?? "released";
  const byHolder = holder !== null && (by === null || holder.ownerId === by);
  const isYou = byHolder && isYours;
  const name = (byHolder ? holder.name : by === null ? null : memory.nameOf(by)) ?? say.someone;
  /** @type {BannerAction[]} */
  const actions = [];
  if (memory.page.copy) actions.push("copy");
  if (memory.page.compare) actions.push("compare");
  if (connection === "connected" && why !== "unauthorized") {
    if (holder === null) actions.push(isNewer(documentVersion, memory.shownVersion) ? "load" : "again");
    else actions.push(isYours ? "editHere" : "ask");
  }
  return view("lost", "alarm", say.lost({ reason: why, name, message: null, isYou }), actions, alerting(lostKey(reason)));
}

/** @param {LockSnapshot} snapshot @param {Memory} memory @param {Messages} say */
function nobodys({ reason, documentVersion, connection }, memory, say) {
  if (memory.isViewOnly || reason === "forbidden") return view("viewOnly", "calm", say.viewOnly());
  if (connection === "initial" || connection === "connecting") return view("connecting", "calm", say.connecting());
  if (isNewer(documentVersion, memory.shownVersion)) {
    return view("newer", "calm", say.newer({ name: memory.lastHolder }), ["load"], politely(`newer ${documentVersion}`));
  }
  if (reason === "idle") return view("idle", "calm", say.idle(), [], politely("idle"));
  return view("free", "calm", say.free());
}
