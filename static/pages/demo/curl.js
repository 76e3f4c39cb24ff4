// What went over the network as a line for the shell. The token is a variable there, never a value.

/** @typedef {import("./network.js").Entry} Entry */

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** @param {string} method @param {string} path @param {Record<string, unknown>} [body] */
function curl(method, path, body) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(quoted(location.origin + path), "-H", `"Authorization: Bearer $TOKEN"`);
  if (body && method !== "GET") parts.push("-H", quoted("Content-Type: application/json"), "-d", quoted(JSON.stringify(body)));
  return parts.join(" ");
}

/** Which request says the same as a frame. @type {Record<string, [string, string]>} */
const SAME = {
  lock: ["POST", ""],
  wait: ["POST", ""],
  extend: ["PUT", ""],
  unlock: ["DELETE", ""],
  cancel_wait: ["DELETE", ""],
  ask_handover: ["POST", "/handovers"],
  cancel_handover: ["DELETE", "/handovers/"],
  answer_handover: ["POST", "/handovers/"],
};

/** @param {Entry} entry */
export function curlOf({ kind, title, body }) {
  const fields = /** @type {Record<string, any>} */ (body ?? {});
  if (kind === "request") {
    const [method, path] = title.split(" ");
    return curl(method, path, fields);
  }
  if (kind === "socket") return null;
  const { room } = fields;
  if (kind === "received" || title === "subscribe") {
    return room ? `curl -N ${quoted(`${location.origin}/api/rooms/${encodeURIComponent(room)}/events`)} -H "Authorization: Bearer $TOKEN"` : null;
  }
  const same = SAME[title];
  if (!same) return null;
  const { type: _, id: __, room: ___, document = "main", keep: ____, handover_id, ...rest } = fields;
  const path = `/api/documents/${encodeURIComponent(room)}/${encodeURIComponent(document)}/lock${same[1]}`;
  if (title === "wait") rest.wait_ms = 20_000;
  if (title === "answer_handover") return curl("POST", `${path}${handover_id}/answer`, rest);
  return curl(same[0], handover_id ? path + handover_id : path, rest);
}
