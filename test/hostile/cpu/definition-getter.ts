// The definition is read field by field, and each field may be a getter.
import { testAttack } from "../support.ts";

testAttack("a definition whose getters loop", {
  source: `export default { get description() { for (;;); }, get inputSchema() { for (;;); }, execute: () => 1 };`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
