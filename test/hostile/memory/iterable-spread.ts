// A spread reads the iterator until it ends.
import { testAttack } from "../support.ts";

testAttack("a spread of an endless iterator", {
  source: `export default () => [...(function* () { for (;;) yield {}; })()].length;`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
