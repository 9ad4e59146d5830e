// Questions to the worker in a loop: each is short, and there is no end of them.
import { testAttack } from "../support.ts";

testAttack("an endless loop of questions for random bytes and clones of keys", {
  source: `export default async () => { const key = await crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt"]); const bytes = new Uint8Array(65536); for (;;) { crypto.getRandomValues(bytes); try { structuredClone(key); } catch {} } };`,
  codes: ["TOOL_TIMEOUT"],
});
