// Case mapping by a locale's rules is one call of ICU over the whole text.
import { testAttack } from "../support.ts";

testAttack("toLocaleUpperCase of giant texts", {
  source: `export default () => { const text = '\\u1fb3\\ufb03'.repeat(2 ** 21); for (;;) text.toLocaleUpperCase('lt'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
