// String.raw walks the length that a raw object states; each step adds nothing, so memory never ends it.
import { testAttack } from "../support.ts";

testAttack("String.raw over 2 ** 53 - 1 empty pieces", {
  source: `export default () => String.raw({ raw: { length: 2 ** 53 - 1, get 0() { return ''; } } }).length;`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
