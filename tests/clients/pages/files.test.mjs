// The pages' files, without a browser.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile, readdir } from "node:fs/promises";
import { test } from "node:test";
import { diff } from "../../../static/pages/demo/diff.js";
import { en } from "../../../static/pages/demo/messages/en.js";
import { ja } from "../../../static/pages/demo/messages/ja.js";
import { STATIC } from "./files.mjs";

test("what is vendored is what its README says, with a licence", async () => {
  const folder = new URL("vendor/", STATIC);
  const readme = await readFile(new URL("README.md", folder), "utf8");
  const told = Object.fromEntries([...readme.matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm)].map(([, sum, name]) => [name, sum]));
  const names = (await readdir(folder)).filter((name) => /\.(js|css)$/.test(name));
  assert.deepEqual(names.sort(), Object.keys(told).sort());
  for (const name of names) {
    const bytes = await readFile(new URL(name, folder));
    assert.equal(createHash("sha256").update(bytes).digest("hex"), told[name], name);
    assert.match(readme, new RegExp(`^\\| \`${name}\` \\| \\S+ \\d+\\.\\d+\\.\\d+ \\|.*LICENSE-`, "m"), name);
    assert.doesNotMatch(bytes.toString(), /\beval\(|new Function\(/, name);
  }
});

test("no page has anything inline or from elsewhere", async () => {
  const pages = (await readdir(new URL("pages/", STATIC), { recursive: true })).filter((name) => name.endsWith(".html"));
  assert.ok(pages.length >= 2);
  for (const name of pages) {
    const html = await readFile(new URL(`pages/${name}`, STATIC), "utf8");
    assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc="\/)|(?:src|href)="(?!\/(?!\/)|#)/, name);
  }
});

test("the demo says the same things in both languages", () => {
  const shape = (value) =>
    Array.isArray(value) ? value.map(shape) : typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, shape(value[key])])) : typeof value;
  assert.deepEqual(shape(ja), shape(en));
});

test("a comparison shows what only one of the texts has", () => {
  const shown = (one, other) => diff(one, other).map(({ sign, line }) => sign + line);
  assert.deepEqual(shown("a\nb\nc", "a\nx\nc"), [" a", "-b", "+x", " c"]);
  assert.deepEqual(shown("a", "a\nb"), [" a", "+b"]);
  assert.deepEqual(shown("a\nb", "b"), ["-a", " b"]);
  assert.deepEqual(shown("same", "same"), [" same"]);
});
