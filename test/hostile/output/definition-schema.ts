// A tool's schema is hostile input for the host's validator.
import { testAttack } from "../support.ts";

testAttack("an input schema of 5,000 levels", {
  source: `let schema = { type: 'object' }; for (let n = 0; n < 5_000; n += 1) schema = { allOf: [schema, schema] };
export const inputSchema = schema;
export default () => 1;`,
  codes: ["BUNDLE_FAILED", "TOOL_FAILED", "TOOL_TIMEOUT", "MEMORY_LIMIT"],
  limits: { timeoutMs: 1_000 },
});
