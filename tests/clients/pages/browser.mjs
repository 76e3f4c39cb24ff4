// What the tests of the pages share: Chromium, its complaints, and axe.
//
// CHROMIUM is the browser's program, CLIENT_MODULES the folder whose node_modules has playwright-core and axe-core.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { foreign } from "../doclock.mjs";
import { CSP, STATIC, TYPES } from "./files.mjs";

const { chromium } = foreign("playwright-core");
const AXE = await readFile(foreign.resolve("axe-core/axe.min.js"), "utf8");

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [...(process.getuid() === 0 ? ["--no-sandbox"] : []), "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"],
  });
}

/** Answers from static/ without any server, under the Content-Security-Policy that the server sends; "/" is `home`. */
export async function serveStatic(context, home) {
  await context.route("https://pages.example/**", async (route) => {
    const { pathname } = new URL(route.request().url());
    const headers = (path) => ({ "content-type": TYPES[extname(path)] ?? "text/plain", "content-security-policy": CSP });
    if (pathname === "/") return route.fulfill({ headers: headers("/index.html"), body: home });
    try {
      return await route.fulfill({ headers: headers(pathname), body: await readFile(new URL(`.${pathname}`, STATIC)) });
    } catch {
      return route.fulfill({ status: 404 });
    }
  });
}

/** Collects what pages of the context complain about: errors, warnings, violations of the Content-Security-Policy. */
export function complaintsOf(context, { allowed = [] } = {}) {
  const complaints = [];
  const add = (text) => allowed.some((pattern) => pattern.test(text)) || complaints.push(text);
  context.on("console", (message) => ["error", "warning"].includes(message.type()) && add(message.text()));
  context.on("weberror", (error) => add(String(error.error().stack)));
  return complaints;
}

/** Fails on anything that axe finds serious or critical in the page as it is now. */
export async function accessible(page, where) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, nodes }) => `${where}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`);
  assert.deepEqual(told, []);
}

/** The same tests, a few of them at a time: they share nothing, and mostly wait. */
export function sideBySide(tests, atOnce = 3) {
  const waiting = [];
  let free = atOnce;
  const turn = () => (free > 0 ? void (free -= 1) : new Promise((resolve) => waiting.push(resolve)));
  const over = () => (waiting.length > 0 ? waiting.shift()() : (free += 1));
  return tests.map((test) => {
    const result = Promise.resolve(turn()).then(test).finally(over);
    // Whoever runs it hears of its failure, maybe later than it fails.
    result.catch(() => {});
    return Object.defineProperty(() => result, "name", { value: test.name });
  });
}
