// A sparse array of four billion holes blocks any code that copies it.
import { testAttack } from "../support.ts";

testAttack("a sparse array", {
  source: `export default () => { const holes = []; holes[4e9] = 1; return holes; };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "OUTPUT_TOO_LARGE", "OUTPUT_INVALID", "SANDBOX_CRASHED"],
});
