// What examples find in a page: the server in memory with a clock that runs, a textarea, and a back end that saves.

import { createFakeServer } from "../../../static/client/testing.js";

const server = createFakeServer();
const tab = server.openTab();
const token = server.token("alice", { name: "Alice" });
const { fetch, WebSocket, storage, window } = tab.options;

// The examples' own token is a placeholder.
const withToken = (headers) => ({ ...headers, authorization: `Bearer ${token}` });

const textarea = Object.assign(new EventTarget(), { value: "what was typed", readOnly: false });
const elements = { textarea, status: Object.assign(new EventTarget(), { textContent: "", hidden: false }) };
const saves = [];

Object.assign(globalThis, {
  server,
  page: { tab, saves, textarea, elements },
  sessionStorage: storage,
  window,
  document: Object.assign(tab.document, {
    querySelector: (selector) => (selector.includes("textarea") ? textarea : elements.status),
  }),
  location: { origin: server.url },
  save: async (text, fencingToken) => (saves.push([text, fencingToken]), `v${saves.length + 1}`),
  WebSocket: class extends WebSocket {
    constructor(url, protocols) {
      super(url, protocols.map((protocol) => (protocol === "bearer.…" ? `bearer.${token}` : protocol)));
    }
  },
  fetch: async (url, request = {}) => {
    if (String(url).endsWith("/doclock-token")) return { ok: true, status: 200, text: async () => token };
    if (String(url).startsWith("/documents/")) {
      const fencingToken = Number(new URLSearchParams(String(url).split("?")[1]).get("token"));
      saves.push([request.body, fencingToken]);
      return { ok: true, status: 200, text: async () => `v${saves.length + 1}` };
    }
    return fetch(url, { ...request, headers: withToken(request.headers) });
  },
});
Object.defineProperty(globalThis, "navigator", { value: tab.options.navigator, configurable: true });
