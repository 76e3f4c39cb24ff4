// Runs examples of the docs as a page would, each in a Node of its own, before the server in memory.

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const here = (path) => new URL(path, import.meta.url);

export const examplesIn = (guide, language = "js") =>
  [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, code]) => code);

export async function runExample(code) {
  const folder = await mkdtemp(join(tmpdir(), "example-"));
  const client = here("../../../static/client/").href;
  try {
    const file = join(folder, "example.mjs");
    await writeFile(
      file,
      code
        .replaceAll('from "doclock"', `from "${client}doclock.js"`)
        .replaceAll(/from "doclock\/(\w+)"/g, `from "${client}$1.js"`)
        .replaceAll('"/client/', `"${client}`),
    );
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    return (await run(process.execPath, ["--import", here("example_page.mjs").href, file], { env, timeout: 20_000 })).stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}
