// An editor in React, mounted twice as StrictMode does, with callbacks that are new ones at each render.

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { createDocLock } from "../../../../static/client/doclock.js";
import { DocLockContext, useDocLock, useRoom } from "../../../../static/client/react.js";

const { url, token, room, acquireAtMount } = window.settings;
const client = createDocLock({ url, token });
window.renders = 0;

function Editor() {
  const [text, setText] = useState("");
  const { canEdit, state, holder, acquire, release } = useDocLock(room, {
    onReadonly: ({ reason }) => (window.readonly = `${reason} after ${text.length} letters`),
  });
  const { participants } = useRoom(room);
  window.renders += 1;
  // Against the advice to lock at the first key, because it is done, and StrictMode must not break it.
  useEffect(() => {
    if (!acquireAtMount) return;
    acquire().catch(() => {});
    return () => void release().catch(() => {});
  }, [acquire, release]);
  return (
    <>
      <textarea readOnly={!canEdit} value={text} onChange={({ target }) => setText(target.value)} />
      <button onClick={() => acquire().catch(() => {})}>Edit</button>
      <button onClick={() => release()}>Done</button>
      <p role="status">{`${state} ${holder?.name ?? "nobody"} ${participants.length}`}</p>
    </>
  );
}

createRoot(document.querySelector("main")).render(
  <StrictMode>
    <DocLockContext.Provider value={client}>
      <Editor />
    </DocLockContext.Provider>
  </StrictMode>,
);
