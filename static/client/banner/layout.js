// What the banner is made of. Built node by node, not from HTML: nothing that a person wrote is ever read as markup.

import { styles } from "./styles.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string>} [attributes]
 * @param {Element[]} [children]
 */
function element(tag, attributes = {}, children = []) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function ringOf() {
  const ring = document.createElementNS(SVG, "svg");
  const set = (/** @type {Element} */ node, /** @type {Record<string, string>} */ values) =>
    Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  set(ring, { class: "ring", part: "ring", viewBox: "0 0 20 20", "aria-hidden": "true" });
  for (const name of ["whole", "left"]) {
    const circle = document.createElementNS(SVG, "circle");
    set(circle, { class: name, cx: "10", cy: "10", r: "8" });
    ring.append(circle);
  }
  return ring;
}

/** @param {ShadowRoot} root */
export function layOut(root) {
  root.adoptedStyleSheets = [styles()];
  const ring = ringOf();
  const text = element("span", { class: "text", part: "text" });
  const key = element("kbd", { hidden: "", part: "key" });
  key.textContent = "F6";
  const gap = document.createTextNode(" ");
  const line = element("p");
  line.append(text, gap, key);
  const note = element("p", { class: "note", part: "note" });
  const actions = element("div", { class: "actions", part: "actions" });
  const input = element("input", { part: "input", maxlength: "200", autocomplete: "off" });
  const send = element("button", { type: "submit", part: "button send" });
  const form = element("form", { part: "form", hidden: "" }, [input, send]);
  const words = element("div", { class: "words" }, [line, note]);
  const banner = element("div", { class: "banner", part: "banner", role: "group" }, [ring, words, actions, form]);
  const polite = element("div", { class: "aloud", role: "status", "aria-live": "polite" });
  const assertive = element("div", { class: "aloud", role: "alert", "aria-live": "assertive" });
  root.append(banner, polite, assertive);
  return { banner, ring, text, key, note, actions, form, input, send, aloud: { polite, assertive } };
}
