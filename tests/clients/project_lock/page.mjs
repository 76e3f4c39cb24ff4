// What the guide's examples find in a page, made of doubles: loaded before them, into a Node of their own.

import { InMemoryOpfsFile, MockNavigatorLocks } from "../../../static/client/testing.js";

const disk = new InMemoryOpfsFile({ path: "draft.txt" });

const navigator = {
  locks: new MockNavigatorLocks(),
  storage: { getDirectory: async () => disk.root },
  sendBeacon: () => true,
};

Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
globalThis.document = { querySelector: () => ({ value: "what was typed", readOnly: false }) };
globalThis.page = {
  files: async () => ({ [disk.paths.join()]: await disk.read() }),
};
