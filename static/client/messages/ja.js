import { formatsOf } from "./formats.js";

const formats = formatsOf("ja");
const UNITS = { second: "秒", minute: "分", hour: "時間" };

/** @param {string} name */
const san = (name) => (name === ja.someone ? name : `${name}さん`);

/** @param {string | null} text */
const quoted = (text) => (text ? `：「${text}」` : "");

/** @param {number} ms */
const ago = (ms) => {
  if (ms < 1_000) return "たった今";
  const [count, unit] = formats.span(ms);
  return `${count}${UNITS[unit]}前`;
};

/** @type {import("../messages.js").Messages} */
export const ja = {
  language: "ja",
  formats,
  ago,
  someone: "ほかの人",
  region: "編集の状態",
  free: () => "誰も編集していません。入力すると編集を始めます",
  mine: () => "あなたが編集中です",
  slow: ({ leftMs }) => `接続が不安定です。あと${formats.remaining(leftMs)}秒編集できます`,
  theirs: ({ name, activeMs }) =>
    `${san(name)}が編集中です${activeMs === null ? "" : activeMs < 1000 ? "（操作中）" : `（${ago(activeMs)}に操作）`}。閲覧できます`,
  theirsViewOnly: ({ name }) => `${san(name)}が編集中です。閲覧権限のみです`,
  otherTab: () => "別のタブで編集中です",
  waiting: ({ position }) =>
    position === null ? "順番を待っています。順番が来ると編集できます" : `${formats.number(position)}番目です。順番が来ると編集できます`,
  yourTurn: () => "あなたの番です",
  asked: ({ name, leftMs }) => `${san(name)}に依頼しました（残り${formats.remaining(leftMs)}秒）`,
  beingAsked: ({ name, message }) => `${san(name)}から依頼${message ? quoted(message) : "が来ています"}`,
  handingOver: ({ name }) => (name ? "保存してから渡します" : "保存しています"),
  offline: ({ until }) => `オフラインです。${formats.time(until)}まで編集できます`,
  newer: () => "編集が終わりました。新しい版があります",
  viewOnly: () => "閲覧権限のみです",
  starting: () => "編集を始めています…",
  connecting: () => "接続しています…",
  offlineReader: () => "オフラインです。表示中の内容は閲覧できます",
  idle: () => "操作がなかったため編集を終えました。入力すると再開します",
  signedOut: () => "サインアウトしました。編集するにはもう一度サインインしてください",
  lost: ({ reason, name, message, isYou }) => {
    /** @type {Partial<Record<string, string>>} */
    const why = {
      taken_over: isYou ? "別のタブで編集を引き継ぎました" : `${san(name)}が引き継ぎました`,
      other_tab: "別のタブで編集中です",
      revoked: `${san(name)}が編集を終了させました`,
      handed_over: `${san(name)}が編集しています`,
      offline: "オフラインが続いたため閲覧のみです",
      expired: "接続が途切れたため編集が終わりました",
      released: "ページを離れたため編集が終わりました",
      unauthorized: "サインアウトしました",
    };
    return `${why[reason] ?? "編集が終わりました"}${quoted(message)}。入力内容はこの画面に残っています`;
  },
  outcome: ({ outcome, name, message }) =>
    ({
      granted: `${san(name)}から引き継ぎました。`,
      denied: `${san(name)}は編集を続けます${quoted(message)}`,
      unanswered: `${san(name)}から返事がありませんでした`,
      cancelled: "依頼を取り消しました",
      moot: `${san(name)}の編集は終わっています`,
    })[outcome],
  failed: ({ code }) =>
    /** @type {Partial<Record<string, string>>} */ ({
      UNREACHABLE: "サーバーに接続できません。少し待ってもう一度お試しください",
      LOCK_HELD: "ほかの人が先に編集を始めました",
      ROLE_FORBIDS: "この操作をする権限がありません",
      NO_CLIPBOARD: "このページからはコピーできません。本文を選択してコピーしてください",
      SAVE_FAILED: "保存できなかったため渡していません。編集を続けられます",
    })[code] ?? `できませんでした（${code}）`,
  copied: () => "コピーしました",
  actions: Object.freeze({
    done: "編集を終える",
    ask: "編集を依頼",
    wait: "順番を待つ",
    takeOver: "引き継ぐ",
    editHere: "ここで編集",
    leave: "待つのをやめる",
    cancel: "取り消す",
    grant: "保存して渡す",
    keep: "編集を続ける",
    copy: "コピー",
    compare: "差分",
    load: "読み込んで編集",
    again: "編集を再開",
    send: "送る",
  }),
  askNote: "理由（なくても構いません）",
  keepNote: "ひとこと（なくても構いません）",
  reachedBy: "F6",
};
