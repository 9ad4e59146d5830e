// Each overflow of the stack is caught at its very end: the engine is told to stop where it has no room to.
import { testAttack } from "../support.ts";

testAttack("stack overflows, caught without end", {
  source: `const deeper = () => { try { deeper(); } catch { deeper(); } };
export default () => { for (;;) try { deeper(); } catch {} };`,
  codes: ["TOOL_TIMEOUT"],
});
