// The same while the tool is learned: addTool must come back, and the process must be gone.
import { testAttack } from "../support.ts";

testAttack("indexOf over 2 ** 53 - 1 holes at the top level", {
  source: `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
