// A suspended call keeps its frame: a million of them wait for one promise.
import { testAttack } from "../support.ts";

testAttack("async calls that all wait", {
  source: `export default async () => { const never = new Promise(() => {}); const all = []; const wait = async (n) => { const pad = new Array(100).fill(n); await never; return pad; }; for (let n = 0; ; n += 1) all.push(wait(n)); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
