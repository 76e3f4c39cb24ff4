// Of docs/browser.md: what can be run without a server. The rest is run by guide.mjs.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import { examplesIn, runExample } from "./examples.mjs";

const guide = await readFile(new URL("../../../docs/browser.md", import.meta.url), "utf8");
const types = await readFile(new URL("../../../static/client/doclock.d.ts", import.meta.url), "utf8");

test("the example of an editor's tests passes", async () => {
  const stdout = await runExample(examplesIn(guide).at(-1));
  assert.match(stdout, /# pass 1\n/);
  assert.match(stdout, /# fail 0\n/);
});

// The claim and the conditional write, run by SQLite as they stand in the guide: Alice's lock (1) has expired, Bob has 2.
const STORY = `
import sqlite3, sys
claim, save = [block.split(";")[0] for block in sys.argv[1:3]]
read = sys.argv[1].split(";")[1]
db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE documents (id, body, fencing_token)")
db.execute("INSERT INTO documents VALUES ('minutes', 'first', 0)")
run = lambda sql, **values: db.execute(sql, {"id": "minutes", **values})
assert run(claim, token=1).rowcount == 1
if sys.argv[3] == "with": assert run(claim, token=2).rowcount == 1
seen_by_bob = run(read).fetchone()[0]
alice = run(save, token=1, body="alice's").rowcount
bob = run(save, token=2, body=seen_by_bob + " and bob's").rowcount
print(alice, bob, run(read).fetchone()[0])
`;

test("with the claim a late save is refused; without it, it is lost", async () => {
  const [claim] = examplesIn(guide, "sql claim");
  const [save] = examplesIn(guide, "sql save");
  const told = async (how) => (await promisify(execFile)("python3", ["-c", STORY, claim, save, how])).stdout.trim();
  assert.equal(await told("with"), "0 1 first and bob's");
  // Alice was told that she has saved, and what she saved is gone.
  assert.equal(await told("without"), "1 1 first and bob's");
});

test("the textarea takes at most 15 lines", () => {
  const lines = examplesIn(guide)[0].split("\n").filter((line) => line.trim() !== "");
  assert.ok(lines.length <= 15, `${lines.length}`);
});

test("the guide names every state, reason and field of a snapshot", () => {
  const named = (type) => [...types.match(new RegExp(`type ${type} =([^;]*);`))[1].matchAll(/"([a-z_]+)"/g)].map(([, name]) => name);
  const fields = [...types.match(/interface LockSnapshot \{([^]*?)\n\}/)[1].matchAll(/readonly (\w+):/g)].map(([, name]) => name);
  const first = [...guide.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, names]) => [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name));
  for (const name of [...named("LockReason"), ...fields]) assert.ok(first.includes(name), name);
  for (const name of [...named("LockState"), ...named("ConnectionState")]) assert.ok(guide.includes(`\`${name}\``), name);
});
