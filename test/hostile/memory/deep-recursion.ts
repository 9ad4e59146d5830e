// Endless recursion ends in an ordinary RangeError.
import { testAttack } from "../support.ts";

testAttack("recursion without end", {
  source: `const deeper = (n) => deeper(n + 1) + 1;
export default () => deeper(0);`,
  codes: ["TOOL_FAILED"],
});
