// A search and its replacement that multiply each other, slightly below the memory limit.
import { testAttack } from "../support.ts";

testAttack("a quadratic replaceAll", {
  source: `export default () => { const text = 'ab'.repeat(2 ** 19); for (;;) text.replaceAll('a'.repeat(2 ** 10) + 'b', 'c').replaceAll('b', 'b'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
