// A reviver is shown the holder, and may make it longer while it is walked.
import { testAttack } from "../support.ts";

testAttack("a reviver that grows what is being walked", {
  source: `export default () => JSON.parse('[[1],[2]]', function (key, value) { if (Array.isArray(this)) this[1] = [[1], [2]]; return value; }).length;`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "TOOL_FAILED", "SANDBOX_CRASHED"],
});
