import { html, useEffect } from "../preact.js";

const dialog = () => /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog.keys"));

export const openKeys = () => dialog()?.showModal();

const isWriting = (/** @type {Element | null} */ element) =>
  element !== null && (element.matches("input, textarea, select, [contenteditable]") || element.shadowRoot?.activeElement?.matches("input") === true);

/** What a key does outside of any text field. @type {Record<string, () => void>} */
const KEYS = {
  "?": openKeys,
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector("#find"))?.focus(),
  e: () => /** @type {HTMLElement | null} */ (document.querySelector("#text"))?.focus(),
};

function pressed(/** @type {KeyboardEvent} */ event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && document.activeElement?.matches("#text, #find")) return /** @type {HTMLElement} */ (document.activeElement).blur();
  const action = KEYS[event.key];
  if (!action || isWriting(document.activeElement)) return;
  event.preventDefault();
  action();
}

/** @param {{say: import("../settings.js").Settings["say"]}} props */
export function Keys({ say }) {
  useEffect(() => {
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
  return html`
    <dialog class="keys" aria-labelledby="keys-title">
      <h2 id="keys-title">${say.keys}</h2>
      <dl>${say.shortcuts.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
      <form method="dialog"><button class="main">${say.close}</button></form>
    </dialog>
  `;
}
