// A join computes the length of its result first, and allocates all of it at once.
import { testAttack } from "../support.ts";

testAttack("joins of a hundred million pieces", {
  source: `export default () => { const all = []; for (;;) all.push(Array(2 ** 26).join('abc')); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
