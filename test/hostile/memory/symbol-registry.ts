// Symbol.for keeps each registered symbol and its text for the lifetime of the isolate.
import { testAttack } from "../support.ts";

testAttack("giant symbols in the registry", {
  source: `export default () => { for (let n = 0; ; n += 1) Symbol.for(n + 'x'.repeat(2 ** 18)).description.charCodeAt(9); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
