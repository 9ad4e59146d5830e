// A top-level await that never settles: addTool must return, and its process must end.
import { testAttack } from "../support.ts";

testAttack("a top-level await that never settles", {
  source: `await new Promise(() => {});
export default () => 1;`,
  codes: ["TOOL_TIMEOUT"],
  limits: { timeoutMs: 1_000 },
});
