// padEnd creates the longest possible string in one step, and slices keep it alive.
import { testAttack } from "../support.ts";

testAttack("the longest strings, kept", {
  source: `export default () => { const all = []; for (let n = 0; ; n += 1) { const text = 'é'.padEnd(2 ** 29 - 30 - n, 'ü' + n); all.push(text.slice(1, 20), text); text.at(-1); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
