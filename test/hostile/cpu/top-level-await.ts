// A top level that awaits what never comes: addTool must come back, and nothing may be left of it.
import { testAttack } from "../support.ts";

testAttack("a top-level await that never settles", {
  source: `await new Promise(() => {});
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
