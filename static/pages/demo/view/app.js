import { Demo } from "../demo.js";
import { html, useEffect, useState, useWatch } from "../preact.js";
import { sessionOf } from "../session.js";
import { Documents } from "./documents.js";
import { Editor } from "./editor.js";
import { Happened } from "./happened.js";
import { Header } from "./header.js";
import { Keys } from "./keys.js";
import { People } from "./people.js";
import { Tries } from "./tries.js";
import { UnderTheHood } from "./under_the_hood.js";
import { Vanished } from "./vanished.js";
import { Welcome } from "./welcome.js";

/** @param {{settings: import("../settings.js").Settings, network: import("../network.js").Network}} props */
export function App({ settings, network }) {
  useWatch(settings);
  const [session, setSession] = useState(() => sessionOf(sessionStorage, location));
  if (!session) return html`<${Welcome} settings=${settings} network=${network} onSession=${setSession} />`;
  return html`<${Room} settings=${settings} network=${network} session=${session} />`;
}

/** @param {{settings: import("../settings.js").Settings, network: import("../network.js").Network, session: import("../session.js").DemoSession}} props */
function Room({ settings, network, session }) {
  const [demo] = useState(() => new Demo(session, network));
  useEffect(() => demo.start(), [demo]);
  useWatch(demo);
  const { say } = settings;
  if (demo.hasVanished) return html`<${Vanished} say=${say} demo=${demo} />`;
  if (demo.client.connection.getSnapshot().state === "disconnected") return html`<${Ended} say=${say} demo=${demo} />`;
  return html`
    <${Header} settings=${settings} demo=${demo} />
    <main class="room">
      <${Documents} say=${say} demo=${demo} />
      <div class="middle">
        ${demo.document && html`<${Editor} key=${demo.document.name} settings=${settings} demo=${demo} document=${demo.document} />`}
        <${Tries} say=${say} demo=${demo} />
      </div>
      <div class="side">
        <${People} say=${say} demo=${demo} />
        <${Happened} settings=${settings} demo=${demo} />
      </div>
      <${UnderTheHood} settings=${settings} network=${network} />
    </main>
    <${Keys} say=${say} />
  `;
}

/** @param {{say: import("../settings.js").Settings["say"], demo: Demo}} props */
function Ended({ say, demo }) {
  return html`
    <main class="card">
      <h1>${say.ended}</h1>
      <p>${demo.client.connection.getSnapshot().error?.message}</p>
      <button class="main" onClick=${() => demo.leave()}>${say.joinAgain}</button>
    </main>
  `;
}
