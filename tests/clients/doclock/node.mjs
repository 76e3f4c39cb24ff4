// doclock.js in Node against a real server: that the server says what the client, and the server in memory, take it to say.
//
// DOCLOCK is the server's program, CLIENT_MODULES the folder whose node_modules has `ws`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createDocLock } from "../../../static/client/doclock.js";
import { foreign, run, within } from "../doclock.mjs";
import { Network, Server, token } from "./world.mjs";

const { WebSocket } = foreign("ws");
const server = await new Server().start();

const storage = () => {
  const kept = new Map();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
};

/** Someone at the room, by socket or by HTTP alone. */
async function person(name, room, { sockets = true, claims, ...options } = {}) {
  const network = await new Network(server).listen();
  const getToken = () => token(name, claims);
  const client = createDocLock({ url: network.url, getToken, WebSocket: sockets ? WebSocket : null, storage: storage(), navigator: {}, ...options });
  const lock = client.lock(room, { ttlSeconds: 9 });
  lock.subscribe(() => {});
  const until = (fits) =>
    within(20, new Promise((resolve) => {
      const check = () => fits(lock.getSnapshot()) && resolve(lock.getSnapshot());
      lock.subscribe(check);
      check();
    }));
  if (sockets) await until(({ connection }) => connection === "connected");
  return { ...lock, client, network, until };
}

/** Two people, the first of whom holds the lock. */
async function story(tell, theirs) {
  const room = `room-${randomUUID()}`;
  const [alice, bob] = [await person("alice", room), await person("bob", room, theirs)];
  await alice.acquire();
  await tell(alice, bob, room);
  for (const { client, network } of [alice, bob]) {
    await client.close();
    network.close();
  }
}

const denied = { outcome: "denied", message: "not now" };

await run([
  async function an_ask_can_be_denied_with_a_message() {
    await story(async (alice, bob) => {
      const asked = bob.ask("please");
      const { asks } = await alice.until(({ asks }) => asks.length === 1);
      await alice.answer(asks[0].handoverId, false, { message: "not now" });
      assert.deepEqual(await asked, denied);
      assert.deepEqual([alice.getSnapshot().canEdit, alice.getSnapshot().asks], [true, []]);
    });
  },

  async function an_ask_can_be_taken_back_and_the_holder_learns_it() {
    await story(async (alice, bob) => {
      const asked = bob.ask();
      await alice.until(({ asks }) => asks.length === 1);
      await bob.cancelAsk();
      assert.equal((await asked).outcome, "cancelled");
      await alice.until(({ asks }) => asks.length === 0);
    });
  },

  async function an_ask_is_moot_when_the_lock_ends_first() {
    await story(async (alice, bob) => {
      const asked = bob.ask();
      await alice.until(({ asks }) => asks.length === 1);
      await alice.release();
      assert.equal((await asked).outcome, "moot");
    });
  },

  async function without_a_socket_the_line_is_stood_in_by_http() {
    await story(
      async (alice, bob) => {
        const waiting = bob.acquire({ wait: true });
        await new Promise((resolve) => setTimeout(resolve, 500));
        await alice.release({ documentVersion: "v3" });
        assert.equal((await waiting).fencingToken, 2);
        assert.deepEqual([bob.getSnapshot().canEdit, bob.getSnapshot().documentVersion], [true, "v3"]);
      },
      { sockets: false },
    );
  },

  async function without_a_socket_one_can_ask_too() {
    await story(
      async (alice, bob) => {
        const asked = bob.ask("please");
        const { asks } = await alice.until(({ asks }) => asks.length === 1);
        await alice.answer(asks[0].handoverId, true);
        assert.equal((await asked).outcome, "granted");
        assert.deepEqual([bob.getSnapshot().canEdit, bob.getSnapshot().fencingToken], [true, 2]);
      },
      { sockets: false },
    );
  },

  async function who_waits_and_is_cut_off_stands_in_line_again_and_who_leaves_is_not_served() {
    await story(async (alice, bob, room) => {
      const carol = await person("carol", room);
      const bobs = bob.acquire({ wait: true });
      await bob.until(({ position }) => position === 1);
      const carols = carol.acquire({ wait: true });
      await carol.until(({ position }) => position === 2);
      bob.network.restore();
      await bob.until(({ position }) => position === 2);
      await alice.release();
      assert.equal((await carols).fencingToken, 2);
      await bob.until(({ position }) => position === 1);
      await bob.cancelWait();
      await assert.rejects(bobs, { code: "ABORTED" });
      await carol.release();
      assert.equal((await server.events(room)).length, 4);
      await carol.client.close();
      carol.network.close();
    });
  },

  async function the_older_of_two_tabs_with_one_session_learns_of_the_other() {
    const room = `room-${randomUUID()}`;
    const shared = storage();
    const one = await person("alice", room, { storage: shared });
    await one.acquire();
    const other = await person("alice", room, { storage: shared });
    assert.equal((await other.acquire()).hold, 2);
    await assert.rejects(one.saved("v2"), { code: "LEASE_MISMATCH" });
    assert.deepEqual([one.getSnapshot().reason, other.getSnapshot().canEdit], ["other_tab", true]);
  },

  async function a_viewer_a_foreign_room_and_a_bad_token_are_told_apart() {
    const room = `room-${randomUUID()}`;
    const viewer = await person("vera", room, { claims: { role: "viewer" } });
    await assert.rejects(viewer.acquire(), { code: "ROLE_FORBIDS" });
    assert.deepEqual([viewer.getSnapshot().reason, viewer.client.connection.getSnapshot().role], ["forbidden", "viewer"]);
    const stranger = await person("sam", room, { claims: { rooms: ["elsewhere-*"] } });
    await assert.rejects(stranger.acquire(), { code: "ROOM_FORBIDDEN" });
    assert.equal(stranger.client.room(room).getSnapshot().error.code, "ROOM_FORBIDDEN");
    const nobody = createDocLock({ url: server.url, token: "nonsense", WebSocket, storage: storage(), navigator: {} });
    await assert.rejects(nobody.lock(room).acquire(), { code: "UNAUTHORIZED" });
    assert.equal(nobody.connection.getSnapshot().state, "disconnected");
  },
]);

await server.end();
process.exit();
