// Concat spreads what says that it is an array, as far as it says that it goes.
import { testAttack } from "../support.ts";

testAttack("concat of something that says it is an endless array", {
  source: `export default () => { const endless = { length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }; for (;;) try { [].concat(endless); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
