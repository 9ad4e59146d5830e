// A result that exceeds the limit leaves neither the isolate nor the process.
import { testAttack } from "../support.ts";

testAttack("an output of 100 MB", {
  source: `export default async () => { return 'x'.repeat(1e8); };`,
  codes: ["OUTPUT_TOO_LARGE", "MEMORY_LIMIT"],
});
