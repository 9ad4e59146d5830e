// Like array-index-of, while the definition is extracted: addTool must return, and the process must end.
import { testAttack } from "../support.ts";

testAttack("indexOf over 2 ** 53 - 1 holes at the top level", {
  source: `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
