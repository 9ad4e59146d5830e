// An output that violates its schema a million times. Only a few, short issues are reported.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a million values that violate the schema", {
  source: `export const outputSchema = { type: 'array', items: { type: 'object', additionalProperties: false, required: ['id'] } };
export default () => Array.from({ length: 2e5 }, () => ({ x: 'y' }));`,
  codes: ["OUTPUT_INVALID", "MEMORY_LIMIT"],
  check: (result) => expect(JSON.stringify(result).length).toBeLessThan(20_000),
});
