import { FakeClock } from "./fake_clock.js";
import { Tab } from "./fake_server/network.js";
import { Server } from "./fake_server/server.js";
import { makeToken } from "./fake_server/tokens.js";

/** @typedef {import("../testing.js").FakeServer} FakeServer */

/** @type {typeof import("../testing.js").createFakeServer} */
export function createFakeServer({ clock = new FakeClock() } = {}) {
  const server = new Server(clock);
  const { engine } = server;

  /** @type {FakeServer} */
  const fake = {
    clock,
    url: server.url,
    openTab: () => new Tab(server),
    token: (sub, options = {}) => makeToken(clock.now(), sub, options),
    get events() {
      return engine.log.map(({ lock: _, ...event }) => /** @type {any} */ (event));
    },
    get connections() {
      return server.connections.size;
    },
    lockOf(room, document = "main") {
      const { lock } = engine.document(room, document);
      return lock && { leaseId: lock.leaseId, hold: lock.hold, fencingToken: lock.token, ownerId: lock.owner.ownerId, sessionId: lock.session, expiresAt: lock.expiresAt };
    },
    forceUnlock(room, { document = "main", by = "admin" } = {}) {
      const doc = engine.document(room, document);
      if (doc.lock) engine.end(doc, "revoked", by);
    },
    revokeTokens: (ownerId) => server.revoke(ownerId),
    closeSockets(code = 1006, reason = "") {
      for (const connection of [...server.connections]) connection.close(code, reason);
    },
    async stop({ reconnectAfterMs } = {}) {
      for (const connection of [...server.connections]) {
        if (reconnectAfterMs !== undefined) connection.send({ type: "goodbye", reconnect_after_ms: reconnectAfterMs });
        connection.close(reconnectAfterMs === undefined ? 1006 : 1012, "");
      }
      server.isUp = false;
      engine.pause();
      await clock.advance(0);
    },
    start({ newEpoch = false } = {}) {
      server.isUp = true;
      if (newEpoch) engine.epoch = `fake-epoch-${server.newId()}`;
      engine.goOn();
    },
  };
  return fake;
}
