// Every example of llms.txt is run, and what it lists is what there is.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { examplesIn, runExample } from "./examples.mjs";

const text = await readFile(new URL("../../../static/client/llms.txt", import.meta.url), "utf8");
const types = await readFile(new URL("../../../static/client/doclock.d.ts", import.meta.url), "utf8");
const examples = examplesIn(text);

const OUTPUT = ["saved with 1 now idle", "v2", "connected [ 'Alice' ] 0", "tested"];

test("there is an output for every example", () => assert.equal(examples.length, OUTPUT.length));

for (const [index, expected] of OUTPUT.entries()) {
  test(`example ${index + 1} of llms.txt prints: ${expected}`, async () => {
    assert.equal((await runExample(examples[index])).trim(), expected);
  });
}

test("llms.txt names every state, reason and function of a handle", () => {
  const named = (type) => [...types.match(new RegExp(`type ${type} =([^;]*);`))[1].matchAll(/"([a-z_]+)"/g)].map(([, name]) => name);
  const handle = types.match(/interface LockHandle [^{]*\{([^]*?)\n\}/)[1];
  const functions = [...handle.matchAll(/^  (\w+)\(/gm)].map(([, name]) => name);
  const names = [...named("LockState"), ...named("LockReason"), ...functions];
  assert.ok(names.length > 20);
  for (const name of names) assert.match(text, new RegExp(`\\b${name}\\b`), name);
});
