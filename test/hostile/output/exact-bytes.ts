// The limit counts bytes and the guest counts UTF-16 units. Characters of three and four bytes test the exact limit.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

const BYTES = 3_002;
const limits = { outputBytes: BYTES };

testAttack("an output of exactly outputBytes, in characters of three bytes", {
  source: `export default () => '\\u20ac'.repeat(1_000);`,
  limits,
  codes: ["ok"],
  check: (result) => expect(Buffer.byteLength(JSON.stringify(outputOf(result)))).toBe(BYTES),
});

testAttack("an output one byte past outputBytes, in fewer UTF-16 units than the limit", {
  source: `export default () => '\\u20ac'.repeat(999) + '\\ud83d\\ude00';`,
  limits,
  codes: ["OUTPUT_TOO_LARGE"],
});
