import { html } from "../preact.js";

/**
 * @param {{say: import("../settings.js").Settings["say"], document: import("../document.js").OpenDocument,
 *   onCompare: (text: string) => void}} props
 */
export function Kept({ say, document, onCompare }) {
  const text = document.kept ?? "";
  return html`
    <div class="kept" role="group" aria-label=${say.kept}>
      <p role="status">${say.kept}</p>
      <pre tabindex="0" aria-label=${say.kept}>${text}</pre>
      <p class="buttons">
        <button onClick=${() => navigator.clipboard.writeText(text)}>${say.copy}</button>
        <button onClick=${() => onCompare(text)}>${say.compare}</button>
        <button aria-disabled=${!document.isEditable} onClick=${() => document.putBack()}>${say.putBack}</button>
        <button onClick=${() => document.discardKept()}>${say.discard}</button>
      </p>
    </div>
  `;
}
