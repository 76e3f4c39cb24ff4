// Every example of the guide is run, and its tables name every event, code and reason that there is.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const here = (path) => new URL(path, import.meta.url);
const guide = await readFile(here("../../../docs/project-lock.md"), "utf8");
const types = await readFile(here("../../../static/client/project-lock.d.ts"), "utf8");
const examples = [...guide.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);

/** Runs an example as a page would, with a browser made of doubles. */
async function runExample(code) {
  const folder = await mkdtemp(join(tmpdir(), "guide-"));
  try {
    const file = join(folder, "example.mjs");
    await writeFile(file, code.replaceAll('"/client/', `"${here("../../../static/client/")}`));
    // An example with tests of its own must not take itself for a part of these.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    return await run(process.execPath, ["--import", here("page.mjs").href, file], { env, timeout: 20_000 });
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("the guide has examples", () => assert.equal(examples.length, 4));

test("the first example saves under the lock", async () => {
  const { stdout } = await runExample(`${examples[0]}\nconsole.log(JSON.stringify(await page.files()));`);
  assert.deepEqual(JSON.parse(stdout), { "draft.txt": "what was typed" });
  assert.ok(examples[0].trim().split("\n").length <= 20);
});

test("the example by hand tells the events of one lease", async () => {
  const { stdout } = await runExample(examples[1]);
  const lines = stdout.trim().split("\n");
  assert.deepEqual([lines[1], lines.at(-1)], ["lock:acquired acquired", "lock:released released"]);
  assert.match(lines[3], /^held until \d{4}-/);
});

test("the example of telemetry counts", async () => {
  const { stdout } = await runExample(examples[2]);
  assert.equal(stdout.trim(), "{ granted: 1, readonly: 0 }");
});

test("the example of an editor's tests passes", async () => {
  const { stdout } = await runExample(examples[3]);
  assert.match(stdout, /# pass 2\n/);
  assert.match(stdout, /# fail 0\n/);
});

test("the tables name all that the types name", () => {
  const named = (type) => [...types.match(new RegExp(`type ${type} =([^;]*);`))[1].matchAll(/"([a-z-]+)"/g)].map(([, name]) => name);
  const events = [...types.matchAll(/type: "(lock:[a-z-]+)"/g)].map(([, name]) => name);
  const aliases = [...types.matchAll(/alias\?: ([^;]*)/g)].flatMap(([, names]) => [...names.matchAll(/"([a-z-]+)"/g)].map(([, name]) => name));
  const first = [...guide.matchAll(/^\| `([a-z:-]+)`/gm)].map(([, name]) => name);
  const expected = new Set([...events, ...named("ProjectLockErrorCode"), ...named("ProjectLockReadonlyReason")]);
  for (const name of expected) assert.ok(first.includes(name), name);
  for (const name of aliases) assert.ok(guide.includes(`\`${name}\``), name);
  assert.deepEqual([expected.size > 20, aliases.length], [true, 8]);
});
