// The guest catches each stack overflow at the end of the stack, where the engine has no room to handle its termination.
import { testAttack } from "../support.ts";

testAttack("stack overflows, caught without end", {
  source: `const deeper = () => { try { deeper(); } catch { deeper(); } };
export default () => { for (;;) try { deeper(); } catch {} };`,
  codes: ["TOOL_TIMEOUT"],
});
