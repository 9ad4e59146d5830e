// What Symbol.for has registered is held for as long as the isolate lives, and its text with it.
import { testAttack } from "../support.ts";

testAttack("giant symbols in the registry", {
  source: `export default () => { for (let n = 0; ; n += 1) Symbol.for(n + 'x'.repeat(2 ** 18)).description.charCodeAt(9); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
