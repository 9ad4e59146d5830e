// The cap counts bytes, the guest counts UTF-16 units: characters of three and four bytes at the very edge.
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

testAttack("an output one byte past outputBytes, in fewer units than the cap", {
  source: `export default () => '\\u20ac'.repeat(999) + '\\ud83d\\ude00';`,
  limits,
  codes: ["OUTPUT_TOO_LARGE"],
});
