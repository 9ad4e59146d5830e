// Serializing the result to JSON runs its own code.
import { testAttack } from "../support.ts";

testAttack("a result whose toJSON loops", {
  source: `export default async () => { return { toJSON() { for (;;); } }; };`,
  codes: ["TOOL_TIMEOUT"],
});
