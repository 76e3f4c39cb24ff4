// react.js, vue.js and svelte.js, each in a real page in Chromium against a real server.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { foreign, run } from "../doclock.mjs";
import { World, token } from "./world.mjs";

const esbuild = foreign("esbuild");
const { compile } = foreign("svelte/compiler");

const world = await new World().start();
const { server } = world;

const svelte = {
  name: "svelte",
  setup: (build) =>
    build.onLoad({ filter: /\.svelte$/ }, async ({ path }) => ({
      contents: compile(await readFile(path, "utf8"), { filename: path, generate: "client" }).js.code,
    })),
};

/** The page of an adapter, as a bundler makes it. */
async function bundle(entry) {
  const { outputFiles } = await esbuild.build({
    entryPoints: [fileURLToPath(new URL(`adapters/${entry}`, import.meta.url))],
    nodePaths: [join(resolve(process.env.CLIENT_MODULES), "node_modules")],
    plugins: [svelte],
    conditions: ["browser"],
    define: { "process.env.NODE_ENV": '"development"', __VUE_OPTIONS_API__: "true", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
    jsx: "automatic",
    bundle: true,
    write: false,
    format: "esm",
    logLevel: "error",
  });
  return outputFiles[0].text;
}

/** Two people at the adapter's page, as people use it: by its buttons. */
async function editors(entry, tell, settings = {}) {
  const script = `/${entry}.bundle.js`;
  world.site.pages.set(script, { type: "text/javascript", text: await bundle(entry) });
  world.site.pages.set("/adapter", {
    type: "text/html",
    text: `<!doctype html><link rel=icon href=data:,><main></main><script type=module src="${script}"></script>`,
  });
  await world.story(async (open, room) => {
    const people = [];
    for (const name of ["alice", "bob"]) {
      const { page, network } = await open(name);
      await page.addInitScript((settings) => (window.settings = settings), { url: network.url, token: token(name), room, ...settings });
      await page.goto(`${world.site.url}adapter`);
      const shows = (text) => page.waitForFunction((text) => document.querySelector("[role=status]")?.textContent === text, text, { polling: 20 });
      people.push({ page, shows, click: (label) => page.getByRole("button", { name: label }).click() });
    }
    await tell(...people, room);
  });
}

/** What every adapter must do. */
async function useIt(entry) {
  await editors(entry, async (alice, bob, room) => {
    await alice.shows("idle nobody 2");
    assert.deepEqual(await server.events(room), []);
    await alice.click("Edit");
    await alice.shows("held alice 2");
    await bob.shows("idle alice 2");
    await alice.page.locator("textarea").pressSequentially("hello");
    assert.equal(await alice.page.inputValue("textarea"), "hello");
    assert.equal(await bob.page.locator("textarea").isEditable(), false);
    await bob.click("Edit");
    await alice.click("Done");
    await bob.shows("idle nobody 2");
    await bob.click("Edit");
    await alice.shows("idle bob 2");
    const [, , { lease_id }] = await server.events(room);
    await server.call("DELETE", `/api/admin/locks/${lease_id}?reason=test`);
    await bob.shows("readonly nobody 2");
    assert.match(await bob.page.evaluate(() => window.readonly), /^revoked/);
  });
}

await run([
  async function react_in_a_real_page() {
    await useIt("react.jsx");
  },

  async function vue_in_a_real_page() {
    await useIt("vue.js");
  },

  async function svelte_in_a_real_page() {
    await useIt("svelte.js");
  },

  async function react_s_strict_mode_ends_up_with_the_lock_and_the_newest_callbacks() {
    await editors(
      "react.jsx",
      async (alice, bob, room) => {
        await alice.shows("held alice 2");
        await alice.page.locator("textarea").pressSequentially("hello");
        const before = await alice.page.evaluate(() => window.renders);
        const events = await server.events(room);
        await server.call("DELETE", `/api/admin/locks/${events.at(-1).lease_id}?reason=test`);
        await alice.shows("readonly nobody 2");
        assert.equal(await alice.page.evaluate(() => window.readonly), "revoked after 5 letters");
        // Each change of state draws it once or twice (StrictMode draws twice), not over and over.
        assert.ok((await alice.page.evaluate(() => window.renders)) - before <= 6);
      },
      { acquireAtMount: true },
    );
  },
]);

await world.end();
process.exit();
