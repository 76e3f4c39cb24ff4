import { curlOf } from "../curl.js";
import { html, useState, useWatch } from "../preact.js";

/** @typedef {import("../network.js").Entry} Entry */
/** @typedef {import("../settings.js").Settings} Settings */

const ARROWS = { request: "→", sent: "→", received: "←", socket: "•" };

/** @param {{settings: Settings, network: import("../network.js").Network}} props */
export function UnderTheHood({ settings, network }) {
  const { say } = settings;
  const [isOpen, setOpen] = useState(false);
  return html`
    <details class="hood" onToggle=${(/** @type {any} */ event) => event.target.matches(".hood") && setOpen(event.target.open)}>
      <summary><h2>${say.hood}</h2></summary>
      ${isOpen && html`<${List} settings=${settings} network=${network} />`}
    </details>
  `;
}

/** @param {{settings: Settings, network: import("../network.js").Network}} props */
function List({ settings, network }) {
  useWatch(network);
  const { say } = settings;
  // Nothing moves under the pointer or the focus: what is new meanwhile gathers until it is asked for, or one goes away.
  const [heldAt, setHeldAt] = useState(/** @type {number | null} */ (null));
  const newest = network.entries[0]?.id ?? 0;
  const hold = () => setHeldAt((before) => before ?? newest);
  const letGo = (/** @type {any} */ { currentTarget }) => currentTarget.matches(":hover, :focus-within") || setHeldAt(null);
  const shown = network.entries.filter(({ id }) => heldAt === null || id <= heldAt);
  const waiting = network.entries.length - shown.length;
  return html`
    <p class="quiet">
      ${say.hoodText} <button class="plain" onClick=${() => network.clear()}>${say.clear}</button>
      ${waiting > 0 && html`<button class="plain" onClick=${() => setHeldAt(newest)}>${say.newEntries(waiting)}</button>`}
    </p>
    ${network.entries.length === 0 && html`<p class="quiet">${say.hoodEmpty}</p>`}
    <ol class="entries" onMouseEnter=${hold} onMouseLeave=${letGo} onFocusIn=${hold} onFocusOut=${(/** @type {any} */ event) => queueMicrotask(() => letGo(event))}>
      ${shown.map((entry) => html`<${Item} key=${entry.id} settings=${settings} entry=${entry} />`)}
    </ol>
  `;
}

/** @param {{settings: Settings, entry: Entry}} props */
function Item({ settings, entry }) {
  const { say, banner } = settings;
  const [isOpen, setOpen] = useState(false);
  const { kind, title, status, tookMs, at } = entry;
  return html`
    <li>
      <details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
        <summary>
          <time>${banner.formats.time(at)}</time>
          <span class=${`arrow ${kind}`} aria-hidden="true">${ARROWS[kind]}</span>
          <span class="kind">${say.kinds[kind]}</span>
          <code>${title}</code>
          ${status !== undefined && html`<span class=${status >= 200 && status < 400 ? "code" : "code problem"}>${status || "✕"} · ${tookMs} ms</span>`}
        </summary>
        ${isOpen && html`<${Contents} say=${say} entry=${entry} />`}
      </details>
    </li>
  `;
}

/** @param {{say: Settings["say"], entry: Entry}} props */
function Contents({ say, entry }) {
  const [isCopied, setCopied] = useState(false);
  const curl = curlOf(entry);
  const copy = () => navigator.clipboard.writeText(curl ?? "").then(() => setCopied(true));
  return html`
    ${curl && html`<p class="curl"><code>${curl}</code> <button onClick=${copy}>${isCopied ? say.copied : say.copy}</button></p>`}
    ${[entry.body, entry.answer].map((value, index) => value !== undefined && html`<pre key=${index} tabindex="0">${JSON.stringify(value, null, 2)}</pre>`)}
  `;
}
