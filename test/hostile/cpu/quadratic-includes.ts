// A search that takes quadratic time inside one builtin, without an interrupt until it ends.
import { testAttack } from "../support.ts";

testAttack("a quadratic String.prototype.includes", {
  source: `export default async () => { const hay = 'ab'.repeat(2 ** 22); for (;;) hay.includes('ba'.repeat(2 ** 20) + 'c'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
