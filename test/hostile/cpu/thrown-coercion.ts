// Converting a thrown value to text runs its conversion methods.
import { testAttack } from "../support.ts";

testAttack("a thrown value whose conversions loop", {
  source: `const loop = () => { for (;;); };
export default () => { throw { [Symbol.toPrimitive]: loop, toString: loop, valueOf: loop, toJSON: loop, get [Symbol.toStringTag]() { return loop(); } }; };`,
  codes: ["TOOL_TIMEOUT", "TOOL_FAILED"],
});
