// The author picks both the pattern and the text: backtracking on the host would stop everybody.
import { testAttack } from "../support.ts";

testAttack("an output schema whose pattern backtracks without end", {
  source: `export const outputSchema = { type: 'object', properties: { s: { type: 'string', pattern: '^(a+)+$' } } };
export default () => ({ s: 'a'.repeat(5_000) + '!' });`,
  codes: ["OUTPUT_INVALID", "BUNDLE_FAILED"],
});
