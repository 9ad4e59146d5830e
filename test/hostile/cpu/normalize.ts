// Canonical ordering of many combining marks takes quadratic time inside one builtin.
import { testAttack } from "../support.ts";

testAttack("a quadratic String.prototype.normalize", {
  source: `export default async () => { const marks = ('\\u0315'.repeat(50) + '\\u0300'.repeat(50)).repeat(20_000); for (;;) marks.normalize('NFD'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
