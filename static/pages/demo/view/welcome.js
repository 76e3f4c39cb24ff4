import { html, useState } from "../preact.js";
import { NoDemo, join } from "../session.js";
import { LanguageSwitch } from "./header.js";

/**
 * @param {{settings: import("../settings.js").Settings, network: import("../network.js").Network,
 *   onSession: (session: import("../session.js").DemoSession) => void}} props
 */
export function Welcome({ settings, network, onSession }) {
  const { say } = settings;
  const [luck] = useState(() => Math.random());
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {Error | null} */ (null));
  const name = typed ?? say.names[Math.floor(luck * say.names.length)];

  async function enter(/** @type {Event} */ event) {
    event.preventDefault();
    if (isBusy || !name.trim()) return;
    setBusy(true);
    try {
      onSession(await join(network.fetch, sessionStorage, name.trim()));
    } catch (error) {
      setProblem(/** @type {Error} */ (error));
      setBusy(false);
    }
  }

  if (problem instanceof NoDemo) {
    return html`<main class="card"><h1>${say.noDemo}</h1><p>${say.noDemoText} <a href="/docs/">/docs/</a></p></main>`;
  }
  return html`
    <main class="card">
      <p class="brand"><img src="/pages/icon.svg" alt="" width="24" height="24" /> doclock</p>
      <p class="tagline">${say.tagline}</p>
      <form onSubmit=${enter}>
        <h1>${say.nameTitle}</h1>
        <label for="name">${say.nameLabel}</label>
        <input id="name" name="name" maxlength="20" required autocomplete="off" spellcheck=${false} value=${name}
          onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />
        <button class="main" aria-disabled=${isBusy}>${isBusy ? say.entering : say.enter}</button>
      </form>
      <p class="quiet">${say.nameText}</p>
      <p role="alert" class="problem">${problem && say.joinFailed(problem instanceof TypeError ? say.unreachable : problem.message)}</p>
      <${LanguageSwitch} settings=${settings} />
    </main>
  `;
}
