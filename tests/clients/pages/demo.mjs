// The demo in Chromium, against a real server: what a stranger sees in the first minute. Locks last 9 s instead of 30.

import assert from "node:assert/strict";
import { run } from "../doclock.mjs";
import { accessible, complaintsOf, launch, sideBySide } from "./browser.mjs";
import { start } from "./server.mjs";
import { Visitor, World } from "./visitor.mjs";

const server = await start();
const browser = await launch();
const world = new World(browser, server.url);

const tests = [
  async function a_stranger_goes_in_with_a_suggested_name_and_locks_by_typing() {
    await world.story(async (open, room) => {
      const aiko = await open();
      assert.notEqual(await aiko.page.inputValue("#name"), "");
      await aiko.enter("Aiko");
      const bob = await open("Bob");
      assert.equal(await aiko.says(), "Nobody is editing. Type to start.");
      await aiko.type("Hello");
      await aiko.until("mine");
      assert.equal(await aiko.saved(), "v1");
      await bob.until("theirs");
      assert.match(await bob.says(), /^Aiko is editing/);
      assert.equal(await bob.isReadOnly(), true);
      assert.match(await bob.page.textContent(".documents [aria-current]"), /minutes.*Aiko/s);
      assert.match(await aiko.page.textContent(".documents [aria-current]"), /minutes.*you/s);
      await bob.page.getByText("Aiko began editing, token 1").waitFor();
      const [{ text, fencing_token }] = await aiko.history(room);
      assert.deepEqual([text, fencing_token], ["Hello", 1]);
    });
  },

  async function the_second_window_is_a_person_of_its_own() {
    await world.story(async (open) => {
      const aiko = await open("Aiko");
      const opened = aiko.context.waitForEvent("page");
      await aiko.button("Open a second person").click();
      const second = new Visitor(aiko.context, await opened, "second");
      await second.page.waitForSelector("#name");
      await second.enter("Bob");
      const [one, other] = [await aiko.session(), await second.session()];
      assert.notEqual(one.ownerId, other.ownerId);
      assert.equal(new URL(second.page.url()).searchParams.get("as"), null);
      await aiko.page.locator(".people").getByText("Bob").waitFor();
      await second.type("x");
      await aiko.until("theirs");
    });
  },

  async function a_handover_saves_first_and_no_word_is_missing() {
    await world.story(async (open, room) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await bob.until("theirs");
      await bob.press("ask");
      await bob.page.keyboard.type("typo in §2");
      await bob.page.keyboard.press("Enter");
      await aiko.until("beingAsked");
      assert.equal(await aiko.says(), 'Bob asks: "typo in §2"');
      assert.equal(await aiko.page.evaluate(() => document.activeElement.id), "text");
      await aiko.page.keyboard.type(" two");
      await aiko.page.keyboard.press("F6");
      await aiko.page.keyboard.press("Enter");
      await bob.until("yourTurn");
      assert.match(await bob.page.title(), /Your turn/);
      await bob.shows("One two");
      await aiko.until("theirs");
      await bob.type(" three");
      await bob.saved();
      const history = await bob.history(room);
      const [last, before] = [history.at(-1), history.findLast(({ fencing_token }) => fencing_token === 1)];
      assert.deepEqual([before.text, last.text, last.fencing_token], ["One two", "One two three", 2]);
    });
  },

  async function typing_is_frozen_while_it_is_handed_over() {
    await world.story(async (open, room) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await aiko.type(" two");
      await bob.until("theirs");
      let letGo;
      const held = new Promise((resolve) => (letGo = resolve));
      await aiko.page.route("**/api/demo/documents/**", async (route) => {
        if (route.request().method() === "PUT") await held;
        await route.continue();
      });
      await bob.press("ask");
      await bob.page.keyboard.press("Enter");
      await aiko.until("beingAsked");
      await aiko.press("grant");
      await aiko.until("handingOver");
      await aiko.page.focus("#text");
      await aiko.page.keyboard.type("lost?");
      assert.equal(await aiko.text(), "One two");
      letGo();
      await bob.shows("One two");
      assert.deepEqual((await bob.history(room)).at(-1).text, "One two");
    });
  },

  async function who_waits_in_line_edits_by_itself_with_the_newest_text() {
    await world.story(async (open) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await bob.until("theirs");
      await bob.press("wait");
      await bob.until("waiting");
      assert.equal(await bob.says(), "1st in line. Editing starts here by itself.");
      await aiko.type(" two");
      await aiko.press("done");
      await bob.until("yourTurn");
      await bob.shows("One two");
      await bob.type("!");
      await bob.until("mine");
      await aiko.until("theirs");
    });
  },

  async function the_text_is_never_swapped_under_a_reader() {
    await world.story(async (open) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await bob.button("Show it").click();
      await bob.shows("One");
      await aiko.type(" two");
      await bob.page.getByText("v2 exists.").waitFor();
      assert.equal(await bob.text(), "One");
      await aiko.press("done");
      await bob.until("newer");
      assert.equal(await bob.says(), "Aiko finished. A newer version exists.");
      assert.equal(await bob.text(), "One");
      assert.equal(await bob.isReadOnly(), true);
      await bob.press("load");
      await bob.shows("One two");
      await bob.until("mine");
      await bob.press("done");
      await aiko.until("free");
      await bob.until("free");
    });
  },

  async function who_follows_along_sees_the_text_as_it_is_saved() {
    await world.story(async (open) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await bob.page.getByLabel("Follow along").check();
      await bob.shows("One");
      await aiko.type(" two");
      await bob.shows("One two");
    });
  },

  async function ones_own_other_tab_takes_over_and_nothing_is_lost() {
    await world.story(async (open) => {
      const aiko = await open("Aiko");
      await aiko.type("One");
      await aiko.saved();
      const opened = aiko.context.waitForEvent("page");
      await aiko.button("Another tab of yours").click();
      const tab = new Visitor(aiko.context, await opened, "other tab");
      await tab.until("otherTab");
      assert.equal(await tab.says(), "You are editing this in another tab");
      await tab.press("editHere");
      await tab.until("mine");
      await tab.type(" two");
      await tab.saved();
      await aiko.until("lost");
      assert.equal(await aiko.says(), "You took over in another tab. Your text is kept here.");
      assert.equal(await aiko.text(), "One");
    });
  },

  async function without_network_one_edits_until_the_deadline_and_then_keeps_the_text() {
    await world.story(async (open, room) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await aiko.button("Cut this tab's network").click();
      await aiko.until("offline");
      assert.match(await aiko.says(), /^Offline. You can edit until \d\d:\d\d:\d\d$/);
      await aiko.type(" two");
      assert.equal(await aiko.text(), "One two");
      await aiko.until("lost");
      assert.equal(await aiko.says(), "Offline for too long, so this is read-only. Your text is kept here.");
      await aiko.page.focus("#text");
      await aiko.page.keyboard.type("!");
      assert.equal(await aiko.text(), "One two");
      // The page stopped before anyone else could begin.
      await bob.until("newer");
      await aiko.button("Restore the network").click();
      await aiko.page.locator("doclock-banner [data-action=again]").waitFor();
      await aiko.press("again");
      await aiko.until("mine");
      await aiko.saved();
      assert.deepEqual((await aiko.history(room)).at(-1), { ...(await aiko.history(room)).at(-1), text: "One two", fencing_token: 2 });
    });
  },

  async function a_short_cut_loses_nothing_and_the_lock_stays() {
    await world.story(async (open, room) => {
      const aiko = await open("Aiko");
      await aiko.type("One");
      await aiko.saved();
      await aiko.button("Cut this tab's network").click();
      await aiko.type(" two");
      await aiko.page.waitForSelector("output[data-save=failed]");
      await aiko.button("Restore the network").click();
      await aiko.until("mine");
      await aiko.saved();
      const history = await aiko.history(room);
      assert.deepEqual([history.at(-1).text, history.at(-1).fencing_token], ["One two", 1]);
    });
  },

  async function who_comes_back_too_late_finds_a_newer_text_and_keeps_ones_own() {
    await world.story(async (open, room) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await bob.until("theirs");
      await aiko.button("Cut this tab's network").click();
      await aiko.type(" by Aiko");
      await bob.press("wait");
      await bob.until("yourTurn");
      await bob.type(" by Bob");
      await bob.saved();
      await aiko.button("Restore the network").click();
      await aiko.page.locator("doclock-banner [data-action=ask]").waitFor();
      assert.equal(await aiko.text(), "One by Aiko");
      await aiko.press("compare");
      await aiko.page.locator("dialog.compare .gone").getByText("One by Aiko").waitFor();
      await aiko.page.locator("dialog.compare .come").getByText("One by Bob").waitFor();
      await accessible(aiko.page, "compare");
      await aiko.page.keyboard.press("Escape");
      await bob.press("done");
      await aiko.press("load");
      await aiko.shows("One by Bob");
      assert.equal(await aiko.page.textContent(".kept pre"), "One by Aiko");
      await accessible(aiko.page, "kept");
      await aiko.button("Put back").click();
      await aiko.saved();
      assert.deepEqual((await aiko.history(room)).map(({ text }) => text), ["One", "One by Bob", "One by Aiko"]);
    });
  },

  async function a_late_save_is_refused_and_says_why() {
    await world.story(
      async (open, room) => {
        const aiko = await open("Aiko");
        await aiko.type("One");
        await aiko.saved();
        await aiko.button("Send a late save").click();
        await aiko.page.getByText("there is no older token").waitFor();
        await aiko.press("done");
        await aiko.until("free");
        await aiko.type(" two");
        await aiko.saved();
        await aiko.button("Send a late save").click();
        await aiko.page.getByText("Refused with STALE_TOKEN: token 1 is older than 2.").waitFor();
        assert.deepEqual((await aiko.history(room)).map(({ text }) => text), ["One", "One two"]);
      },
      { refusals: true },
    );
  },

  async function who_vanishes_is_missed_when_the_lock_runs_out_and_may_come_back() {
    await world.story(async (open) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await bob.until("theirs");
      await aiko.button("Vanish without unlocking").click();
      await aiko.page.getByText("You vanished").waitFor();
      await accessible(aiko.page, "vanished");
      await bob.until("newer");
      await bob.page.getByText("Aiko went silent, and the lock ran out").waitFor();
      await aiko.button("Come back").click();
      await aiko.until("free", "lost");
      assert.equal(await aiko.text(), "One");
    });
  },

  async function a_reload_keeps_the_lock_and_every_word() {
    await world.story(async (open, room) => {
      const aiko = await open("Aiko");
      await aiko.type("One");
      await aiko.saved();
      await aiko.type(" two");
      await aiko.page.reload();
      await aiko.until("mine");
      await aiko.shows("One two");
      await aiko.saved();
      const history = await aiko.history(room);
      assert.deepEqual([history.at(-1).text, history.at(-1).fencing_token], ["One two", 1]);
    });
  },

  async function closing_the_tab_saves_the_last_words() {
    await world.story(async (open, room) => {
      const [aiko, bob] = [await open("Aiko"), await open("Bob")];
      await aiko.type("One");
      await aiko.saved();
      await aiko.type(" two");
      await aiko.page.close({ runBeforeUnload: true });
      await bob.until("free", "newer");
      assert.equal((await bob.history(room)).at(-1).text, "One two");
    });
  },

  async function leaving_a_document_gives_its_lock_up_with_the_text_saved() {
    await world.story(async (open, room) => {
      const aiko = await open("Aiko");
      await aiko.type("One");
      await aiko.page.keyboard.press("Escape");
      await aiko.page.keyboard.press("/");
      await aiko.page.keyboard.type("recipe");
      await aiko.page.keyboard.press("Enter");
      await aiko.page.locator("h2", { hasText: "recipe" }).waitFor();
      await aiko.page.locator(".documents li", { hasText: "minutes" }).getByText("free").waitFor();
      assert.deepEqual((await aiko.history(room)).map(({ text }) => text), ["One"]);
    });
  },

  async function under_the_hood_shows_each_call_with_curl_and_no_token() {
    await world.story(async (open) => {
      const aiko = await open("Aiko");
      await aiko.page.getByText("Under the hood").click();
      await aiko.type("One");
      await aiko.saved();
      const entry = aiko.page.locator(".entries details", { hasText: "PUT /api/demo/documents/" }).first();
      await entry.locator("summary").click();
      await entry.locator(".curl code").waitFor();
      const curl = await entry.locator(".curl code").textContent();
      assert.match(curl, /^curl -X PUT 'http:\/\/.*\/api\/demo\/documents\/.*' -H "Authorization: Bearer \$TOKEN" .* -d '\{"fencing_token":1,"text":"One"\}'$/);
      const frame = aiko.page.locator(".entries details", { has: aiko.page.locator("code", { hasText: /^lock$/ }) }).first();
      await frame.locator("summary").click();
      assert.match(await frame.locator(".curl code").textContent(), /^curl -X POST 'http:.*\/api\/documents\/demo-.*\/minutes\/lock' /);
      await aiko.page.evaluate(() => document.querySelectorAll(".entries details").forEach((details) => (details.open = true)));
      await aiko.page.waitForFunction(() => document.querySelectorAll(".entries pre").length >= document.querySelectorAll(".entries details").length);
      const { token } = await aiko.session();
      const shown = await aiko.page.content();
      assert.ok(!shown.includes(token) && !shown.includes(token.split(".")[2]));
      assert.ok(!aiko.page.url().includes(token));
      assert.equal(await aiko.page.evaluate((token) => JSON.stringify({ ...localStorage }).includes(token), token), false);
      await accessible(aiko.page, "under the hood");
    });
  },

  async function every_key_does_what_the_list_of_keys_says() {
    await world.story(async (open) => {
      const aiko = await open("Aiko");
      await aiko.page.keyboard.press("?");
      await aiko.page.locator("dialog.keys[open]").waitFor();
      await accessible(aiko.page, "keys");
      await aiko.page.keyboard.press("Escape");
      await aiko.page.keyboard.press("/");
      assert.equal(await aiko.page.evaluate(() => document.activeElement.id), "find");
      await aiko.page.keyboard.press("Escape");
      await aiko.page.keyboard.press("e");
      assert.equal(await aiko.page.evaluate(() => document.activeElement.id), "text");
      await aiko.page.keyboard.type("?/e");
      assert.equal(await aiko.text(), "?/e");
    });
  },

  async function without_the_demo_the_page_says_what_this_is_and_where_the_docs_are() {
    const context = await browser.newContext({ locale: "en", viewport: { width: 390, height: 844 } });
    const complaints = complaintsOf(context);
    const page = await context.newPage();
    await page.goto(`${server.url}/pages/about/index.html`);
    await page.getByText("This is a doclock server.").waitFor();
    assert.equal(await page.getByRole("link", { name: "/docs/" }).first().getAttribute("href"), "/docs/");
    await accessible(page, "about");
    await page.emulateMedia({ colorScheme: "dark" });
    await accessible(page, "about, dark");
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
    assert.deepEqual(complaints, []);
    await context.close();
  },

  async function a_server_that_cannot_be_reached_is_said_on_the_way_in() {
    const context = await browser.newContext({ locale: "en" });
    const page = await context.newPage();
    await page.goto(server.url);
    await context.setOffline(true);
    await page.press("#name", "Enter");
    await page.getByText("That did not work: the server cannot be reached").waitFor();
    await context.close();
  },

  async function a_text_that_cannot_be_loaded_is_said_and_tried_again() {
    const context = await browser.newContext({ locale: "en" });
    const page = await context.newPage();
    await page.route("**/api/demo/documents/**", (route) => route.abort());
    await page.goto(server.url);
    await page.press("#name", "Enter");
    await page.getByText("The text could not be loaded.").waitFor();
    await accessible(page, "load failed");
    await page.unroute("**/api/demo/documents/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForSelector("#text");
    await context.close();
  },

  async function all_of_it_is_accessible_in_japanese_dark_and_narrow() {
    const options = { locale: "ja", colorScheme: "dark", viewport: { width: 390, height: 844 }, hasTouch: true };
    await world.story(async (open) => {
      const 愛子 = await open(undefined, options);
      await accessible(愛子.page, "welcome");
      await 愛子.enter("愛子");
      const bob = await open("ボブ", options);
      await accessible(愛子.page, "free");
      await 愛子.type("一");
      await bob.until("theirs");
      assert.match(await bob.says(), /^愛子さんが編集中です/);
      await accessible(bob.page, "theirs");
      await bob.press("ask");
      await bob.page.keyboard.type("誤字");
      await accessible(bob.page, "asking");
      await bob.page.keyboard.press("Enter");
      await bob.until("asked");
      await accessible(bob.page, "asked");
      await 愛子.until("beingAsked");
      assert.equal(await 愛子.says(), "ボブさんから依頼：「誤字」");
      await accessible(愛子.page, "beingAsked");
      await 愛子.press("keep");
      await 愛子.page.keyboard.press("Enter");
      await 愛子.until("mine");
      await bob.until("theirs");
      await bob.press("wait");
      await bob.until("waiting");
      await accessible(bob.page, "waiting");
      await 愛子.press("done");
      await bob.until("yourTurn");
      await accessible(bob.page, "yourTurn");
      await bob.type("二");
      await bob.press("done");
      await 愛子.until("newer");
      await accessible(愛子.page, "newer");
      await 愛子.press("load");
      await 愛子.until("mine");
      await 愛子.button("このタブの通信を切る").click();
      await 愛子.until("offline");
      await accessible(愛子.page, "offline");
      const wide = await 愛子.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${wide} px`);
      const small = await 愛子.page.evaluate(() => {
        const inside = [...document.querySelectorAll("button, select, input, summary, .documents a"), ...document.querySelector("doclock-banner").shadowRoot.querySelectorAll("button")];
        return inside.filter((element) => element.checkVisibility() && element.type !== "checkbox" && element.getBoundingClientRect().height < 43.5).map((element) => element.outerHTML);
      });
      assert.deepEqual(small, []);
    });
  },
];

const [only] = process.argv.slice(2);
await run(sideBySide(only ? tests.filter(({ name }) => name.includes(only)) : tests));
await browser.close();
await server.stop();
