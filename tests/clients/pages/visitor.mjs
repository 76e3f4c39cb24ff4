// Someone at the demo, in a browser profile of their own.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { complaintsOf } from "./browser.mjs";

/** Chromium itself tells of every answer with an error status; where a test wants one, it is no complaint. */
const REFUSALS = /the server responded with a status of 409/;

export class World {
  constructor(browser, url) {
    this.browser = browser;
    this.url = url;
  }

  /** Runs a story in a room of its own. No page may complain. */
  async story(tell, { refusals = false, ttl = 9, ...contextOptions } = {}) {
    const room = `demo-${randomUUID()}`;
    const visitors = [];
    const complaints = [];
    const open = async (name, options = {}) => {
      const context = await this.browser.newContext({ viewport: { width: 1400, height: 900 }, locale: "en", permissions: ["clipboard-read", "clipboard-write"], ...contextOptions, ...options });
      complaints.push(complaintsOf(context, { allowed: refusals ? [REFUSALS] : [] }));
      const visitor = new Visitor(context, await context.newPage(), name);
      visitors.push(visitor);
      await visitor.page.goto(`${this.url}/?room=${room}&ttl=${ttl}`);
      return name ? visitor.enter(name) : visitor;
    };
    try {
      await tell(open, room);
      assert.deepEqual(complaints.flat(), []);
    } finally {
      for (const { context } of visitors) await context.close();
    }
  }
}

export class Visitor {
  constructor(context, page, name) {
    Object.assign(this, { context, page, name });
    page.setDefaultTimeout(15_000);
  }

  /** Says their name and waits for the room. */
  async enter(name) {
    this.name = name;
    await this.page.fill("#name", name);
    await this.page.press("#name", "Enter");
    await this.until("free", "theirs", "otherTab");
    await this.page.waitForSelector("#text:not([aria-busy=true])");
    return this;
  }

  get banner() {
    return this.page.locator("doclock-banner");
  }

  /** Waits until the banner shows one of these states. */
  async until(...states) {
    const isThere = (states) => states.includes(document.querySelector("doclock-banner")?.state);
    await this.page.waitForFunction(isThere, states, { polling: 20 }).catch(async () => {
      throw new Error(`${this.name} is not ${states} but: ${await this.says()}`);
    });
    return this;
  }

  /** What the banner says. */
  says() {
    return this.page.evaluate(() => document.querySelector("doclock-banner")?.shadowRoot.querySelector(".text").textContent);
  }

  press(action) {
    return this.page.locator(`doclock-banner [data-action=${action}]`).click();
  }

  /** Types at the end of the text, with real keys. */
  async type(words) {
    await this.page.focus("#text");
    await this.page.keyboard.press("Control+End");
    await this.page.keyboard.type(words);
  }

  text() {
    return this.page.inputValue("#text");
  }

  isReadOnly() {
    return this.page.evaluate(() => document.querySelector("#text").readOnly);
  }

  /** Waits until the page says that what is in the editor is saved. */
  async saved() {
    await this.page.waitForSelector("output[data-save=saved]");
    return this.page.getAttribute("output", "data-version");
  }

  button(name) {
    return this.page.getByRole("button", { name });
  }

  /** Waits for the text to be this. */
  shows(text) {
    return this.page.waitForFunction((text) => document.querySelector("#text")?.value === text, text, { polling: 20 });
  }

  /** The back end's versions of a document, as it tells them to this person. */
  async history(room, document = "minutes") {
    const { token } = await this.session();
    const url = `/api/demo/documents/${room}/${document}?history=true`;
    const headers = { authorization: `Bearer ${token}` };
    const { items } = await this.page.evaluate(([url, headers]) => fetch(url, { headers }).then((answer) => answer.json()), [url, headers]);
    return items;
  }

  session() {
    return this.page.evaluate(() => JSON.parse(sessionStorage.getItem("doclock-demo.session")));
  }
}
