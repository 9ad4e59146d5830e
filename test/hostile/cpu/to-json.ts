// The result's own code runs while it is made into JSON.
import { testAttack } from "../support.ts";

testAttack("a result whose toJSON loops", {
  source: `export default async () => { return { toJSON() { for (;;); } }; };`,
  codes: ["TOOL_TIMEOUT"],
});
