import { html, useState } from "../preact.js";

/** @typedef {import("../settings.js").Settings["say"]} Say */
/** @typedef {import("../demo.js").Demo} Demo */

/** @param {{say: Say, demo: Demo}} props */
export function Documents({ say, demo }) {
  const [wanted, setWanted] = useState("");
  const all = demo.documents;
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted.trim().toLowerCase()));

  function open(/** @type {Event} */ event) {
    event.preventDefault();
    const name = all.some(({ name }) => name === wanted.trim()) ? wanted.trim() : (found[0]?.name ?? wanted.trim());
    if (!name) return;
    demo.open(name);
    setWanted("");
  }

  return html`
    <nav class="documents" aria-labelledby="documents-title">
      <h2 id="documents-title">${say.documents}</h2>
      <form role="search" onSubmit=${open}>
        <input id="find" type="search" maxlength="60" autocomplete="off" aria-label=${say.find} placeholder=${say.find} aria-keyshortcuts="/"
          value=${wanted} onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
      </form>
      <ul>
        ${found.map(({ name, lock }) => html`<${Item} key=${name} say=${say} demo=${demo} name=${name} lock=${lock} />`)}
        ${found.length === 0 && html`<li class="quiet new">+ ${wanted}</li>`}
      </ul>
    </nav>
  `;
}

/** @param {{say: Say, demo: Demo, name: string, lock: import("/client/doclock.js").RoomLock | undefined}} props */
function Item({ say, demo, name, lock }) {
  const isOpen = demo.document?.name === name;
  const who = lock ? (lock.isYou ? say.you : (lock.holder.name ?? say.someone)) : say.nobody;
  return html`
    <li>
      <a href=${`#${encodeURIComponent(name)}`} aria-current=${isOpen ? "page" : undefined}>
        <span class="name">${name}</span>
        <span class=${lock ? (lock.isYou ? "who mine" : "who theirs") : "who"}>${who}</span>
      </a>
    </li>
  `;
}
