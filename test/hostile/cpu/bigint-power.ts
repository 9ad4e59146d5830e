// One power of a BigInt of millions of digits and its conversion to decimal. Each is a single native operation.
import { testAttack } from "../support.ts";

testAttack("a BigInt of millions of digits as text", {
  source: `export default () => { const big = 3n ** 20_000_000n; for (;;) big.toString(); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
