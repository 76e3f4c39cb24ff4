import { Refusal } from "./refusal.js";

/**
 * @typedef {import("../../testing.js").FakeTokenOptions} FakeTokenOptions
 * @typedef {{ownerId: string, name: string | null, role: "viewer" | "editor" | "admin", rooms?: string[], permissions: string[],
 *   kind: string, expiresAt: number, issuedAt: number}} Caller
 */

/** @param {unknown} value */
const encode = (value) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value))))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

/** @param {string} text */
const decode = (text) =>
  JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))));

/**
 * A token in the shape of a JWT, which only the fake server believes.
 *
 * @param {number} now
 * @param {string} sub
 * @param {FakeTokenOptions} options
 */
export function makeToken(now, sub, { name = sub, role = "editor", expiresInMs = 3_600_000, ...claims }) {
  const iat = Math.floor(now / 1000);
  return [{ alg: "none" }, { sub, name, role, iat, exp: iat + Math.ceil(expiresInMs / 1000), ...claims }, "fake"].map(encode).join(".");
}

/**
 * @param {string | undefined} token
 * @param {number} now
 * @returns {Caller}
 */
export function readToken(token, now) {
  if (!token) throw new Refusal(401, "TOKEN_MISSING");
  let claims;
  try {
    claims = decode(token.split(".")[1]);
  } catch {
    throw new Refusal(401, "TOKEN_INVALID");
  }
  const { sub, name = null, role = "viewer", rooms, permissions = [], kind = "person", exp, iat = 0 } = claims;
  if (typeof sub !== "string" || typeof exp !== "number") throw new Refusal(401, "TOKEN_INVALID");
  if (now >= exp * 1000) throw new Refusal(401, "TOKEN_EXPIRED");
  return { ownerId: sub, name, role, rooms, permissions, kind, expiresAt: exp * 1000, issuedAt: iat * 1000 };
}

/**
 * @param {Caller} caller
 * @param {string} room
 */
export function mustSee({ rooms }, room) {
  const fits = (/** @type {string} */ glob) => (glob.endsWith("*") ? room.startsWith(glob.slice(0, -1)) : room === glob);
  if (rooms && !rooms.some(fits)) throw new Refusal(403, "ROOM_FORBIDDEN");
}

/** @param {Caller} caller */
export function mustEdit({ role }) {
  if (role === "viewer") throw new Refusal(403, "ROLE_FORBIDS");
}
