// One BigInt may have a billion bits: 128 MiB in one step.
import { testAttack } from "../support.ts";

testAttack("BigInts of a billion bits, kept", {
  source: `export default () => { const all = []; for (let n = 1n; ; n += 1n) all.push(n << (2n ** 30n - 100n)); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
