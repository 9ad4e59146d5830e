// A class's static block runs when the module does.
import { testAttack } from "../support.ts";

testAttack("a static block that loops", {
  source: `class Loop { static { for (;;); } }
export default () => Loop;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
