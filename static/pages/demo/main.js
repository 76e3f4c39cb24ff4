import "/client/banner.js";
import { Network } from "./network.js";
import { Settings } from "./settings.js";
import { html, render } from "./preact.js";
import { App } from "./view/app.js";

const root = /** @type {HTMLElement} */ (document.querySelector("#app"));
root.replaceChildren();
render(html`<${App} settings=${new Settings()} network=${new Network()} />`, root);
