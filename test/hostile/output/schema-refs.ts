// References that fan out: 2 ** 40 checks of one small value.
import { testAttack } from "../support.ts";

testAttack("an output schema whose references fan out", {
  source: `const $defs = { d0: { type: 'number' } };
for (let n = 1; n < 40; n += 1) $defs['d' + n] = { allOf: [{ $ref: '#/$defs/d' + (n - 1) }, { $ref: '#/$defs/d' + (n - 1) }] };
export const outputSchema = { $defs, $ref: '#/$defs/d39' };
export default () => 1;`,
  codes: ["OUTPUT_INVALID", "BUNDLE_FAILED", "ok"],
});
