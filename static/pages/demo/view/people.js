import { html } from "../preact.js";

/** @param {{say: import("../settings.js").Settings["say"], demo: import("../demo.js").Demo}} props */
export function People({ say, demo }) {
  const { participants, locks, isLive, connection } = demo.people.getSnapshot();
  const isOffline = demo.network.isCut || connection === "reconnecting";
  const people = [...participants].sort((one, other) => Number(other.isYou) - Number(one.isYou));
  return html`
    <section aria-labelledby="people-title">
      <h2 id="people-title">${say.people}</h2>
      <p class=${isOffline ? "connection away" : "connection"}>
        ${demo.network.isCut ? say.offline : connection === "connected" ? say.online : connection === "reconnecting" ? say.reconnecting : say.connecting}
      </p>
      <ul class="people">
        ${people.map(({ ownerId, name, isYou }) => {
          const at = locks.filter((lock) => lock.holder.ownerId === ownerId).map(({ document }) => document);
          return html`
            <li key=${ownerId}>
              <span class="face" aria-hidden="true">${[...(name ?? "?")][0]}</span>
              <span class="name">${isYou ? say.youAre(name ?? "") : (name ?? say.someone)}</span>
              ${at.length > 0 && html`<span class="who">${at.join(", ")}</span>`}
            </li>
          `;
        })}
      </ul>
      ${isLive && participants.length < 2 && html`<p class="quiet">${say.alone}</p>`}
      <button class="plain" onClick=${() => demo.leave()}>${say.leave}</button>
    </section>
  `;
}
