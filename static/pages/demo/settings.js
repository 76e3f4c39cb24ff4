// Language and theme: by the browser unless chosen, and then kept for the next visit.

import { languageOf, messages } from "/client/messages.js";
import { demoMessages } from "./messages.js";

/** @typedef {"auto" | "light" | "dark"} Theme */

const LANGUAGE = "doclock-demo.language";
const THEME = "doclock-demo.theme";

export class Settings {
  language = languageOf([localStorage.getItem(LANGUAGE), ...navigator.languages]);
  theme = /** @type {Theme} */ (localStorage.getItem(THEME) ?? "auto");
  /** @type {Set<() => void>} */
  #listeners = new Set();

  constructor() {
    this.#apply();
  }

  /** What the demo says. */
  get say() {
    return demoMessages[this.language];
  }

  /** What the banner says. */
  get banner() {
    return messages[this.language];
  }

  /** @param {import("/client/messages.js").Language} language */
  setLanguage(language) {
    this.language = language;
    localStorage.setItem(LANGUAGE, language);
    this.#apply();
  }

  /** @param {Theme} theme */
  setTheme(theme) {
    this.theme = theme;
    localStorage.setItem(THEME, theme);
    this.#apply();
  }

  #apply() {
    document.documentElement.lang = this.language;
    document.documentElement.dataset.theme = this.theme;
    document.title = this.say.title;
    for (const listener of [...this.#listeners]) listener();
  }

  /** @param {() => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
