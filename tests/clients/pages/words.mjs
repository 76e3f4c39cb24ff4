// Never a lost word: two to five people write into one document, all at its end, while networks are cut, tabs closed and
// reloaded, and locks asked for, handed over, waited for and given up. Afterwards what the pages said is held against what
// the back end has. Locks last 3 s instead of 30, and so does everything else go ten times as fast.
//
//   node tests/clients/pages/words.mjs [seconds] [seed]

import assert from "node:assert/strict";
import { run } from "../doclock.mjs";
import { launch } from "./browser.mjs";
import { start } from "./server.mjs";
import { Visitor } from "./visitor.mjs";

const [seconds = 25, seed = Date.now() % 1_000_000] = process.argv.slice(2).map(Number);
const NAMES = ["Aiko", "Bob", "Carol", "Daniel", "Emi"];
const TTL_SECONDS = 3;

/** Numbers by chance, the same ones for the same seed (a linear congruential generator). */
function chanceOf(state) {
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Runs in each page: writes down every text that the page says is saved, when it says so. */
function watchSaves() {
  const told = [];
  window.told = told;
  const look = () => {
    const output = document.querySelector("output");
    const text = document.querySelector("#text");
    if (output?.dataset.save !== "saved" || !text) return;
    const { version } = output.dataset;
    if (told.at(-1)?.version !== version || told.at(-1)?.text !== text.value) {
      told.push({ version, text: text.value });
      window.saidSaved?.({ version, text: text.value });
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-save", "data-version"] });
}

/** Runs in the page: presses a button of the banner if it is there. */
function press(action) {
  const button = document.querySelector("doclock-banner")?.shadowRoot.querySelector(`[data-action=${action}]:not([aria-disabled])`);
  button?.click();
  return button !== null && button !== undefined;
}

/** Runs in the page: adds a word at the end if the page lets anyone type. */
function write(word) {
  const text = document.querySelector("#text");
  if (!text || text.readOnly) return false;
  text.value += word;
  text.dispatchEvent(new InputEvent("input", { bubbles: true, data: word, inputType: "insertText" }));
  return true;
}

class Writer {
  said = [];
  counts = { words: 0 };

  constructor(browser, url, name, chance) {
    Object.assign(this, { browser, url, name, chance });
  }

  async arrive() {
    this.context ??= await this.browser.newContext({ locale: "en" });
    const page = await this.context.newPage();
    await page.exposeFunction("saidSaved", (said) => this.said.push(said));
    await page.addInitScript(watchSaves);
    await page.goto(this.url);
    this.visitor = new Visitor(this.context, page, this.name);
    await this.visitor.enter(this.name);
    return this;
  }

  get page() {
    return this.visitor.page;
  }

  /** Does one thing by chance, of those that can be done now. */
  async act() {
    const luck = this.chance();
    const did = await this.#one(luck);
    this.counts[did] = (this.counts[did] ?? 0) + 1;
  }

  async #one(luck) {
    const state = await this.page.evaluate(() => document.querySelector("doclock-banner")?.state ?? "none");
    const isCut = await this.page.evaluate(() => document.querySelector('.tries button[aria-pressed="true"]') !== null);
    if (luck < (isCut ? 0.2 : 0.03)) return this.#cut();
    if (!isCut && luck < 0.05) return this.#reload();
    if (!isCut && luck < 0.07) return this.#close();
    if (state === "beingAsked") return this.#press(luck < 0.8 ? "grant" : "keep");
    if (state === "theirs") return this.#press(luck < 0.5 ? "wait" : "ask");
    if (state === "newer") return this.#press("load");
    if (state === "lost") return (await this.#press("again")) ?? (await this.#press("load")) ?? (await this.#press("ask")) ?? "nothing";
    if (state === "mine" && luck < 0.15) return this.#press("done");
    const word = ` ${this.name}${this.counts.words + 1}`;
    if (!(await this.page.evaluate(write, word))) return "nothing";
    return "words";
  }

  async #press(action) {
    if (!(await this.page.evaluate(press, action))) return undefined;
    // A note that may stay empty.
    if (action === "ask" || action === "keep") await this.page.evaluate(() => document.querySelector("doclock-banner").shadowRoot.querySelector("form").requestSubmit());
    return action;
  }

  async #cut() {
    const clicked = await this.page.evaluate(() => {
      const button = document.querySelector(".tries button");
      button?.click();
      return button?.getAttribute("aria-pressed") === "true" ? "restored" : "cut";
    });
    return clicked;
  }

  async #reload() {
    await this.page.reload();
    await this.page.waitForSelector("#text");
    return "reload";
  }

  async #close() {
    await this.page.close({ runBeforeUnload: true });
    await this.arrive();
    return "close";
  }

  /** Back on the network, with everything said. */
  async rest() {
    await this.page.evaluate(() => document.querySelector('.tries button[aria-pressed="true"]')?.click());
  }
}

/** What the pages said, and what the back end has, must be one story. */
function check(history, writers) {
  const versions = new Map(history.map((item) => [item.document_version, item]));
  let before = { text: "", fencing_token: 0 };
  for (const item of history) {
    assert.ok(item.fencing_token >= before.fencing_token, `${item.document_version} has an older token than the version before it`);
    assert.ok(item.text.startsWith(before.text), `${item.document_version} lost words of ${before.document_version}:\n${before.text}\n${item.text}`);
    before = item;
  }
  let said = 0;
  for (const writer of writers) {
    for (const { version, text } of writer.said) {
      if (version === "v0") continue;
      assert.equal(versions.get(version)?.text, text, `${writer.name} was told that ${version} is saved`);
      said += 1;
    }
  }
  return said;
}

const tests = [
  async function every_text_that_a_page_said_was_saved_is_in_the_history_in_order_of_tokens() {
    console.log(`seed ${seed}, ${seconds} s`);
    const chance = chanceOf(seed);
    // The first numbers of neighbouring seeds are alike.
    for (let skipped = 0; skipped < 10; skipped += 1) chance();
    const server = await start();
    const browser = await launch();
    try {
      const count = 2 + Math.floor(chance() * 4);
      const url = `${server.url}/?room=demo-words&ttl=${TTL_SECONDS}`;
      const writers = NAMES.slice(0, count).map((name) => new Writer(browser, url, name, chanceOf(Math.floor(chance() * 2 ** 32))));
      await Promise.all(writers.map((writer) => writer.arrive()));
      const until = Date.now() + seconds * 1000;
      await Promise.all(
        writers.map(async (writer) => {
          while (Date.now() < until) {
            await writer.act();
            // People do not act at every instant.
            await new Promise((resolve) => setTimeout(resolve, 10 + writer.chance() * 120));
          }
        }),
      );
      for (const writer of writers) await writer.rest();
      const history = await writers[0].visitor.history("demo-words");
      const said = check(history, writers);
      const counts = Object.fromEntries(Object.keys(Object.assign({}, ...writers.map((writer) => writer.counts))).map((key) => [key, writers.reduce((sum, writer) => sum + (writer.counts[key] ?? 0), 0)]));
      const tokens = history.at(-1)?.fencing_token ?? 0;
      console.log(`${count} people, ${history.length} versions under ${tokens} locks, ${said} times "saved"`, counts);
      // Too little happened to have shown anything.
      assert.ok(tokens >= 3 && said >= 6, `${tokens} locks, ${said} saves`);
    } finally {
      await browser.close();
      await server.stop();
    }
  },
];

await run(tests, seconds + 60);
