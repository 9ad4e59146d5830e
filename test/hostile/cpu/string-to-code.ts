// Compiling a large text cannot be interrupted: only the end of the process stops it.
import { testAttack } from "../support.ts";

testAttack("an endless loop of compiling", {
  source: `export default () => { const text = "a=>".repeat(2_000) + "1;"; for (let n = 0; ; n += 1) (0, eval)(text + n + ";" + text.repeat(20)); };`,
  features: ["stringToCode"],
  codes: ["TOOL_TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
