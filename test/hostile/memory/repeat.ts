// repeat() makes large strings in one step, outside the limit until the next collection.
import { testAttack } from "../support.ts";

testAttack("large strings, kept", {
  source: `export default async () => { const all = []; for (;;) { const text = 'x'.repeat(2 ** 26 + all.length); text.charCodeAt(5); all.push(text.slice(1), JSON.stringify(text)); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
});
