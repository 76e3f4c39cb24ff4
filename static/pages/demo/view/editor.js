import { html, useLayoutEffect, useRef, useState, useWatch } from "../preact.js";
import { Compare } from "./compare.js";
import { Kept } from "./kept.js";

/** @typedef {import("../document.js").OpenDocument} OpenDocument */
/** @typedef {import("../settings.js").Settings} Settings */

/** @param {{settings: Settings, demo: import("../demo.js").Demo, document: OpenDocument}} props */
export function Editor({ settings, demo, document }) {
  useWatch(document);
  const { say } = settings;
  const [compared, setCompared] = useState(/** @type {{mine: string, newest: string} | null} */ (null));
  const compare = async (/** @type {string} */ mine) => setCompared({ mine, newest: await document.newest() });
  return html`
    <section class="editor" aria-labelledby="editor-title">
      <h2 id="editor-title">${document.name}</h2>
      <${Banner} settings=${settings} document=${document} isCut=${demo.network.isCut} onCompare=${() => compare(document.text)} />
      ${document.kept !== null && html`<${Kept} say=${say} document=${document} onCompare=${compare} />`}
      ${document.status === "failed"
        ? html`<p class="empty" role="alert">${say.loadFailed} <button onClick=${() => document.load()}>${say.tryAgain}</button></p>`
        : html`<${Text} say=${say} document=${document} />`}
      <${Status} settings=${settings} document=${document} />
      ${compared && html`<${Compare} say=${say} ...${compared} onClose=${() => setCompared(null)} />`}
    </section>
  `;
}

/** @param {{settings: Settings, document: OpenDocument, isCut: boolean, onCompare: () => void}} props */
function Banner({ settings, document, isCut, onCompare }) {
  const element = useRef(/** @type {import("/client/banner.js").DocLockBanner | null} */ (null));
  useLayoutEffect(() => {
    if (!element.current) return;
    element.current.handle = document.lock;
  }, [document]);
  useLayoutEffect(() => {
    if (!element.current) return;
    element.current.hooks = { save: document.saveNow, text: () => document.text, compare: onCompare };
  });
  useLayoutEffect(() => {
    if (element.current) element.current.version = document.version;
  }, [document.version]);
  return html`<doclock-banner ref=${element} lang=${settings.language} offline=${isCut ? "" : undefined}></doclock-banner>`;
}

/** @param {{say: Settings["say"], document: OpenDocument}} props */
function Text({ say, document }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const isComposing = useRef(false);
  // Not drawn by preact: a value that is set again while someone types moves the caret. But at once with everything else:
  // "saved" must never stand beside another text than the one it speaks of.
  useLayoutEffect(() => {
    const text = area.current;
    if (!text || isComposing.current || text.value === document.text) return;
    const { selectionStart, selectionEnd, scrollTop } = text;
    text.value = document.text;
    text.setSelectionRange(selectionStart, selectionEnd);
    text.scrollTop = scrollTop;
  });
  const { canEdit } = document.lock.getSnapshot();
  const isLoading = document.status === "loading" || (canEdit && !document.isEditable);
  const typed = () => area.current && document.typed(area.current.value);
  return html`
    <textarea id="text" ref=${area} maxlength="4000" readonly=${!document.isEditable} spellcheck=${false} aria-busy=${document.status === "loading"}
      aria-label=${say.textLabel(document.name)} placeholder=${isLoading ? say.loading : document.isEditable ? say.placeholder : say.nothingWritten}
      onInput=${typed} onCompositionStart=${() => (isComposing.current = true)} onCompositionEnd=${() => (isComposing.current = false)}
    ></textarea>
  `;
}

/** @param {{settings: Settings, document: OpenDocument}} props */
function Status({ settings, document }) {
  const { say } = settings;
  const { saveState, version, status } = document;
  const { fencingToken, canEdit, documentVersion, holder, isYou } = document.lock.getSnapshot();
  if (status !== "ready") return html`<p class="status"> </p>`;
  const isUntouched = version === "v0" && saveState === "saved";
  const words = saveState === "unsaved" && !canEdit ? say.notSavedKept : isUntouched ? say.untouched : say.save[saveState];
  return html`
    <p class="status">
      <output class=${isUntouched ? "untouched" : ""} data-save=${saveState} data-version=${version}>${words}</output>
      ${!isUntouched && html`<span>${version}</span>`}
      ${canEdit && !document.isEditable && html`<span>${say.loading}</span>`}
      ${fencingToken !== null && html`<span>${say.token(fencingToken)}</span>`}
      ${document.refusal && html`<span class="problem">${document.refusal.message}</span>`}
      ${document.isNewer && !canEdit &&
      html`<span>${say.newer(documentVersion ?? "")} <button class="plain" onClick=${() => document.refresh()}>${say.showIt}</button></span>`}
      ${holder !== null && !isYou &&
      html`
        <label class="follow">
          <input type="checkbox" checked=${document.isFollowing} onChange=${(/** @type {any} */ event) => document.follow(event.target.checked)} />
          ${say.follow}
        </label>
      `}
    </p>
  `;
}
