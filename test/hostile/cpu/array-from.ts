// Array.from trusts a length, and fills the array one element at a time.
import { testAttack } from "../support.ts";

testAttack("Array.from of a billion elements", {
  source: `export default () => Array.from({ length: 2 ** 32 - 2 }, () => 1).length;`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_FAILED"],
});
