// JSON.parse of deeply nested text fills the stack or the heap of the tool itself.
import { testAttack } from "../support.ts";

testAttack("JSON.parse of ten million brackets", {
  source: `export default async () => { return JSON.parse('['.repeat(1e7) + ']'.repeat(1e7)).length; };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED", "ok"],
});
