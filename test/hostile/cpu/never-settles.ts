// A promise that uses no CPU time and never settles.
import { testAttack } from "../support.ts";

testAttack("a promise that never settles", {
  source: `export default async () => { await new Promise(() => {}); };`,
  codes: ["TOOL_TIMEOUT"],
});
