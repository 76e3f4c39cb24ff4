// What browsers do, as checks that run on the doubles in Node and on the real thing in Chromium. Each returns plain data;
// `expected` is what it must be. They use nothing from outside themselves, because they are sent to the page as text.

/** Each gets `navigator.locks`. */
export const webLocksBehaviour = {
  "a lock is held until the callback's promise settles": expecting(["granted", "freed", "next"], async (locks) => {
    const log = [];
    let free;
    const first = locks.request("a", () => new Promise((resolve) => (free = () => resolve(log.push("freed")))));
    const second = locks.request("a", () => log.push("next"));
    for (let turn = 0; !free && turn < 100; turn += 1) await new Promise((resolve) => setTimeout(resolve));
    log.push("granted");
    free();
    await first;
    await second;
    return log;
  }),

  "a request gives what its callback gives, or fails as it fails": expecting([42, "mine", "free"], async (locks) => [
    await locks.request("b", async () => 42),
    await locks.request("b", () => Promise.reject(new Error("mine"))).catch(({ message }) => message),
    await locks.request("b", { ifAvailable: true }, (lock) => (lock ? "free" : "held")),
  ]),

  "ifAvailable gives null while someone has it": expecting([null, "exclusive"], async (locks) =>
    locks.request("c", async (lock) => [await locks.request("c", { ifAvailable: true }, (second) => second), lock.mode]),
  ),

  "shared locks are shared, and exclude an exclusive one": expecting(["shared", null], async (locks) =>
    locks.request("d", { mode: "shared" }, async () => [
      await locks.request("d", { mode: "shared" }, ({ mode }) => mode),
      await locks.request("d", { ifAvailable: true }, (lock) => lock),
    ]),
  ),

  "nobody overtakes who asked earlier": expecting(["shared", "exclusive", "late shared"], async (locks) => {
    const log = [];
    let free;
    const isHeld = new Promise((resolve) => {
      locks.request("e", { mode: "shared" }, () => {
        resolve();
        return new Promise((letGo) => (free = letGo));
      });
    });
    await isHeld;
    log.push("shared");
    const exclusive = locks.request("e", () => log.push("exclusive"));
    const late = locks.request("e", { mode: "shared" }, () => log.push("late shared"));
    free();
    await Promise.all([exclusive, late]);
    return log;
  }),

  "a signal takes a waiting request out of the line": expecting(["left", "AbortError", "free"], async (locks) =>
    locks.request("f", async () => {
      const abort = new AbortController();
      const waiting = locks.request("f", { signal: abort.signal }, () => "granted").catch((reason) => reason);
      abort.abort("left");
      const early = await locks.request("f", { signal: AbortSignal.abort() }, () => {}).catch(({ name }) => name);
      return [await waiting, early];
    }).then(async (both) => [...both, await locks.request("f", { ifAvailable: true }, (lock) => lock && "free")]),
  ),

  "steal takes the lock away, and its request fails": expecting(["stolen", "AbortError"], async (locks) => {
    let isHeld;
    const granted = new Promise((resolve) => (isHeld = resolve));
    const first = locks
      .request("g", () => {
        isHeld();
        return new Promise(() => {});
      })
      .catch(({ name }) => name);
    await granted;
    return [await locks.request("g", { steal: true }, () => "stolen"), await first];
  }),

  "wrong combinations are refused": expecting(
    ["NotSupportedError", "NotSupportedError", "NotSupportedError", "NotSupportedError", "TypeError", "TypeError"],
    async (locks) => {
      const { signal } = new AbortController();
      const name = (request) => request.then(() => "granted", (error) => error.name);
      return [
        await name(locks.request("-a", () => {})),
        await name(locks.request("h", { ifAvailable: true, signal }, () => {})),
        await name(locks.request("h", { ifAvailable: true, steal: true }, () => {})),
        await name(locks.request("h", { steal: true, mode: "shared" }, () => {})),
        await name(locks.request("h", { mode: "none" }, () => {})),
        await name(locks.request("h")),
      ];
    },
  ),

  "query tells who holds and who waits": expecting([["i", "exclusive"], ["i", "shared"], true], async (locks) =>
    locks.request("i", async () => {
      const waiting = locks.request("i", { mode: "shared" }, () => {});
      const { held, pending } = await locks.query();
      const inShort = (all) => all.filter(({ name }) => name === "i").map(({ name, mode }) => [name, mode])[0];
      const same = held.find(({ name }) => name === "i").clientId === pending.find(({ name }) => name === "i").clientId;
      void waiting;
      return [inShort(held), inShort(pending), same];
    }),
  ),
};

/** Each gets what `navigator.storage.getDirectory()` gives. */
export const fileSystemBehaviour = {
  "what is not there is NotFoundError": expecting(["NotFoundError", "NotFoundError", "NotFoundError"], async (root) => {
    const name = (promise) => promise.then(() => "there", (error) => error.name);
    return [await name(root.getFileHandle("a")), await name(root.getDirectoryHandle("a")), await name(root.removeEntry("a"))];
  }),

  "a file and a folder are not confused": expecting(["TypeMismatchError", "TypeMismatchError"], async (root) => {
    const name = (promise) => promise.then(() => "there", (error) => error.name);
    await root.getDirectoryHandle("folder", { create: true });
    await root.getFileHandle("file", { create: true });
    return [await name(root.getFileHandle("folder", { create: true })), await name(root.getDirectoryHandle("file"))];
  }),

  "names that lead elsewhere are refused": expecting(["TypeError", "TypeError", "TypeError", "TypeError"], async (root) => {
    const names = ["..", ".", "a/b", ""];
    return Promise.all(names.map((name) => root.getDirectoryHandle(name, { create: true }).catch((error) => error.name)));
  }),

  "what is written is seen when it is closed": expecting(["", "text", 4, true], async (root) => {
    const handle = await root.getFileHandle("b", { create: true });
    const writer = await handle.createWritable();
    await writer.write("te");
    await writer.write("xt");
    const before = await (await handle.getFile()).text();
    await writer.close();
    const file = await handle.getFile();
    return [before, await file.text(), file.size, Math.abs(file.lastModified - Date.now()) < 60_000];
  }),

  "an aborted writer changes nothing, and a new one starts empty": expecting(["old", "new"], async (root) => {
    const handle = await root.getFileHandle("c", { create: true });
    const write = async (text, end) => {
      const writer = await handle.createWritable();
      await writer.write(text);
      await writer[end]();
      return (await handle.getFile()).text();
    };
    await write("old", "close");
    return [await write("lost", "abort"), await write("new", "close")];
  }),

  "an exclusive writer is alone, and the file stays while it is open": expecting(
    ["NoModificationAllowedError", "NoModificationAllowedError", "NoModificationAllowedError", "opened"],
    async (root) => {
      const handle = await root.getFileHandle("d", { create: true });
      const name = (promise) => promise.then(() => "opened", (error) => error.name);
      const writer = await handle.createWritable({ mode: "exclusive" });
      const refused = [
        await name(handle.createWritable({ mode: "exclusive" })),
        await name(handle.createWritable()),
        await name(root.removeEntry("d")),
      ];
      await writer.abort();
      return [...refused, await name(handle.createWritable({ mode: "exclusive" }))];
    },
  ),

  "a file that has changed cannot be read as it was": expecting("NotReadableError", async (root) => {
    const handle = await root.getFileHandle("e", { create: true });
    const write = async (text) => {
      const writer = await handle.createWritable();
      await writer.write(text);
      await writer.close();
    };
    await write("old");
    const file = await handle.getFile();
    // Browsers tell by the time of the change, which has to be another one.
    await new Promise((resolve) => setTimeout(resolve, 20));
    await write("new and longer");
    return file.text().catch(({ name }) => name);
  }),

  "a removed file is gone for its old handle too": expecting("NotFoundError", async (root) => {
    const handle = await root.getFileHandle("f", { create: true });
    await root.removeEntry("f");
    return handle.getFile().catch(({ name }) => name);
  }),

  "a folder with something in it is removed only as a whole": expecting(["InvalidModificationError", []], async (root) => {
    const folder = await root.getDirectoryHandle("g", { create: true });
    const inside = await folder.getDirectoryHandle("h", { create: true });
    await inside.getFileHandle("i", { create: true });
    const refused = await root.removeEntry("g", { recursive: false }).catch(({ name }) => name);
    await root.removeEntry("g", { recursive: true });
    const left = [];
    for await (const name of root.keys()) if (name === "g") left.push(name);
    return [refused, left];
  }),
};

function expecting(expected, check) {
  return Object.assign(check, { expected });
}
