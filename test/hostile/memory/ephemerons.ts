// Ephemerons that each keep the next alive make every garbage collection quadratic.
import { testAttack } from "../support.ts";

testAttack("a chain of WeakMap entries", {
  source: `export default () => { const map = new WeakMap(); const first = {}; let last = first; for (;;) { const next = { pad: [1, 2, 3] }; map.set(last, next); last = next; } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
