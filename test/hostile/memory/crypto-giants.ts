// Bytes and keys are in the worker process, outside the memory limit of the isolate that requested them.
import { testAttack } from "../support.ts";

testAttack("the largest operations and the largest number of keys", {
  source: `export default async () => { const { subtle } = crypto; const big = new Uint8Array(16 * 2 ** 20); const keys = []; for (;;) { const key = await subtle.importKey("raw", big.subarray(0, 2 ** 20), { name: "HMAC", hash: "SHA-1" }, true, ["sign"]).catch(() => undefined); if (key !== undefined) keys.push(key); void Promise.all(Array.from({ length: 8 }, () => subtle.digest("SHA-1", big))).catch(() => {}); await subtle.generateKey({ name: "HMAC", hash: "SHA-1", length: 2 ** 32 - 8 }, true, ["sign"]).catch(() => {}); await subtle.digest({ name: "TurboSHAKE128", outputLength: 2 ** 32 - 8 }, big).catch(() => {}); } };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED"],
  timeoutMs: 1_000,
});
