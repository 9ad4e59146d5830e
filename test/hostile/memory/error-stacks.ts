// An error holds the frames of its whole stack.
import { testAttack } from "../support.ts";

testAttack("errors with long stacks, kept", {
  source: `Error.stackTraceLimit = 1e4;
const deep = (n, all) => { if (n === 0) for (;;) all.push(new Error('x')); return deep(n - 1, all) + 1; };
export default () => deep(3_000, []);`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
