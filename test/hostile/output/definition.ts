// A definition is what a model reads: it has a cap of its own.
import { testAttack } from "../support.ts";

testAttack("a definition of 20 MB", {
  source: `export const description = 'x'.repeat(2e7);
export default () => 1;`,
  codes: ["BUNDLE_FAILED", "MEMORY_LIMIT"],
});
