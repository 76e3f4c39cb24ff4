import { html, useState } from "../preact.js";

/** @typedef {import("../settings.js").Settings["say"]} Say */
/** @typedef {Awaited<ReturnType<import("../document.js").OpenDocument["saveLate"]>> | "failed"} Outcome */

/** @param {Say} say @param {Outcome} outcome */
function wordsOf(say, outcome) {
  if (outcome === "failed") return say.lateFailed;
  if (outcome.token === null) return say.lateNothing;
  return outcome.refusal ? say.lateRefused(outcome.token, outcome.refusal.currentToken) : say.lateAccepted;
}

/** @param {{say: Say, demo: import("../demo.js").Demo}} props */
export function Tries({ say, demo }) {
  /** Made to words when it is drawn, so that it follows the language. */
  const [late, setLate] = useState(/** @type {Outcome | null} */ (null));
  const { isCut } = demo.network;

  async function sendLate() {
    try {
      setLate((await demo.document?.saveLate()) ?? null);
    } catch {
      setLate("failed");
    }
  }

  return html`
    <section class="tries" aria-labelledby="tries-title">
      <h2 id="tries-title">${say.tries}</h2>
      <ul>
        <li><button aria-pressed=${isCut} onClick=${() => demo.toggleNetwork()}>${isCut ? say.restore : say.cut}</button><span>${say.cutText}</span></li>
        <li><button onClick=${() => demo.vanish()}>${say.vanish}</button><span>${say.vanishText}</span></li>
        <li><button onClick=${sendLate}>${say.late}</button><span>${say.lateText}</span></li>
      </ul>
      <p role="status" class="outcome">${late && wordsOf(say, late)}</p>
    </section>
  `;
}
