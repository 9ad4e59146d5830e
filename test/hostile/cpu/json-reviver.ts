// A reviver receives the holder and may extend it during the walk.
import { testAttack } from "../support.ts";

testAttack("a reviver that grows the object during the walk", {
  source: `export default () => JSON.parse('[[1],[2]]', function (key, value) { if (Array.isArray(this)) this[1] = [[1], [2]]; return value; }).length;`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "TOOL_FAILED", "SANDBOX_CRASHED"],
});
