// V8 calls Error.prepareStackTrace whenever a stack is read, also by the prelude.
import { testAttack } from "../support.ts";

testAttack("a prepareStackTrace that loops", {
  source: `Error.prepareStackTrace = () => { for (;;); };
export default () => { throw new Error('read my stack'); };`,
  codes: ["TOOL_TIMEOUT", "TOOL_FAILED"],
});
