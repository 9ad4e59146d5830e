// A schema library converts itself to JSON Schema while the definition is extracted.
import { testAttack } from "../support.ts";

testAttack("a library whose JSON Schema conversion loops", {
  source: `export const inputSchema = { '~standard': { version: 1, vendor: 'evil', validate: (value) => ({ value }), jsonSchema: { input() { for (;;); } } } };
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
