// Who this tab is: a name and a token that is good for rooms `demo-*` only. Kept in sessionStorage, so that it ends with
// the tab and no other tab has it by chance.

import { Drafts } from "./drafts.js";

/** @typedef {{token: string, ownerId: string, name: string, endsAt: number}} DemoSession */

const KEY = "doclock-demo.session";
/** Of doclock.js: the tab's session id and what it held. */
const OTHERS = ["doclock.session", "doclock.held"];

export class NoDemo extends Error {}

/**
 * Who this tab was before a reload. A window that was opened for someone new (`?as=new`) forgets whatever was copied to
 * it, one that was opened as another tab of the same person (`?as=me`) keeps the name only.
 *
 * @param {Storage} storage
 * @param {Location} location
 * @returns {DemoSession | null}
 */
export function sessionOf(storage, location) {
  const url = new URL(location.href);
  const as = url.searchParams.get("as");
  if (as !== null) {
    Drafts.clear(storage);
    for (const key of OTHERS) storage.removeItem(key);
    if (as === "new") storage.removeItem(KEY);
    url.searchParams.delete("as");
    history.replaceState(null, "", url);
  }
  const session = JSON.parse(storage.getItem(KEY) ?? "null");
  return session && session.endsAt > Date.now() ? session : null;
}

/** @param {Storage} storage */
export const forget = (storage) => storage.removeItem(KEY);

/**
 * @param {typeof fetch} fetch
 * @param {Storage} storage
 * @param {string} name
 * @returns {Promise<DemoSession>}
 */
export async function join(fetch, storage, name) {
  const answer = await fetch("/api/demo/sessions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name }),
  });
  if (answer.status === 404) throw new NoDemo();
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.detail ?? told.code);
  const session = { token: told.token, ownerId: told.owner_id, name: told.name, endsAt: Date.now() + told.expires_in_ms };
  storage.setItem(KEY, JSON.stringify(session));
  return session;
}
