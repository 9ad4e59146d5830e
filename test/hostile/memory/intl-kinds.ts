// Every Intl service holds ICU memory that V8 does not count.
import { testAttack } from "../support.ts";

testAttack("all kinds of Intl objects, kept", {
  source: `const kinds = [() => new Intl.Collator('zh-u-co-pinyin'), () => new Intl.NumberFormat('ar', { style: 'currency', currency: 'USD' }), () => new Intl.PluralRules('pl'), () => new Intl.ListFormat('he'), () => new Intl.Segmenter('th', { granularity: 'word' }), () => new Intl.DisplayNames('ja', { type: 'region' }), () => new Intl.RelativeTimeFormat('ru'), () => new Intl.Locale('en-u-ca-chinese'), () => new Intl.DurationFormat('fa')];
export default () => { const all = []; for (;;) for (const kind of kinds) { const made = kind(); made.segment?.('a b c').containing(1); made.compare?.('a', 'b'); all.push(made); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
