// The host rejects deep nesting before it parses the output.
import { testAttack } from "../support.ts";

testAttack("an output nested 100,000 deep", {
  source: `export default async () => { let deep = 0; for (let n = 0; n < 1e5; n += 1) deep = [deep]; return deep; };`,
  codes: ["OUTPUT_INVALID", "TOOL_FAILED"],
});
