import { html, useState } from "../preact.js";

/** @typedef {import("../settings.js").Settings["say"]} Say */

/** @param {{say: Say, demo: import("../demo.js").Demo}} props */
export function Tries({ say, demo }) {
  const [outcome, setOutcome] = useState(/** @type {((say: Say) => string) | null} */ (null));
  const { isCut } = demo.network;

  async function late() {
    try {
      const { token, refusal } = (await demo.document?.saveLate()) ?? { token: null, refusal: null };
      if (token === null) return setOutcome(() => (/** @type {Say} */ say) => say.lateNothing);
      setOutcome(() => (/** @type {Say} */ say) => (refusal ? say.lateRefused(token, refusal.currentToken) : say.lateAccepted));
    } catch {
      setOutcome(() => (/** @type {Say} */ say) => say.lateFailed);
    }
  }

  return html`
    <section class="tries" aria-labelledby="tries-title">
      <h2 id="tries-title">${say.tries}</h2>
      <ul>
        <li><button aria-pressed=${isCut} onClick=${() => demo.toggleNetwork()}>${isCut ? say.restore : say.cut}</button><span>${say.cutText}</span></li>
        <li><button onClick=${() => demo.vanish()}>${say.vanish}</button><span>${say.vanishText}</span></li>
        <li><button onClick=${late}>${say.late}</button><span>${say.lateText}</span></li>
      </ul>
      <p role="status" class="outcome">${outcome?.(say)}</p>
    </section>
  `;
}
