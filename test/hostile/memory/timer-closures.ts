// A timer keeps its closure and its arguments until it fires.
import { testAttack } from "../support.ts";

testAttack("timers that each hold a megabyte", {
  source: `export default () => { for (let n = 0; n < 1e3; n += 1) setTimeout((hold) => hold, 1e6, new Array(131_072).fill(n + 0.5)); return new Promise(() => {}); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
