// What a page has to load. CLIENT_MODULES is the folder whose node_modules has esbuild.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { foreign } from "../doclock.mjs";

const esbuild = foreign("esbuild");

const CLIENT = new URL("../../../static/client/", import.meta.url);

/** A module and all it imports, also the parts that are loaded only when they are needed. */
async function modules(entry, found = new Map(), isPart = () => true) {
  if (found.has(entry.href)) return found;
  const code = await readFile(entry, "utf8");
  found.set(entry.href, code);
  for (const [, name] of code.matchAll(/^(?:import|export) [^;]*?from "(\.[^"]+)";/gms)) await modules(new URL(name, entry), found, isPart);
  for (const [, name] of code.matchAll(/import\("(\.[^"]+)"\);/g)) {
    if (isPart(name)) found.set(new URL(name, entry).href, await readFile(new URL(name, entry), "utf8"));
  }
  return found;
}

/** Comments only: no name is shortened, no space taken out but those of empty lines. */
export const stripped = (code) =>
  code
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/^\s*\/\/.*$/gm, "")
    .replace(/\n\s*\n+/g, "\n");

test("doclock.js with all its parts is under 12 KB, minified and gzipped, and under 16 KB with comments stripped alone", async () => {
  const entry = fileURLToPath(new URL("doclock.js", CLIENT));
  // What is loaded only with `offline: "local"` is not counted here: it brings project-lock.js, which is as large again.
  const options = { entryPoints: [entry], bundle: true, write: false, format: "esm", target: "es2022", external: ["*/local.js"] };
  const minified = gzipSync((await esbuild.build({ ...options, minify: true })).outputFiles[0].contents, { level: 9 }).length;
  const found = await modules(new URL("doclock.js", CLIENT));
  const text = [...found.values()].map(stripped).join("\n");
  // What is measured still is the program.
  assert.ok(found.size > 12 && text.includes("createDocLock") && text.includes("holdLocally") && text.includes("class Stopwatch"));
  const size = gzipSync(text, { level: 9 }).length;
  console.log(`doclock.js: ${found.size} modules, ${size} bytes gzipped without comments, ${minified} minified`);
  assert.ok(minified < 12 * 1024, `${minified}`);
  assert.ok(size < 16 * 1024, `${size}`);
});

test("each adapter is at most 40 lines", async () => {
  for (const name of ["react.js", "vue.js", "svelte.js"]) {
    const lines = (await readFile(new URL(name, CLIENT), "utf8")).trimEnd().split("\n").length;
    assert.ok(lines <= 40, `${name}: ${lines}`);
  }
});

test("nothing is imported from outside but the framework of an adapter", async () => {
  for (const [entry, allowed] of Object.entries({ "doclock.js": [], "react.js": ["react"], "vue.js": ["vue"], "svelte.js": ["svelte", "svelte/store"] })) {
    for (const [href, code] of await modules(new URL(entry, CLIENT))) {
      const outside = [...code.matchAll(/^(?:import|export) [^;]*?from "([^."][^"]*)";/gms)].map(([, name]) => name);
      assert.deepEqual(outside.filter((name) => !allowed.includes(name)), [], href);
    }
  }
});
