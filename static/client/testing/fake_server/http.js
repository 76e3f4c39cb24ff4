import { iso } from "./engine.js";
import { Refusal, mustKnow } from "./refusal.js";
import { FIELDS } from "./socket.js";
import { mustEdit, mustSee, readToken } from "./tokens.js";

/**
 * @typedef {import("./engine.js").Document} Document
 * @typedef {import("./engine.js").Fields} Fields
 * @typedef {import("./engine.js").Lock} Lock
 * @typedef {import("./server.js").Server} Server
 * @typedef {import("./tokens.js").Caller} Caller
 * @typedef {{server: Server, caller: Caller, doc: Document, fields: Fields, seat: object, id: string, query: URLSearchParams}} Call
 */

const without = (/** @type {string[]} */ fields, /** @type {string[]} */ ...names) => fields.filter((field) => !names.includes(field));

/** @type {Record<string, {takes?: string[], isRead?: true, run: (call: Call) => unknown}>} */
const ROUTES = {
  "POST lock": { takes: [...without(FIELDS.lock, "keep"), "wait_ms"], run: (call) => (call.fields.wait_ms ? longPoll(call) : lock(call)) },
  "PUT lock": { takes: without(FIELDS.extend, "keep"), run: ({ server, caller, doc, fields }) => server.engine.extend(caller, doc, fields) },
  "DELETE lock": { takes: FIELDS.unlock, run: ({ server, caller, doc, fields }) => server.engine.unlock(caller, doc, fields) },
  "GET lock": { isRead: true, run: look },
  "POST lock/release": {
    takes: ["lease_id", "hold", "linger_ms", "access_token"],
    run: ({ server, caller, doc, fields }) => server.engine.release(caller, doc, fields),
  },
  "POST lock/verify": {
    takes: ["fencing_token"],
    isRead: true,
    run: ({ doc, fields }) => ({ valid: doc.lock?.token === fields.fencing_token, current_token: doc.token }),
  },
  "POST lock/handovers": {
    takes: FIELDS.ask_handover,
    run: ({ server, caller, doc, fields }) => server.engine.handovers.ask(caller, doc, fields, () => {}),
  },
  "GET lock/handovers": { run: ({ server, id, query }) => server.engine.handovers.look(id, Number(query.get("wait_ms") ?? 0)) },
  "DELETE lock/handovers": { run: ({ server, caller, id }) => server.engine.handovers.cancel(caller, id) },
  "POST lock/handovers/answer": {
    takes: without(FIELDS.answer_handover, "handover_id"),
    run: ({ server, caller, doc, fields, id }) => server.engine.handovers.answer(caller, doc, { ...fields, handover_id: id }),
  },
};

/**
 * @param {Server} server
 * @param {string} url
 * @param {{method: string, headers?: Record<string, string>, body?: string}} request
 * @returns {Promise<{status: number, body: Fields}>}
 */
export async function answer(server, url, { method, headers = {}, body }) {
  const server_time = () => iso(server.clock.now());
  try {
    const { pathname, searchParams: query } = new URL(url);
    const [, room, document, route, id] = pathname.match(/^\/api\/documents\/([^/]+)\/([^/]+)\/(lock(?:\/release|\/verify|\/handovers)?)(?:\/(.+))?$/) ?? [];
    const tail = id?.endsWith("/answer") ? "/answer" : "";
    const found = ROUTES[`${method} ${route}${tail}`];
    if (!found) throw new Refusal(404, "NOT_FOUND");
    const fields = /** @type {Fields} */ (JSON.parse(body || "{}"));
    const caller = readToken(headers.authorization?.replace("Bearer ", "") ?? fields.access_token, server.clock.now());
    server.mustNotBeRevoked(caller);
    mustSee(caller, decodeURIComponent(room));
    mustKnow(fields, found.takes ?? []);
    if (!found.isRead) mustEdit(caller);
    const doc = server.engine.document(decodeURIComponent(room), decodeURIComponent(document));
    const call = { server, caller, doc, fields, seat: {}, id: id?.replace("/answer", "") ?? "", query };
    const told = /** @type {Fields} */ (await found.run(call));
    return { status: 200, body: { server_time: server_time(), ...told } };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { status: error.problem.status, body: { type: `urn:doclock:problem:${error.problem.code}`, ...error.problem, server_time: server_time() } };
  }
}

/** @param {Call} call */
const lock = ({ server, caller, doc, fields }) => server.engine.lock(caller, doc, fields);

/** @param {Call} call */
function look({ server: { engine }, caller, doc }) {
  return { lock: doc.lock && engine.view(doc.lock, caller), waiting: doc.line.length, last_token: doc.token };
}

/** Stands in line for as long as the request says. @param {Call} call */
async function longPoll({ server, caller, doc, fields, seat }) {
  const { engine, clock } = server;
  const granted = new Promise((/** @type {(lock?: Lock) => void} */ resolve) => {
    const told = engine.wait(caller, doc, fields, seat, resolve);
    if (told.granted) resolve(/** @type {Lock} */ (doc.lock));
    else clock.setTimeout(() => resolve(), fields.wait_ms);
  });
  const lock = await granted;
  engine.left(seat, { keepsPlace: true });
  if (!lock) throw engine.held(caller, doc, fields.session_id ?? null);
  // The answer claims what was granted.
  const { session_id } = fields;
  return engine.extend(caller, doc, { lease_id: lock.leaseId, session_id });
}
