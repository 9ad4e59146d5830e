// The plainest: a loop without end.
import { testAttack } from "../support.ts";

testAttack("a loop without end", {
  source: `export default async () => { for (;;); };`,
  codes: ["TOOL_TIMEOUT"],
});
