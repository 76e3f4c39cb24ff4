// What the demo says beyond the banner, in English and Japanese.

import { en } from "./messages/en.js";
import { ja } from "./messages/ja.js";

/** @type {Record<import("/client/messages.js").Language, typeof en>} */
export const demoMessages = { en, ja };
