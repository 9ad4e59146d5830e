// A guest comparator inside a native sort, in an endless loop.
import { testAttack } from "../support.ts";

testAttack("a typed array sorted by a comparator that never agrees with itself", {
  source: `export default () => { const list = new Float64Array(2e6); for (;;) list.sort(() => Math.random() - 0.5); };`,
  codes: ["TOOL_TIMEOUT"],
});
