// ICU works on its own copy of a text, with at least two bytes per unit, which V8 does not count.
import { testAttack } from "../support.ts";

testAttack("giant strings through ICU", {
  source: `export default () => { const text = 'a\\u0301'.repeat(2 ** 24); for (;;) { text.normalize('NFKD').normalize('NFKC'); text.toLocaleLowerCase('tr'); new Intl.Segmenter('en').segment(text); text.localeCompare(text + 'x', 'de'); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
