// Far indices turn an array into a dictionary, near ones turn it back into an array: 2 ** 25 elements for one.
import { testAttack } from "../support.ts";

testAttack("sparse arrays that turn dense", {
  source: `export default () => { const all = []; for (;;) { const list = []; list[2 ** 25 - 1] = 1; list.length = 2 ** 25; list.fill(1.5, 0, 2 ** 25); all.push(list); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
