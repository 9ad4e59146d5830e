// An unknown key of several megabytes must not appear in full in the pointer of the issue.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a key of four megabytes that the schema forbids", {
  source: `export const outputSchema = { type: 'object', additionalProperties: false };
export default () => ({ ['k'.repeat(4e6)]: 1 });`,
  codes: ["OUTPUT_INVALID"],
  check: (result) => expect(JSON.stringify(result).length).toBeLessThan(20_000),
});
