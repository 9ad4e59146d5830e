// ICU compares two giant texts in one call that cannot be interrupted.
import { testAttack } from "../support.ts";

testAttack("localeCompare of giant texts", {
  source: `export default () => { const text = 'a\\u0323\\u0307'.repeat(2 ** 21); const collator = new Intl.Collator('sv'); for (;;) collator.compare(text + 'x', text + 'y'); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
