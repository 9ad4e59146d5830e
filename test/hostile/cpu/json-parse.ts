// Parses a large text repeatedly, so that most of the loop is inside one builtin.
import { testAttack } from "../support.ts";

testAttack("JSON.parse of a large text, without end", {
  source: `export default async () => { const text = '[' + '[],'.repeat(300_000) + '0]'; for (;;) JSON.parse(text); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
