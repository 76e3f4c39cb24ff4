// What the clients in JavaScript share: the server by HTTP, and a way to run tests.
//
// SERVER_URL, EDITOR_TOKEN and ADMIN_TOKEN are a running server and tokens for it, CLIENT_MODULES the folder whose
// node_modules has the clients.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { resolve } from "node:path";

export const url = process.env.SERVER_URL;
export const editor = process.env.EDITOR_TOKEN;
const admin = process.env.ADMIN_TOKEN;

export const foreign = createRequire(resolve(process.env.CLIENT_MODULES, "from.here"));

async function call(method, path, token) {
  const answer = await fetch(url + path, { method, headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
  return answer.json();
}

// Of one test alone.
export class Room {
  name = `javascript-${randomUUID()}`;

  lock() {
    return call("POST", `/api/documents/${this.name}/lock`, editor);
  }

  unlock() {
    return call("DELETE", `/api/documents/${this.name}/lock`, editor);
  }

  async log() {
    const { items } = await call("GET", `/api/admin/events?room=${this.name}`, admin);
    return items.map(inShort);
  }
}

export const inShort = ({ sequence, type }) => `${sequence} ${type}`;

export const isPresence = ({ type }) => type.startsWith("Participant");

// Each test by its name; how many passed is the last line.
export async function run(tests, mostSeconds = 60) {
  let failed = 0;
  for (const test of tests) {
    try {
      await within(mostSeconds, test());
      console.log(`ok      ${test.name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${test.name}\n${error.stack}`);
    }
  }
  console.log(`${tests.length - failed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

export function within(seconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
