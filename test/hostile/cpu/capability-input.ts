// A capability's input is made into JSON by the prelude, in the middle of its own bookkeeping.
import { testAttack } from "../support.ts";

testAttack("a capability input whose toJSON loops", {
  source: `export default (_, ctx) => ctx.log('line', { toJSON() { for (;;); } });`,
  codes: ["TOOL_TIMEOUT"],
});
