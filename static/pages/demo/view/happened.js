import { html, useTicks } from "../preact.js";

/** @param {{settings: import("../settings.js").Settings, demo: import("../demo.js").Demo}} props */
export function Happened({ settings, demo }) {
  useTicks(10_000);
  const { say, banner } = settings;
  const { list } = demo.happenings;
  const called = (/** @type {string | null} */ name) => (name === null ? say.someone : settings.language === "ja" ? `${name}さん` : name);
  return html`
    <section class="happened" aria-labelledby="happened-title">
      <h2 id="happened-title">${say.happenings}</h2>
      ${list.length === 0 && html`<p class="quiet">${say.nothingYet}</p>`}
      <ol tabindex="0" aria-labelledby="happened-title">
        ${list.map(
          (happening) => html`
            <li key=${happening.id}>
              <span>${say.happened(happening.ownerId === demo.session.ownerId ? say.yourself : called(happening.name), happening)}</span>
              <span class="quiet">
                ${happening.document && `${happening.document} · `}
                <time datetime=${new Date(happening.at).toISOString()} title=${banner.formats.time(happening.at)}>
                  ${banner.ago(Math.max(0, Date.now() - happening.at))}
                </time>
              </span>
            </li>
          `,
        )}
      </ol>
    </section>
  `;
}
