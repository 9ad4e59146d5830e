// A BigInt that squares itself: each step is one builtin that takes longer than the last.
import { testAttack } from "../support.ts";

testAttack("a BigInt that squares itself", {
  source: `export default async () => { let big = 3n; for (;;) big *= big; };`,
  codes: ["TOOL_TIMEOUT", "TOOL_FAILED", "MEMORY_LIMIT", "SANDBOX_CRASHED"],
});
