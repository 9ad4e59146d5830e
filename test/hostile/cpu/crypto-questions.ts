// Endless requests to the worker, each of which is short.
import { testAttack } from "../support.ts";

testAttack("an endless loop of requests for random bytes and clones of keys", {
  source: `export default async () => { const key = await crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt"]); const bytes = new Uint8Array(65536); for (;;) { crypto.getRandomValues(bytes); try { structuredClone(key); } catch {} } };`,
  codes: ["TOOL_TIMEOUT"],
});
