// String.raw walks the length that a raw object claims. Each step adds nothing, so no memory limit ends it.
import { testAttack } from "../support.ts";

testAttack("String.raw over 2 ** 53 - 1 empty pieces", {
  source: `export default () => String.raw({ raw: { length: 2 ** 53 - 1, get 0() { return ''; } } }).length;`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
