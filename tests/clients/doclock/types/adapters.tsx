// The adapters as a user of each framework would write them. Checked, not run; ../adapter_types.test.mjs puts it where the
// frameworks' own types are found.

import { createApp } from "vue";
import { createDocLock } from "./client/doclock.js";
import { DocLockContext, useDocLock, useRoom } from "./client/react.js";
import * as svelte from "./client/svelte.js";
import * as vue from "./client/vue.js";

const client = createDocLock({ token: "…" });

export function Editor({ room }: { room: string }) {
  const { canEdit, holder, acquire, release, state } = useDocLock(room, { document: "intro", onReadonly: ({ reason }) => alert(reason) });
  const { participants } = useRoom(room);
  return (
    <DocLockContext.Provider value={client}>
      <textarea readOnly={!canEdit} onFocus={() => acquire()} onBlur={() => release()} />
      {state} {holder?.name} {participants.length}
    </DocLockContext.Provider>
  );
}

createApp({}).provide(vue.docLockKey, client);
const { handle, snapshot } = vue.useDocLock(() => "minutes", { document: "intro" });
export const inVue: boolean = snapshot.value.canEdit && vue.useRoom("minutes").value.locks.length > 0;
handle.value.acquire({ wait: true });

svelte.setDocLock(client);
const lock = svelte.useDocLock("minutes");
export const stop = lock.subscribe(({ canEdit }) => canEdit && lock.release());

// @ts-expect-error there is no such option
useDocLock("minutes", { ttl: 30 });
