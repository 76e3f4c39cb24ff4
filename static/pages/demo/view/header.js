import { html } from "../preact.js";
import { openKeys } from "./keys.js";

/** @typedef {import("../settings.js").Settings} Settings */

/** @param {{settings: Settings}} props */
export function LanguageSwitch({ settings }) {
  const choose = (/** @type {any} */ event) => settings.setLanguage(event.target.value);
  return html`
    <select aria-label=${settings.say.language} value=${settings.language} onChange=${choose}>
      <option value="en" lang="en">English</option>
      <option value="ja" lang="ja">日本語</option>
    </select>
  `;
}

/** @param {{settings: Settings}} props */
function ThemeSwitch({ settings }) {
  const { say, theme } = settings;
  const choose = (/** @type {any} */ event) => settings.setTheme(event.target.value);
  return html`
    <select aria-label=${say.theme} value=${theme} onChange=${choose}>
      ${Object.entries(say.themes).map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
    </select>
  `;
}

/** @param {{settings: Settings, demo: import("../demo.js").Demo}} props */
export function Header({ settings, demo }) {
  const { say } = settings;
  return html`
    <header>
      <h1 class="brand"><img src="/pages/icon.svg" alt="" width="24" height="24" /> doclock</h1>
      <p class="tagline">${say.tagline}</p>
      <div class="tools">
        <button class="main" title=${say.secondHint} onClick=${() => demo.openWindow("new")}>${say.second}</button>
        <button onClick=${() => demo.openWindow("me")}>${say.anotherTab}</button>
      </div>
      <div class="tools settings">
        <${LanguageSwitch} settings=${settings} />
        <${ThemeSwitch} settings=${settings} />
        <button class="icon" aria-label=${say.keys} aria-keyshortcuts="?" onClick=${openKeys}>?</button>
      </div>
    </header>
  `;
}
