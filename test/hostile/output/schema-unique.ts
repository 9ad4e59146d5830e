// uniqueItems over many items that are nearly alike is quadratic in a naive validator.
import { testAttack } from "../support.ts";

testAttack("an output schema with uniqueItems over many deep values", {
  source: `export const outputSchema = { type: 'array', uniqueItems: true };
export default () => Array.from({ length: 3e4 }, (_, n) => ({ a: { b: [1, 2, 3, n] } }));`,
  codes: ["ok", "OUTPUT_INVALID"],
});
