// Own __proto__ keys survive JSON. A careless merge by the caller would follow them.
import { testAttack } from "../support.ts";

testAttack("an output with a __proto__ key", {
  source: `export default async () => { return JSON.parse('{"a":[{"__proto__":{"isAdmin":true}}]}'); };`,
  codes: ["OUTPUT_INVALID"],
});
