// A model reads the definition, so the definition has its own size limit.
import { testAttack } from "../support.ts";

testAttack("a definition of 20 MB", {
  source: `export const description = 'x'.repeat(2e7);
export default () => 1;`,
  codes: ["BUNDLE_FAILED", "MEMORY_LIMIT"],
});
