// An object of millions of keys is a hash table that doubles in one step.
import { testAttack } from "../support.ts";

testAttack("objects of a million keys, kept", {
  source: `export default () => { const all = []; for (;;) all.push(Object.fromEntries(Array.from({ length: 1e6 }, (_, n) => ['k' + n, n]))); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
