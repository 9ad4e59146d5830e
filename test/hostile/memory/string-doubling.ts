// Rope strings use almost no memory until they are flattened.
import { testAttack } from "../support.ts";

testAttack("a string that doubles, flattened", {
  source: `export default async () => { let text = 'x'; for (;;) { text += text; if (text.length > 2 ** 28) text = text.slice(1) + text.charCodeAt(text.length - 1); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
});
