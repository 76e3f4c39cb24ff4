// <doclock-banner> in Chromium, against the server in memory, whose clock the tests move.

import assert from "node:assert/strict";
import { messages } from "../../../static/client/messages.js";
import { run as runAll } from "../doclock.mjs";
import { accessible, complaintsOf, launch, serveStatic, sideBySide } from "./browser.mjs";

const HOME = `<!doctype html><html lang="en"><title>minutes</title><main><h1>minutes</h1>
  <doclock-banner></doclock-banner><textarea aria-label="text"></textarea></main></html>`;

const browser = await launch();
const [only = ""] = process.argv.slice(2);
const run = (tests) => runAll(sideBySide(tests.filter(({ name }) => name.includes(only))));

/** A page where `me` has a banner, and other people are clients without one. */
async function world(tell, { language = "en", me = "bob", version = null, attributes = [], media } = {}) {
  const context = await browser.newContext({ locale: language, permissions: ["clipboard-read", "clipboard-write"], ...media });
  const complaints = complaintsOf(context);
  await serveStatic(context, HOME);
  const page = await context.newPage();
  page.setDefaultTimeout(5_000);
  await page.goto("https://pages.example/");
  await page.evaluate(inPage, { language, me, version, attributes });
  try {
    await tell(new Banner(page), page);
    assert.deepEqual(complaints, []);
  } finally {
    await context.close();
  }
}

// Runs in the page.
async function inPage({ language, me, version, attributes }) {
  const { createDocLock } = await import("/client/doclock.js");
  const { createFakeServer } = await import("/client/testing.js");
  const banner = document.querySelector("doclock-banner");
  const server = createFakeServer();
  const NAMES = { aiko: "Aiko", bob: "Bob", carol: "Carol" };
  const tabs = {};
  const locks = {};
  const open = (id, owner = id) => {
    tabs[id] = server.openTab();
    const permissions = owner === "carol" ? ["takeover"] : [];
    const token = server.token(owner, { name: NAMES[owner], permissions });
    locks[id] = createDocLock({ token, ...tabs[id].options }).lock("minutes", {});
    locks[id].subscribe(() => {});
  };
  for (const id of Object.keys(NAMES)) open(id);
  open("bob2", "bob");
  document.documentElement.lang = language;
  for (const name of attributes) banner.setAttribute(name, "");
  const atLoad = [];
  Object.assign(window, { server, tabs, locks, banner, atLoad, saves: [], said: [] });
  await import("/client/banner.js");
  const regions = () => [...banner.shadowRoot.querySelectorAll("[aria-live]")];
  atLoad.push(...regions().map((region) => [region.getAttribute("role"), region.textContent]));
  new MutationObserver((changes) => {
    for (const region of regions()) {
      const isNews = changes.some(({ target }) => region.contains(target));
      if (isNews && region.textContent) window.said.push([region.getAttribute("role"), region.textContent]);
    }
  }).observe(banner.shadowRoot, { subtree: true, childList: true, characterData: true });
  banner.clock = server.clock;
  banner.version = version;
  banner.hooks = {
    save: async () => {
      window.saves.push(document.activeElement.tagName);
      if (window.saveFails) throw new Error("disk full");
      return "7";
    },
    text: () => "what was typed",
    compare: () => (window.compared = true),
  };
  banner.handle = locks[me];
  await server.clock.advance(200);
}

class Banner {
  constructor(page) {
    this.page = page;
  }

  /** Runs code in the page, then lets what it set off happen. */
  async do(code, argument) {
    await this.page.evaluate(code, argument);
    await this.pass(200);
  }

  pass(ms) {
    return this.page.evaluate((ms) => window.server.clock.advance(ms), ms);
  }

  async shows(state, text, actions) {
    const shown = await this.page.evaluate(() => {
      const root = window.banner.shadowRoot;
      const buttons = [...root.querySelectorAll(".actions button:not([aria-disabled])")].map(({ textContent }) => textContent);
      return { state: window.banner.state, text: root.querySelector(".text").textContent, buttons };
    });
    assert.deepEqual(shown, { state, text, buttons: actions });
  }

  note() {
    return this.page.evaluate(() => window.banner.shadowRoot.querySelector(".note").textContent);
  }

  press(action) {
    return this.page.locator(`doclock-banner [data-action=${action}]`).click().then(() => this.pass(200));
  }

  /** What was said aloud since the last time. */
  said() {
    return this.page.evaluate(() => window.said.splice(0));
  }
}

const acquire = (id) => [(id) => void window.locks[id].acquire(), id];

/** Each state of the table: how to get there as Bob, and what it says. */
const STATES = {
  free: { go: async () => {}, en: ["Nobody is editing. Type to start."], ja: ["誰も編集していません。入力すると編集を始めます"], said: null },
  mine: { go: (banner) => banner.do(...acquire("bob")), en: ["You are editing", "Done"], ja: ["あなたが編集中です", "編集を終える"], said: "status" },
  slow: {
    state: "slow",
    go: async (banner) => {
      await banner.do(...acquire("bob"));
      await banner.do(() => window.tabs.bob.cut({ reset: true }));
      await banner.pass(5_000);
    },
    en: [/^Connection is slow. You can edit for 20 s more$/],
    ja: [/^接続が不安定です。あと20秒編集できます$/],
    said: "status",
  },
  theirs: {
    go: (banner) => banner.do(...acquire("aiko")),
    en: ["Aiko is editing (active now). You can read.", "Ask", "Wait in line"],
    ja: ["Aikoさんが編集中です（操作中）。閲覧できます", "編集を依頼", "順番を待つ"],
    said: "status",
  },
  "theirs, idle": {
    state: "theirs",
    go: async (banner) => {
      await banner.do(...acquire("aiko"));
      await banner.do(() => window.tabs.aiko.hide());
      await banner.pass(10_000);
    },
    en: [/^Aiko is editing \(active 10 s ago\). You can read.$/, "Ask", "Wait in line"],
    ja: [/^Aikoさんが編集中です（10秒前に操作）。閲覧できます$/, "編集を依頼", "順番を待つ"],
    said: "status",
  },
  "theirs, with the right": {
    state: "theirs",
    attributes: ["can-take-over"],
    go: (banner) => banner.do(...acquire("aiko")),
    en: ["Aiko is editing (active now). You can read.", "Ask", "Wait in line", "Take over"],
    ja: ["Aikoさんが編集中です（操作中）。閲覧できます", "編集を依頼", "順番を待つ", "引き継ぐ"],
    said: "status",
  },
  otherTab: {
    go: (banner) => banner.do(...acquire("bob2")),
    en: ["You are editing this in another tab", "Edit here"],
    ja: ["別のタブで編集中です", "ここで編集"],
    said: "status",
  },
  waiting: {
    go: async (banner) => {
      await banner.do(...acquire("aiko"));
      await banner.do(() => void window.locks.carol.acquire({ wait: true }));
      await banner.press("wait");
    },
    en: ["2nd in line. Editing starts here by itself.", "Leave"],
    ja: ["2番目です。順番が来ると編集できます", "待つのをやめる"],
    said: "status",
  },
  yourTurn: {
    go: async (banner) => {
      await banner.do(...acquire("aiko"));
      await banner.press("wait");
      await banner.do(() => void window.locks.aiko.release());
    },
    en: ["Your turn", "Done"],
    ja: ["あなたの番です", "編集を終える"],
    said: "alert",
  },
  asked: {
    go: async (banner) => {
      await banner.do(...acquire("aiko"));
      await banner.press("ask");
      await banner.page.keyboard.press("Enter");
      await banner.pass(6_000);
    },
    en: ["Asked Aiko (24 s)", "Cancel"],
    ja: ["Aikoさんに依頼しました（残り24秒）", "取り消す"],
    said: null,
  },
  beingAsked: {
    go: async (banner) => {
      await banner.do(...acquire("bob"));
      await banner.do(() => void window.locks.aiko.ask("typo in §2"));
    },
    en: ['Aiko asks: "typo in §2"', "Save and hand over", "Keep editing"],
    ja: ["Aikoさんから依頼：「typo in §2」", "保存して渡す", "編集を続ける"],
    said: "alert",
  },
  handingOver: {
    go: async (banner) => {
      await STATES.beingAsked.go(banner);
      await banner.do(() => (window.banner.hooks = { save: () => new Promise(() => {}) }));
      await banner.press("grant");
    },
    en: ["Saving, then Aiko edits"],
    ja: ["保存してから渡します"],
    said: "status",
  },
  lost: {
    go: async (banner) => {
      await banner.do(...acquire("bob"));
      await banner.do(() => void window.locks.carol.takeOver());
    },
    en: ["Carol took over. Your text is kept here.", "Copy", "Compare", "Ask"],
    ja: ["Carolさんが引き継ぎました。入力内容はこの画面に残っています", "コピー", "差分", "編集を依頼"],
    said: "alert",
  },
  offline: {
    attributes: ["offline"],
    go: (banner) => banner.do(...acquire("bob")),
    en: [/^Offline. You can edit until \d\d:\d\d:25$/],
    ja: [/^オフラインです。\d\d:\d\d:25まで編集できます$/],
    said: "status",
  },
  newer: {
    version: "3",
    go: async (banner) => {
      await banner.do(...acquire("aiko"));
      await banner.do(() => void window.locks.aiko.release({ documentVersion: "4" }));
    },
    en: ["Aiko finished. A newer version exists.", "Load and edit"],
    ja: ["編集が終わりました。新しい版があります", "読み込んで編集"],
    said: "status",
  },
  viewOnly: { attributes: ["view-only"], go: async () => {}, en: ["You may view only"], ja: ["閲覧権限のみです"], said: null },
};

/** Colours have nothing to do with languages: one of each is enough. */
const THEMES = { en: "light", ja: "dark" };

async function everyState(language) {
  for (const [name, { state = name, go, said, attributes, version, [language]: expected }] of Object.entries(STATES)) {
    await world(
      async (banner, page) => {
        await go(banner);
        const [text, ...actions] = expected;
        const shown = await page.evaluate(() => window.banner.shadowRoot.querySelector(".text").textContent);
        if (text instanceof RegExp) assert.match(shown, text, name);
        await banner.shows(state, text instanceof RegExp ? shown : text, actions);
        const last = (await banner.said()).at(-1);
        // What was said before this state may still stand there, but it is not this state's.
        if (said === null) assert.ok(last?.[1] !== shown, `${name}: ${last}`);
        else assert.deepEqual([name, last?.[0]], [name, said]);
        if (!(text instanceof RegExp) && said !== null) assert.equal(last[1], shown);
        await accessible(page, `${name} in ${language}, ${THEMES[language]}`);
      },
      { language, attributes, version, media: { colorScheme: THEMES[language] } },
    );
  }
}

await run([
  async function every_state_is_said_in_english_with_its_actions_and_announced_as_it_should() {
    await everyState("en");
  },

  async function every_state_is_said_in_japanese_with_its_actions_and_announced_as_it_should() {
    await everyState("ja");
  },

  async function live_regions_are_there_and_empty_at_load() {
    await world(async (_, page) => {
      assert.deepEqual(await page.evaluate(() => window.atLoad), [["status", ""], ["alert", ""]]);
    });
  },

  async function a_countdown_is_announced_at_its_start_and_at_10_s_and_not_each_second() {
    await world(async (banner) => {
      await STATES.slow.go(banner);
      for (let second = 0; second < 18; second += 1) await banner.pass(1_000);
      const said = (await banner.said()).map(([, text]) => text).filter((text) => text.startsWith("Connection"));
      assert.deepEqual(said, ["Connection is slow. You can edit for 20 s more", "Connection is slow. You can edit for 10 s more"]);
    });
  },

  async function a_heartbeat_that_is_answered_late_shows_a_slow_connection_and_the_answer_ends_it() {
    await world(async (banner, page) => {
      await banner.do(...acquire("bob"));
      await banner.do(() => window.tabs.bob.cut());
      await banner.pass(20_500);
      assert.equal(await page.evaluate(() => window.banner.state), "slow");
      await banner.do(() => window.tabs.bob.restore());
      await banner.pass(4_000);
      await banner.shows("mine", "You are editing", ["Done"]);
    });
  },

  async function each_change_of_place_in_line_is_announced() {
    await world(async (banner) => {
      await STATES.waiting.go(banner);
      await banner.do(() => void window.locks.carol.cancelWait());
      const said = (await banner.said()).map(([, text]) => text);
      assert.deepEqual(said.slice(-2), ["2nd in line. Editing starts here by itself.", "1st in line. Editing starts here by itself."]);
    });
  },

  async function a_button_that_has_the_focus_is_disabled_instead_of_taken_away() {
    await world(async (banner, page) => {
      await banner.do(...acquire("aiko"));
      const ask = page.locator("doclock-banner [data-action=ask]");
      await ask.focus();
      await banner.do(() => void window.locks.aiko.release());
      await banner.shows("free", "Nobody is editing. Type to start.", []);
      assert.equal(await ask.getAttribute("aria-disabled"), "true");
      assert.equal(await page.evaluate(() => window.banner.shadowRoot.activeElement?.dataset.action), "ask");
      await page.keyboard.press("Enter");
      await banner.pass(200);
      assert.equal(await page.evaluate(() => window.banner.shadowRoot.querySelector("form").hidden), true);
      await page.locator("textarea").focus();
      await banner.pass(0);
      assert.equal(await ask.count(), 0);
    });
  },

  async function no_button_moves_away_while_another_is_pressed() {
    await world(
      async (banner, page) => {
        await STATES.beingAsked.go(banner);
        await page.locator("doclock-banner [data-action=keep]").focus();
        await banner.do(() => void window.locks.aiko.cancelAsk());
        const done = page.locator("doclock-banner [data-action=done]");
        const before = await done.boundingBox();
        await page.mouse.move(before.x + before.width - 4, before.y + 4);
        await page.mouse.down();
        await banner.pass(0);
        assert.deepEqual(await done.boundingBox(), before);
        await page.mouse.up();
        await banner.pass(200);
        assert.equal(await page.evaluate(() => window.server.lockOf("minutes")), null);
      },
      { media: { viewport: { width: 300, height: 600 } } },
    );
  },

  async function the_focus_stays_where_it_is_whatever_happens() {
    await world(async (banner, page) => {
      await page.locator("textarea").focus();
      await STATES.beingAsked.go(banner);
      await banner.do(() => void window.locks.carol.takeOver());
      await banner.do(() => void window.locks.carol.release());
      assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
    });
  },

  async function f6_leads_to_an_ask_and_back() {
    await world(async (banner, page) => {
      await page.locator("textarea").focus();
      await page.keyboard.press("F6");
      assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
      await STATES.beingAsked.go(banner);
      await page.keyboard.press("F6");
      assert.equal(await page.evaluate(() => window.banner.shadowRoot.activeElement?.dataset.action), "grant");
      await page.keyboard.press("F6");
      assert.equal(await page.evaluate(() => document.activeElement.tagName), "TEXTAREA");
    });
  },

  async function handing_over_saves_first_and_leaves_the_version() {
    await world(async (banner, page) => {
      await STATES.beingAsked.go(banner);
      await banner.press("grant");
      await banner.shows("theirs", "Aiko is editing (active now). You can read.", ["Ask", "Wait in line"]);
      assert.equal(await page.evaluate(() => window.saves.length), 1);
      const { version, holder } = await page.evaluate(() => ({
        version: window.locks.aiko.getSnapshot().documentVersion,
        holder: window.server.lockOf("minutes").ownerId,
      }));
      assert.deepEqual([version, holder], ["7", "aiko"]);
    });
  },

  async function a_save_that_fails_hands_nothing_over_and_says_so() {
    await world(async (banner, page) => {
      await STATES.beingAsked.go(banner);
      await page.evaluate(() => (window.saveFails = true));
      await banner.press("grant");
      await banner.shows("beingAsked", 'Aiko asks: "typo in §2"', ["Save and hand over", "Keep editing"]);
      assert.equal(await banner.note(), messages.en.failed({ code: "SAVE_FAILED" }));
      assert.equal(await page.evaluate(() => window.server.lockOf("minutes").ownerId), "bob");
    });
  },

  async function keeping_the_lock_sends_the_note_and_the_one_who_asked_hears_it() {
    await world(async (banner, page) => {
      await banner.do(...acquire("aiko"));
      await banner.press("ask");
      await page.keyboard.type("please");
      await page.keyboard.press("Enter");
      await banner.pass(200);
      await banner.said();
      await banner.do(() => {
        const [ask] = window.locks.aiko.getSnapshot().asks;
        window.askedWith = ask.message;
        void window.locks.aiko.answer(ask.handoverId, false, { message: "five minutes" });
      });
      assert.equal(await page.evaluate(() => window.askedWith), "please");
      assert.equal(await banner.note(), 'Aiko keeps editing: "five minutes"');
      assert.deepEqual((await banner.said())[0], ["status", 'Aiko keeps editing: "five minutes"']);
    });
    await world(async (banner, page) => {
      await STATES.beingAsked.go(banner);
      await banner.press("keep");
      await page.keyboard.type("not yet");
      await page.keyboard.press("Enter");
      await banner.pass(200);
      await banner.shows("mine", "You are editing", ["Done"]);
      assert.equal(await page.evaluate(() => window.locks.aiko.getSnapshot().asked), null);
    });
  },

  async function the_buttons_do_what_they_say() {
    await world(async (banner, page) => {
      const holder = () => page.evaluate(() => window.server.lockOf("minutes")?.ownerId ?? null);
      await STATES.waiting.go(banner);
      await banner.press("leave");
      assert.equal(await page.evaluate(() => window.banner.state), "theirs");
      await banner.do(() => void window.locks.aiko.release());
      await banner.do(() => void window.locks.carol.release());
      await banner.do(...acquire("bob2"));
      await banner.press("editHere");
      await banner.shows("mine", "You are editing", ["Done"]);
      await banner.press("done");
      assert.equal(await holder(), null);
      await banner.do(...acquire("aiko"));
      await banner.press("ask");
      await page.keyboard.press("Enter");
      await banner.pass(200);
      await banner.press("cancel");
      assert.equal(await page.evaluate(() => window.locks.aiko.getSnapshot().asks.length), 0);
    });
    await world(async (banner, page) => {
      await STATES.lost.go(banner);
      await banner.press("copy");
      await page.waitForFunction(() => window.banner.shadowRoot.querySelector(".note").textContent === "Copied");
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "what was typed");
      await banner.press("compare");
      assert.equal(await page.evaluate(() => window.compared), true);
    });
    await world(
      async (banner, page) => {
        await STATES.newer.go(banner);
        await banner.press("load");
        assert.equal(await page.evaluate(() => window.locks.bob.getSnapshot().canEdit), true);
      },
      { version: "3" },
    );
  },

  async function the_title_calls_when_it_is_ones_turn_until_one_does_something() {
    await world(async (banner, page) => {
      await STATES.yourTurn.go(banner);
      assert.equal(await page.title(), "● Your turn · minutes");
      await page.keyboard.press("Shift");
      await banner.pass(0);
      assert.equal(await page.title(), "minutes");
      await banner.shows("mine", "You are editing", ["Done"]);
    });
  },

  async function the_ring_is_for_the_eye_only_and_refills_with_each_heartbeat() {
    await world(async (banner, page) => {
      await banner.do(...acquire("bob"));
      const ring = () =>
        page.evaluate(() => {
          const svg = window.banner.shadowRoot.querySelector("svg");
          const [animation] = svg.querySelector(".left").getAnimations();
          window.animations ??= new Set();
          window.animations.add(animation);
          return [svg.getAttribute("aria-hidden"), svg.hasAttribute("hidden"), Math.round(animation.effect.getTiming().duration / 1000), window.animations.size];
        });
      assert.deepEqual(await ring(), ["true", false, 25, 1]);
      await banner.pass(10_000);
      assert.deepEqual(await ring(), ["true", false, 25, 2]);
    });
  },

  async function a_name_is_text_and_never_markup() {
    await world(async (banner, page) => {
      await banner.do(...acquire("bob"));
      await banner.do(() => void window.locks.aiko.ask("<img src=x onerror=alert(1)>"));
      await banner.shows("beingAsked", 'Aiko asks: "<img src=x onerror=alert(1)>"', ["Save and hand over", "Keep editing"]);
      assert.equal(await page.evaluate(() => window.banner.shadowRoot.querySelectorAll("img").length), 0);
    });
  },

  async function two_languages_have_the_same_texts() {
    const shape = (value) => (typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, shape(value[key])])) : typeof value);
    assert.deepEqual(shape(messages.en), shape(messages.ja));
  },

  async function importing_it_in_node_does_nothing() {
    assert.equal(typeof (await import("../../../static/client/banner.js")).DocLockBanner, "function");
  },
]);
await browser.close();
