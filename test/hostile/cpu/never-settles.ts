// Costs nothing and never ends.
import { testAttack } from "../support.ts";

testAttack("a promise that never settles", {
  source: `export default async () => { await new Promise(() => {}); };`,
  codes: ["TOOL_TIMEOUT"],
});
