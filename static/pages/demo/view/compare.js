import { diff } from "../diff.js";
import { html, useEffect, useRef } from "../preact.js";

/** @param {{say: import("../settings.js").Settings["say"], mine: string, newest: string, onClose: () => void}} props */
export function Compare({ say, mine, newest, onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  return html`
    <dialog class="compare" ref=${dialog} aria-labelledby="compare-title" onClose=${onClose}>
      <h2 id="compare-title">${say.compareTitle}</h2>
      <p class="quiet">${mine === newest ? say.same : say.compareLegend}</p>
      <pre tabindex="0" aria-labelledby="compare-title">${diff(mine, newest).map(
        ({ sign, line }, index) => html`<span key=${index} class=${sign === "-" ? "gone" : sign === "+" ? "come" : ""}>${sign === "-" ? "−" : sign} ${line}${"\n"}</span>`,
      )}</pre>
      <form method="dialog"><button class="main">${say.close}</button></form>
    </dialog>
  `;
}
