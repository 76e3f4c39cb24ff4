// The examples of docs/browser.md that need a page or a server, run as they stand there.
//
// PYTHON is a Python that has PyJWT. Of the examples only addresses are replaced.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { foreign, run } from "../doclock.mjs";
import { examplesIn } from "./examples.mjs";
import { SECRET, World } from "./world.mjs";

const esbuild = foreign("esbuild");
const execute = promisify(execFile);
const guide = await readFile(new URL("../../../docs/browser.md", import.meta.url), "utf8");

const world = await new World().start();
const { server, site } = world;

/** What the guide asks of a back end: tokens, the claim before the read, and the condition of the write. */
class BackEnd {
  body = "first";
  fencingToken = 0;
  refused = 0;

  answer(method, path, query, body) {
    const given = Number(query.get("token"));
    if (given < this.fencingToken) return (this.refused += 1), { status: 409, text: "STALE_TOKEN" };
    this.fencingToken = given;
    if (method === "PUT") this.body = body;
    return { status: 200, text: method === "PUT" ? `v${body.length}` : this.body };
  }
}

/** A page with the example as its script; everyone who opens it is who `name` says. */
async function openExample(person, { html, code, room, name }) {
  const script = code.replace("https://locks.example", person.network.url).replaceAll('"minutes"', `"${room}"`).replaceAll("/doclock-token", `/token?claims=${encodeURIComponent(JSON.stringify({ sub: name, name }))}`);
  site.pages.set(`/${name}.js`, { type: "text/javascript", text: script });
  site.pages.set(`/${name}.html`, { type: "text/html", text: `<!doctype html><link rel=icon href=data:,>${html}<script type=module src="/${name}.js"></script>` });
  await person.page.goto(`${site.url}${name}.html`);
}

async function bundle(code, loader = "js") {
  const client = fileURLToPath(new URL("../../../static/client/", import.meta.url));
  const { outputFiles } = await esbuild.build({
    stdin: { contents: code.replaceAll('"/client/', `"${client}`).replaceAll(/"doclock\/(\w+)"/g, `"${client}$1.js"`), loader, resolveDir: client },
    nodePaths: [join(resolve(process.env.CLIENT_MODULES), "node_modules")],
    define: { "process.env.NODE_ENV": '"production"' },
    ...{ bundle: true, write: false, format: "esm", jsx: "automatic", logLevel: "error" },
  });
  return outputFiles[0].text;
}

const shows = (page, text) => page.waitForFunction((text) => document.querySelector("[role=status]").textContent.startsWith(text), text, { polling: 20 });

/** Lets the story know what the page knows. */
const SEE = "lock.subscribe(() => (window.holderSeen = lock.getSnapshot().holder?.ownerId));";

/** An editor of others: read-only for both, then typed into by the one who has the lock, then read-only again. */
async function followsTheLock(code, field) {
  await world.story(async (open, room) => {
    const [alice, bob] = [await open("alice"), await open("bob")];
    for (const person of [alice, bob]) {
      await openExample(person, { html: "<main></main><button>Edit</button>", code, room, name: person.name });
    }
    const type = async ({ page }, text) => {
      await page.click(field);
      await page.keyboard.type(text);
      return page.textContent(field);
    };
    assert.doesNotMatch(await type(alice, "before"), /before/);
    await alice.page.getByRole("button").click();
    await alice.page.waitForFunction(() => document.activeElement !== document.body && document.activeElement.tagName !== "BUTTON");
    assert.match(await type(alice, "mine"), /mine/);
    assert.doesNotMatch(await type(bob, "his"), /his/);
    const [{ lease_id }] = await server.events(room);
    await server.call("DELETE", `/api/admin/locks/${lease_id}?reason=test`);
    await server.call("POST", `/api/documents/${room}/lock`, { as: "carol", role: "editor" });
    // The lock that followed is told after the end of hers: whoever knows of it knows of both.
    await alice.page.waitForFunction(() => window.holderSeen === "carol");
    assert.doesNotMatch(await type(alice, "late"), /late/);
  });
}

await run([
  async function the_textarea_is_written_by_one_person_at_a_time_and_loses_no_save() {
    const [html] = examplesIn(guide, "html");
    const [code] = examplesIn(guide);
    const backEnd = new BackEnd();
    site.backEnd = (...call) => backEnd.answer(...call);
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await openExample(person, { html, code, room, name: person.name });
      await shows(alice.page, "Nobody is editing");
      await alice.page.focus("textarea");
      await alice.page.keyboard.press("End");
      await shows(alice.page, "You are editing");
      await alice.page.waitForFunction(() => !document.querySelector("textarea").readOnly);
      await alice.page.keyboard.press("End");
      await alice.page.keyboard.type(", second");
      await shows(bob.page, "alice is editing");
      await bob.page.focus("textarea");
      await bob.page.keyboard.type("x");
      await until(() => backEnd.body === "first, second");
      // A heartbeat that is on its way when the page goes would keep its lock for another ttl.
      await alice.page.evaluate(() => document.querySelector("textarea").saving);
      assert.equal(await bob.page.inputValue("textarea"), "");
      await alice.page.close({ runBeforeUnload: true });
      await shows(bob.page, "Nobody is editing");
      await bob.page.keyboard.press("End");
      await bob.page.waitForFunction(() => document.querySelector("textarea").value === "first, second");
      await bob.page.keyboard.type("!");
      await until(() => backEnd.fencingToken === 2 && backEnd.body.includes("!"));
      const [, , { lease_id }] = await server.events(room);
      await server.call("DELETE", `/api/admin/locks/${lease_id}?reason=test`);
      await shows(bob.page, "Read-only: revoked");
      assert.equal(await bob.page.locator("textarea").isEditable(), false);
      assert.equal((await server.events(room)).length, 4);
      assert.equal(backEnd.refused, 0);
    });
  },

  async function tiptap_follows_the_lock() {
    await followsTheLock(await bundle(examplesIn(guide, "js tiptap")[0] + SEE), ".ProseMirror");
  },

  async function codemirror_follows_the_lock() {
    await followsTheLock(await bundle(examplesIn(guide, "js codemirror")[0] + SEE), ".cm-content");
  },

  async function the_editor_in_react_follows_the_lock() {
    const start = `
      import { createRoot } from "react-dom/client";
      import { createDocLock } from "/client/doclock.js";
      const client = createDocLock({ url: "https://locks.example", getToken: async () => (await fetch("/doclock-token")).text() });
      createRoot(document.querySelector("main")).render(<Page client={client} />);`;
    const code = await bundle(examplesIn(guide, "jsx")[0] + start, "jsx");
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await openExample(person, { html: "<main></main>", code, room, name: person.name });
      await shows(alice.page, "Nobody is editing, 2 here");
      await alice.page.focus("textarea");
      await alice.page.keyboard.press("End");
      await shows(alice.page, "You are editing");
      await alice.page.keyboard.type("mine");
      assert.equal(await alice.page.inputValue("textarea"), "mine");
      await shows(bob.page, "alice is editing");
      await alice.page.getByRole("button").click();
      await shows(bob.page, "Nobody is editing");
    });
  },

  async function tokens_made_in_python_php_and_node_are_good() {
    const env = { ...process.env, DOCLOCK_SECRET: SECRET };
    const [python] = examplesIn(guide, "python");
    const [php] = examplesIn(guide, "php");
    const [node] = examplesIn(guide, "js node");
    const made = {
      python: await execute(process.env.PYTHON, ["-c", `${python}\nprint(doclock_token("alice", "Alice é"))`], { env }),
      php: await execute("php", ["-r", `${php.replace("<?php", "")} echo doclock_token("alice", "Alice é");`], { env }),
      node: await execute(process.execPath, ["--input-type=module", "-e", `${node.replace("export ", "")} console.log(doclockToken("alice", "Alice é"));`], { env }),
    };
    for (const [language, { stdout }] of Object.entries(made)) {
      const headers = { authorization: `Bearer ${stdout.trim()}` };
      const lock = (room) => fetch(`${server.url}/api/documents/${room}/lock`, { method: "POST", headers });
      const answer = await lock(`team-7-${language}`);
      assert.equal(answer.status, 200, language);
      assert.equal((await answer.json()).holder.name, "Alice é");
      assert.equal((await lock("other")).status, 403, language);
    }
  },
]);

/** Waits for a cause outside of the pages. */
async function until(isTrue) {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 20));
}

await world.end();
process.exit();
