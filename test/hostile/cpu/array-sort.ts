// Sorting first copies as many elements as the length claims.
import { testAttack } from "../support.ts";

testAttack("sort over a claimed length", {
  source: `export default () => { Array.prototype.sort.call({ length: 2 ** 53 - 1, 0: 2, 1: 1 }); };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
