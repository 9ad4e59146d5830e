// concat spreads any object that claims to be an array, up to the length that it claims.
import { testAttack } from "../support.ts";

testAttack("concat of an object that claims to be an endless array", {
  source: `export default () => { const endless = { length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }; for (;;) try { [].concat(endless); } catch {} };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
