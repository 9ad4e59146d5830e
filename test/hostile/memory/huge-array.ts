// One array of 8 GB: V8 aborts the process, or freezes the thread.
import { testAttack } from "../support.ts";

testAttack("Array(1e9).fill(0)", {
  source: `export default async () => { return Array(1e9).fill(0).length; };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 1_000,
});
