// The npm package: what is in it, and that its names lead somewhere.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";

const run = promisify(execFile);
const CLIENT = new URL("../../../static/client/", import.meta.url);
const manifest = JSON.parse(await readFile(new URL("package.json", CLIENT), "utf8"));

test("npm pack gives a package that has what it exports, with types, and imports by its names", async () => {
  const folder = await mkdtemp(join(tmpdir(), "package-"));
  try {
    const packed = ["pack", "--json", "--silent", "--pack-destination", folder];
    const [{ filename, files }] = JSON.parse((await run("npm", packed, { cwd: fileURLToPath(CLIENT) })).stdout);
    const names = files.map(({ path }) => path);
    for (const { types, default: code } of Object.values(manifest.exports)) {
      assert.ok(names.includes(types.slice(2)) && names.includes(code.slice(2)), code);
    }
    assert.ok(names.includes("llms.txt"));
    await run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--offline", "--omit=peer", "--prefix", folder, join(folder, filename)]);
    const code = `
      import { createDocLock } from "doclock";
      import { createFakeServer } from "doclock/testing";
      import { createProjectLocks } from "doclock/project-lock";
      const server = createFakeServer();
      const { fencingToken } = await createDocLock({ token: server.token("alice"), ...server.openTab().options }).lock("minutes").acquire();
      console.log(fencingToken, typeof createProjectLocks);`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", code], { cwd: folder });
    assert.equal(stdout.trim(), "1 function");
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("the package has the version of the server", async () => {
  const cargo = await readFile(new URL("../../../Cargo.toml", import.meta.url), "utf8");
  assert.equal(manifest.version, cargo.match(/^version = "(.+)"/m)[1]);
});

test("every module has its types beside it", async () => {
  const names = await readdir(CLIENT);
  for (const name of names.filter((name) => name.endsWith(".js"))) assert.ok(names.includes(name.replace(/\.js$/, ".d.ts")), name);
});
