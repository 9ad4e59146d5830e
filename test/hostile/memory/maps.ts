// Hash tables double in one step.
import { testAttack } from "../support.ts";

testAttack("a Map without end", {
  source: `export default async () => { const map = new Map(); for (let n = 0; ; n += 1) map.set(n, { n }); };`,
  codes: ["MEMORY_LIMIT", "TOOL_TIMEOUT"],
  timeoutMs: 2_000,
});
