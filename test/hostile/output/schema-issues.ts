// Issues that the tool's own schema reports are untrusted text.
import { testAttack } from "../support.ts";

testAttack("a million issues with endless paths", {
  source: `export const inputSchema = { '~standard': { version: 1, vendor: 'evil', validate: () => ({ issues: Array.from({ length: 1e5 }, () => ({ message: 'm'.repeat(1e4), path: Array.from({ length: 200 }, () => 'p'.repeat(1e3)) })) }) } };
export default () => 1;`,
  codes: ["PARAM_INVALID", "MEMORY_LIMIT", "TOOL_TIMEOUT", "SANDBOX_CRASHED"],
});
