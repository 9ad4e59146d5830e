// Many small values in the largest text that may be: the host has to parse it.
import { testAttack } from "../support.ts";

testAttack("600,000 keys within the cap", {
  source: `export default async () => { let text = '{'; for (let n = 0; n < 600_000; n += 1) text += '"k' + n + '":1,'; return JSON.parse(text + '"z":1}'); };`,
  codes: ["ok", "OUTPUT_TOO_LARGE", "MEMORY_LIMIT"],
  limits: { memoryMiB: 512, timeoutMs: 10_000 },
});
