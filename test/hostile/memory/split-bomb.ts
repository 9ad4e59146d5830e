// One split() into half a billion pieces aborts the process.
import { testAttack } from "../support.ts";

testAttack("a split into 2 ** 29 pieces", {
  source: `export default async () => { return 'x'.repeat(2 ** 29 - 24).split('').length; };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 1_000,
});
