// A callee that never ends: it ends with its caller's time, and its caller with it.
import { testAttack } from "../support.ts";

testAttack("a callee that loops for ever", {
  source: "export default (_, { tools }) => tools.loops()",
  others: { loops: "export default () => { for (;;); }" },
  features: ["tools"],
  codes: ["TOOL_TIMEOUT"],
  timeoutMs: 1_000,
});
