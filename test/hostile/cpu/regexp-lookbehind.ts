// Backtracking inside a lookbehind, repeated at each position by the sticky flag.
import { testAttack } from "../support.ts";

testAttack("a lookbehind that backtracks without end", {
  source: `export default () => { const pattern = /(?<=^(\\w+\\s?)+)!/y; const text = 'a'.repeat(60) + ' !'; for (let at = 0; ; at = (at + 1) % 60) { pattern.lastIndex = 60 - at; pattern.test(text + '?'); /(?<!(?:x+x+)+y)$/.test('x'.repeat(60)); } };`,
  codes: ["TOOL_TIMEOUT"],
});
