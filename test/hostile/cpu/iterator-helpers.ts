// Iterator helpers loop inside the engine over an endless iterator.
import { testAttack } from "../support.ts";

testAttack("Iterator.prototype.every over an endless iterator", {
  source: `function* endless() { for (;;) yield 1; }
export default () => Iterator.from(endless()).filter(() => false).every(() => true);`,
  codes: ["TOOL_TIMEOUT"],
});
