// Copying a million keys costs the host seconds, so the text is limited first.
import { testAttack } from "../support.ts";

testAttack("an object of a million keys", {
  source: `export default async () => { const o = {}; for (let n = 0; n < 1e6; n += 1) o['key' + n] = n; return o; };`,
  codes: ["OUTPUT_TOO_LARGE", "MEMORY_LIMIT", "TOOL_TIMEOUT"],
  limits: { memoryMiB: 256 },
  timeoutMs: 2_000,
});
