// What `<doclock-banner>` says, in English and Japanese. A page that says the same things elsewhere takes them from here.
//
// Texts are functions of what they speak of; names of people are put in as they are and must be shown as text.

import { en } from "./messages/en.js";
import { ja } from "./messages/ja.js";

/** @typedef {import("./messages.js").Language} Language */

/** @type {Readonly<Record<Language, import("./messages.js").Messages>>} */
export const messages = Object.freeze({ en: Object.freeze(en), ja: Object.freeze(ja) });

/**
 * The first of these languages that there are texts for; English if there is none.
 *
 * @param {readonly (string | null | undefined)[]} wanted language tags, such as `navigator.languages`
 * @returns {Language}
 */
export function languageOf(wanted) {
  for (const tag of wanted) {
    const language = (tag ?? "").toLowerCase().split("-")[0];
    if (language === "en" || language === "ja") return language;
  }
  return "en";
}
