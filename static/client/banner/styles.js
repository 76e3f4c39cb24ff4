// The banner's looks. A page changes them by the custom properties on :host, or by `::part()`.

const CSS = `
:host {
  --doclock-accent: light-dark(#0b63c5, #7db4f5);
  --doclock-on-accent: light-dark(#ffffff, #0b1a2b);
  --doclock-text: light-dark(#1d2430, #e6eaf0);
  --doclock-quiet: light-dark(#566070, #a3adbb);
  --doclock-calm: light-dark(#f1f3f6, #20262f);
  --doclock-mine: light-dark(#e7f1fd, #14283f);
  --doclock-warning: light-dark(#fff4d6, #3a2f12);
  --doclock-alarm: light-dark(#fde8e4, #43201b);
  --doclock-line: light-dark(#ccd3dc, #3a4350);
  --doclock-radius: 8px;
  display: block;
  color: var(--doclock-text);
  font: 15px/1.4 system-ui, sans-serif;
}
:host([hidden]) { display: none }
.banner {
  display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px;
  min-height: 36px; padding: 8px 12px;
  border: 1px solid var(--doclock-line); border-radius: var(--doclock-radius); background: var(--doclock-calm);
}
.banner[data-tone="asking"] { border-color: var(--doclock-accent); background: var(--doclock-mine); box-shadow: inset 4px 0 var(--doclock-accent) }
.banner[data-tone="mine"] { background: var(--doclock-mine) }
.banner[data-tone="warning"] { background: var(--doclock-warning) }
.banner[data-tone="alarm"] { background: var(--doclock-alarm) }
.ring { flex: none; width: 20px; height: 20px; transform: rotate(-90deg) }
.ring circle { fill: none; stroke: var(--doclock-line); stroke-width: 3 }
.ring .left { stroke: var(--doclock-accent); stroke-dasharray: 50.27; stroke-linecap: round }
[data-tone="warning"] .ring .left, [data-tone="alarm"] .ring .left { stroke: currentColor }
.words { flex: 1 1 220px; min-width: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums }
p { margin: 0 }
.text { font-weight: 600 }
.note { color: var(--doclock-quiet); font-size: 14px }
.note:empty { display: none }
.actions, form { display: flex; flex-wrap: wrap; align-items: center; gap: 8px }
.actions:empty { display: none }
form { flex: 1 1 100% }
button, input {
  box-sizing: border-box; min-height: 32px; padding: 4px 12px; border: 1px solid var(--doclock-line); border-radius: 6px;
  background: light-dark(#ffffff, #151a21); color: var(--doclock-text); font: inherit;
}
input { flex: 1 1 160px; min-width: 0; border-color: light-dark(#7a8594, #7a8594) }
input::placeholder { color: var(--doclock-quiet); opacity: 1 }
button { cursor: pointer; font-weight: 500 }
button:hover { border-color: var(--doclock-accent) }
button.first { border-color: var(--doclock-accent); background: var(--doclock-accent); color: var(--doclock-on-accent) }
button[aria-disabled="true"] {
  border-style: dashed; border-color: var(--doclock-line); background: none; color: var(--doclock-quiet); cursor: default;
}
:focus-visible { outline: 2px solid var(--doclock-accent); outline-offset: 2px }
kbd { margin-left: 4px; padding: 0 4px; font-weight: 400; border: 1px solid currentColor; border-radius: 4px; font: 12px/1.4 ui-monospace, monospace }
.aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
[hidden] { display: none }
@media (pointer: coarse) { kbd { display: none } button, input { min-height: 44px; padding: 8px 16px } }
@media (forced-colors: active) { .ring .left { stroke: Highlight } }
`;

/** @type {CSSStyleSheet | undefined} */
let sheet;

/** One for all banners of a page. A constructed one, which a Content-Security-Policy without inline styles allows. */
export function styles() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return sheet;
}
