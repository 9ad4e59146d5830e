// Locale-aware case mapping is one ICU call over the whole text.
import { testAttack } from "../support.ts";

testAttack("toLocaleUpperCase of giant texts", {
  source: `export default () => { const text = '\\u1fb3\\ufb03'.repeat(2 ** 21); for (;;) text.toLocaleUpperCase('lt'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
