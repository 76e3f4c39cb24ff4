// The adapters' types against the frameworks' own. CLIENT_MODULES is the folder whose node_modules has them.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const modules = resolve(process.env.CLIENT_MODULES);

test("react.js, vue.js and svelte.js are what their types say", async () => {
  // Inside of it, so that the frameworks are found the way a user's are.
  const folder = await mkdtemp(join(modules, "adapters-"));
  try {
    await cp(here("../../../static/client"), join(folder, "client"), { recursive: true });
    await cp(here("types/adapters.tsx"), join(folder, "adapters.tsx"));
    const compilerOptions = {
      ...{ allowJs: true, checkJs: true, strict: true, noEmit: true, noUnusedLocals: true, skipLibCheck: true, target: "es2022" },
      ...{ module: "nodenext", jsx: "react-jsx", lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"], types: [] },
    };
    const include = ["adapters.tsx", "client/react.js", "client/vue.js", "client/svelte.js"];
    await writeFile(join(folder, "package.json"), '{"type": "module"}');
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include }));
    const tsc = join(modules, "node_modules/.bin/tsc");
    const { stdout } = await promisify(execFile)(tsc, ["--project", folder]).catch((error) => error);
    assert.equal(stdout, "");
  } finally {
    await rm(folder, { recursive: true });
  }
});
