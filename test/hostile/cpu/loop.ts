// The simplest attack: an endless loop.
import { testAttack } from "../support.ts";

testAttack("a loop without end", {
  source: `export default async () => { for (;;); };`,
  codes: ["TOOL_TIMEOUT"],
});
