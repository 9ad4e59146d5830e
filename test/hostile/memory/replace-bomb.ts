// One replace() whose result V8 cannot hold ends the process with SIGTRAP.
import { testAttack } from "../support.ts";

testAttack("a replace that multiplies", {
  source: `export default async () => { return 'a'.repeat(32768).replace(/a/g, '$&'.repeat(16384)).length; };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 1_000,
});
