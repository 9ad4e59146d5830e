// The arguments are the caller's and the schema is the tool's. The host meets a schema that is slow by design before any isolate starts.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("an input schema of 2,000 alternatives", {
  source: `export const inputSchema = { type: 'object', anyOf: Array.from({ length: 2_000 }, (_, n) => ({ oneOf: [{ required: ['k' + n] }, { not: { minProperties: 0 } }], description: 'x'.repeat(20) })) };
export default () => 1;`,
  codes: ["PARAM_INVALID", "BUNDLE_FAILED"],
  check: (result) => expect(JSON.stringify(result).length).toBeLessThan(20_000),
});
