// A suspended generator keeps its frame, and all its registers.
import { testAttack } from "../support.ts";

testAttack("suspended generators, kept", {
  source: `function* hold() { const [a, b, c, d, e, f, g, h] = new Array(50).fill(1.5); yield [a, b, c, d, e, f, g, h]; }
export default () => { const all = []; for (;;) { const one = hold(); one.next(); all.push(one); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
