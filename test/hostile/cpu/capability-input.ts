// The prelude serializes a capability's input while its own state is incomplete.
import { testAttack } from "../support.ts";

testAttack("a capability input whose toJSON loops", {
  source: `export default (_, ctx) => ctx.log('line', { toJSON() { for (;;); } });`,
  codes: ["TOOL_TIMEOUT"],
});
