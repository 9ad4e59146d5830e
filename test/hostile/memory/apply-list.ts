// apply() allocates a list of as many arguments as a length claims, in native memory.
import { testAttack } from "../support.ts";

testAttack("apply with a hundred million arguments", {
  source: `export default () => { for (;;) for (const length of [2 ** 26, 2 ** 32 - 1]) try { Reflect.apply(Math.max, null, { length }); String.fromCharCode.apply(null, { length }); } catch {} };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
