// An editor in Vue, without templates so that it needs no compiler.

import { createApp, h } from "vue";
import { createDocLock } from "../../../../static/client/doclock.js";
import { docLockKey, useDocLock, useRoom } from "../../../../static/client/vue.js";

const { url, token, room } = window.settings;

const Editor = {
  setup() {
    const { handle, snapshot } = useDocLock(room, { onReadonly: ({ reason }) => (window.readonly = reason) });
    const people = useRoom(() => room);
    return () => [
      h("textarea", { readOnly: !snapshot.value.canEdit }),
      h("button", { onClick: () => handle.value.acquire().catch(() => {}) }, "Edit"),
      h("button", { onClick: () => handle.value.release() }, "Done"),
      h("p", { role: "status" }, `${snapshot.value.state} ${snapshot.value.holder?.name ?? "nobody"} ${people.value.participants.length}`),
    ];
  },
};

createApp(Editor).provide(docLockKey, createDocLock({ url, token })).mount("main");
