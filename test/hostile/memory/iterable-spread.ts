// A spread asks for one more until there is no more.
import { testAttack } from "../support.ts";

testAttack("a spread of what never ends", {
  source: `export default () => [...(function* () { for (;;) yield {}; })()].length;`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
