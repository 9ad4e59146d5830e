// ICU splits a giant text into words in one call.
import { testAttack } from "../support.ts";

testAttack("Intl.Segmenter over a giant text", {
  source: `export default () => { const text = 'a\\u0301\\u200d'.repeat(2 ** 21); const segmenter = new Intl.Segmenter('th', { granularity: 'word' }); for (;;) segmenter.segment(text).containing(text.length - 1); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
