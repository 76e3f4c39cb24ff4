// doclock.js in Chromium against a real server. Times are scaled by a short ttl: 9 s instead of 30.

import assert from "node:assert/strict";
import { run } from "../doclock.mjs";
import { World, launch } from "./world.mjs";

const world = await new World().start();
const { server } = world;

const TTL = { ttlSeconds: 9 };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Nobody could write while someone else held the lock: what pages showed, held against the server's log. */
async function neverTwoWriters(room, people) {
  const events = await server.events(room);
  for (const { type, fencing_token, at, owner_id } of events) {
    if (type !== "DocumentLocked") continue;
    for (const person of people) {
      const log = await person.log();
      const shown = log.filter((entry) => entry.at <= at).at(-1);
      const writes = shown?.canEdit && shown.fencingToken !== fencing_token && person.name !== owner_id;
      assert.ok(!writes, `${person.name} could write when ${owner_id} got token ${fencing_token}`);
    }
  }
  return events;
}

const only = process.argv[2];

await run([
  async function two_people_fight_for_a_lock_and_see_each_other_live() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, TTL);
      const outcomes = await Promise.all([alice.call("acquire"), bob.call("acquire")]);
      assert.equal(outcomes.filter((outcome) => outcome === "LOCK_HELD").length, 1);
      const [winner, loser] = outcomes[0] === "LOCK_HELD" ? [bob, alice] : [alice, bob];
      await loser.until({ holder: winner.name, canEdit: false });
      await winner.until({ holder: winner.name, canEdit: true, isYou: true });
      const { participants } = await loser.page.evaluate((room) => window.client.room(room).getSnapshot(), room);
      assert.deepEqual(participants.map(({ ownerId }) => ownerId).sort(), ["alice", "bob"]);
      await winner.call("release");
      await loser.until({ holder: null });
      assert.equal((await loser.call("acquire")).fencingToken, 2);
      await neverTwoWriters(room, [alice, bob]);
    });
  },

  async function a_closed_tab_is_told_to_the_other_within_4_s() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room);
      await alice.call("acquire");
      await bob.until({ holder: "alice" });
      const closedAt = Date.now();
      await alice.page.close({ runBeforeUnload: true });
      await bob.until({ holder: null });
      const [, unlocked] = await server.events(room);
      assert.ok(unlocked.at - closedAt < 4_000, `${unlocked.at - closedAt} ms`);
      assert.equal(unlocked.reason, "released");
    });
  },

  async function a_killed_browser_frees_the_lock_within_its_ttl() {
    const browser = await launch({ args: ["--no-sandbox", "--disable-gpu", "--user-agent=to-be-killed"] });
    try {
      await world.story(
        async (open, room) => {
          const [alice, bob] = [await open("alice", { browser }), await open("bob")];
          for (const person of [alice, bob]) await person.edit(room, { ttlSeconds: 3 });
          await alice.call("acquire");
          await bob.until({ holder: "alice" });
          const session = await browser.newBrowserCDPSession();
          const { processInfo } = await session.send("SystemInfo.getProcessInfo");
          const killedAt = Date.now();
          for (const { id } of processInfo) process.kill(id, "SIGKILL");
          await bob.until({ holder: null });
          const [, unlocked] = await server.events(room);
          assert.equal(unlocked.reason, "expired");
          assert.ok(unlocked.at - killedAt <= 3_250, `${unlocked.at - killedAt} ms`);
        },
        { complaints: true },
      );
    } finally {
      await browser.close().catch(() => {});
    }
  },

  async function a_network_that_is_off_for_a_moment_does_not_lose_the_lock() {
    await world.story(
      async (open, room) => {
        const alice = await open("alice");
        await alice.edit(room, TTL);
        await alice.call("acquire");
        alice.network.cut();
        await sleep(2_000);
        alice.network.restore();
        await alice.page.waitForFunction(() => window.log.some(({ state }) => state === "renewing"));
        await alice.until({ connection: "connected", state: "held" });
        // Longer than the lock would have lived without.
        await sleep(9_000);
        const log = await alice.log();
        const from = log.findIndex(({ canEdit }) => canEdit);
        assert.ok(log.slice(from).every(({ canEdit, fencingToken }) => canEdit && fencingToken === 1));
        assert.equal((await server.events(room)).length, 1);
      },
      { complaints: true },
    );
  },

  async function a_network_that_is_off_for_long_is_read_only_before_anyone_else_holds_the_lock() {
    await world.story(
      async (open, room) => {
        const [alice, bob] = [await open("alice"), await open("bob")];
        for (const person of [alice, bob]) await person.edit(room, TTL);
        await alice.call("acquire");
        await alice.page.focus("textarea");
        await alice.page.keyboard.type("a");
        alice.network.cut();
        await alice.until({ state: "readonly", reason: "offline" });
        await alice.page.keyboard.type("b");
        await bob.until({ holder: null });
        await bob.call("acquire");
        const events = await neverTwoWriters(room, [alice, bob]);
        assert.deepEqual(events.map(({ owner_id, reason }) => reason ?? owner_id), ["alice", "expired", "bob"]);
        assert.equal(await alice.page.inputValue("textarea"), "a");
        alice.network.restore();
        await alice.until({ state: "readonly", reason: "expired", holder: "bob" });
        await sleep(1_000);
        assert.equal((await server.events(room)).length, 3);
      },
      { complaints: true },
    );
  },

  async function a_page_whose_code_stood_still_is_read_only_before_the_first_key() {
    await world.story(
      async (open, room) => {
        const [alice, bob] = [await open("alice"), await open("bob")];
        for (const person of [alice, bob]) await person.edit(room, { ttlSeconds: 3 });
        await alice.call("acquire");
        await alice.page.focus("textarea");
        await alice.page.keyboard.type("a");
        alice.network.cut();
        const session = await alice.context.newCDPSession(alice.page);
        await session.send("Page.setWebLifecycleState", { state: "frozen" });
        await bob.until({ holder: null });
        await bob.call("acquire");
        await session.send("Page.setWebLifecycleState", { state: "active" });
        await alice.page.keyboard.type("b");
        assert.equal(await alice.page.inputValue("textarea"), "a");
        await alice.until({ state: "readonly" });
      },
      { complaints: true },
    );
  },

  async function a_page_whose_code_is_busy_keeps_its_lock_by_the_socket() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, { ttlSeconds: 3 });
      await alice.call("acquire");
      await alice.page.evaluate(() => {
        const end = Date.now() + 7_000;
        while (Date.now() < end);
      });
      await alice.until({ state: "held", fencingToken: 1 });
      assert.equal((await server.events(room)).length, 1);
    });
  },

  async function a_token_that_expires_is_renewed_and_the_lock_kept() {
    await world.story(
      async (open, room) => {
        const alice = await open("alice", { claims: { lastsSeconds: 3 } });
        await alice.edit(room, TTL);
        await alice.call("acquire");
        await alice.page.waitForFunction(() => window.tokens >= 3);
        await alice.until({ connection: "connected", state: "held", fencingToken: 1 });
        assert.equal((await server.events(room)).length, 1);
      },
      { complaints: true },
    );
  },

  async function a_server_that_restarts_is_resumed_with_the_same_token() {
    await world.story(
      async (open, room) => {
        const alice = await open("alice");
        await alice.edit(room, TTL);
        await alice.call("acquire");
        await server.stop();
        await server.start();
        await alice.page.waitForFunction(() => window.lock.getSnapshot().connection !== "connected" || window.log.some(({ state }) => state === "renewing"));
        await alice.until({ connection: "connected", state: "held", fencingToken: 1 });
        await server.stop("SIGKILL");
        await alice.until({ connection: "reconnecting" });
        await server.start();
        await alice.until({ connection: "connected", state: "held", fencingToken: 1 });
        assert.equal((await server.events(room)).length, 1);
      },
      { complaints: true },
    );
  },

  async function a_reloaded_page_has_its_lock_again() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, TTL);
      await alice.call("acquire");
      await alice.page.reload();
      await alice.edit(room, TTL);
      await alice.until({ state: "held", fencingToken: 1 });
      // Longer than the linger.
      await sleep(4_000);
      assert.equal((await alice.snapshot()).lease.hold, 2);
      assert.equal((await server.events(room)).length, 1);
      await bob.until({ holder: "alice" });
    });
  },

  async function a_page_kept_by_the_browser_comes_back_with_its_lock() {
    await world.story(async (open, room) => {
      const alice = await open("alice");
      await alice.edit(room, TTL);
      await alice.call("acquire");
      await alice.page.evaluate(() => addEventListener("pageshow", ({ persisted }) => (window.wasKept = persisted)));
      await alice.page.goto(`${world.site.url}elsewhere`);
      await alice.page.goBack({ waitUntil: "commit" });
      await alice.page.waitForFunction(() => window.wasKept === true);
      await alice.until({ state: "held", fencingToken: 1, connection: "connected" });
      const log = await alice.log();
      assert.ok(log.some(({ state, reason }) => state === "readonly" && reason === "offline"));
      assert.equal((await server.events(room)).length, 1);
    });
  },

  async function a_duplicated_tab_is_another_session() {
    await world.story(async (open, room) => {
      const alice = await open("alice");
      await alice.edit(room, TTL);
      await alice.call("acquire");
      const opened = alice.context.waitForEvent("page");
      // A page opened by a page gets a copy of its sessionStorage, as a duplicated tab does.
      await alice.page.evaluate(() => void window.open(location.href));
      const copy = await opened;
      await copy.waitForLoadState();
      const id = (page) => page.evaluate(() => sessionStorage.getItem("doclock.session"));
      assert.equal(await id(copy), await id(alice.page));
      await alice.edit(room, TTL, copy);
      assert.equal(await alice.call("acquire", undefined, copy), "LOCK_HELD");
      assert.notEqual(await id(copy), await id(alice.page));
      const { isYou, canEdit } = await alice.snapshot(copy);
      assert.deepEqual([isYou, canEdit], [true, false]);
      await alice.call("takeOver", undefined, copy);
      await alice.until({ state: "readonly", reason: "taken_over" });
      await alice.until({ state: "held", fencingToken: 2 }, copy);
    });
  },

  async function a_force_unlocked_page_is_told_and_does_not_lock_again() {
    await world.story(async (open, room) => {
      const alice = await open("alice");
      await alice.edit(room, TTL);
      const { leaseId } = await alice.call("acquire");
      await server.call("DELETE", `/api/admin/locks/${leaseId}?reason=holiday`);
      await alice.until({ state: "readonly", reason: "revoked", by: "root" });
      await sleep(2_000);
      assert.equal((await server.events(room)).length, 2);
    });
  },

  async function a_page_without_sockets_keeps_its_lock_by_http() {
    await world.story(async (open, room) => {
      const alice = await open("alice");
      await alice.page.evaluate(() => delete window.WebSocket);
      await alice.open(room, { ttlSeconds: 3 });
      await alice.call("acquire");
      await sleep(5_000);
      const { state, connection, fencingToken } = await alice.snapshot();
      assert.deepEqual([["held", "renewing"].includes(state), connection, fencingToken], [true, "disconnected", 1]);
      assert.equal((await server.events(room)).length, 1);
    });
  },

  async function who_waits_is_served_when_the_holder_is_done() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, TTL);
      await alice.call("acquire");
      const waiting = bob.call("acquire", { wait: true });
      await bob.until({ state: "waiting", position: 1 });
      await alice.call("release");
      assert.equal((await waiting).fencingToken, 2);
      await sleep(6_000);
      await bob.until({ state: "held", fencingToken: 2 });
      await neverTwoWriters(room, [alice, bob]);
    });
  },

  async function a_hand_over_saves_first() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, TTL);
      await alice.call("acquire");
      const asked = bob.call("ask", "typo in §2");
      await alice.page.waitForFunction(() => window.lock.getSnapshot().asks.length === 1);
      const [{ by, message }] = (await alice.snapshot()).asks;
      assert.deepEqual([by, message], [{ ownerId: "bob", name: "bob" }, "typo in §2"]);
      assert.equal((await bob.snapshot()).asked.message, "typo in §2");
      await alice.page.evaluate(async () => {
        const [{ handoverId }] = window.lock.getSnapshot().asks;
        const save = async () => {
          window.whileSaving = [window.lock.getSnapshot().state, document.querySelector("textarea").readOnly];
          return "v9";
        };
        await window.lock.answer(handoverId, true, { documentVersion: save });
      });
      assert.equal((await asked).outcome, "granted");
      assert.deepEqual(await alice.page.evaluate(() => window.whileSaving), ["releasing", true]);
      await bob.until({ state: "held", documentVersion: "v9" });
      await alice.until({ state: "idle", reason: "handed_over", holder: "bob" });
      const events = await neverTwoWriters(room, [alice, bob]);
      assert.deepEqual(events.map(({ reason, owner_id }) => reason ?? owner_id), ["alice", "handed_over", "bob"]);
    });
  },

  async function what_the_holder_does_and_saves_is_told_to_the_room() {
    await world.story(async (open, room) => {
      const [alice, bob] = [await open("alice"), await open("bob")];
      for (const person of [alice, bob]) await person.edit(room, TTL);
      await alice.call("acquire");
      await bob.until({ activity: "active" });
      await alice.page.evaluate(() => {
        Object.defineProperty(document, "visibilityState", { value: "hidden" });
        document.dispatchEvent(new Event("visibilitychange"));
      });
      await bob.until({ activity: "away", holder: "alice" });
      await alice.call("saved", "v7");
      await bob.until({ documentVersion: "v7", holder: "alice" });
    });
  },
].filter(({ name }) => !only || name.includes(only)));

await world.end();
process.exit();
