// The author controls both the pattern and the text. Backtracking on the host would block all tenants.
import { testAttack } from "../support.ts";

testAttack("an output schema whose pattern backtracks without end", {
  source: `export const outputSchema = { type: 'object', properties: { s: { type: 'string', pattern: '^(a+)+$' } } };
export default () => ({ s: 'a'.repeat(5_000) + '!' });`,
  codes: ["OUTPUT_INVALID", "BUNDLE_FAILED"],
});
