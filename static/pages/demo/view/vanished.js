import { html } from "../preact.js";

/** @param {{say: import("../settings.js").Settings["say"], demo: import("../demo.js").Demo}} props */
export function Vanished({ say, demo }) {
  return html`
    <main class="card">
      <h1>${say.vanished}</h1>
      <p>${say.vanishedText}</p>
      <button class="main" onClick=${() => demo.comeBack()}>${say.comeBack}</button>
    </main>
  `;
}
