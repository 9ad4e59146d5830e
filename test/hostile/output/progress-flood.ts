// Endless progress reports must affect only their own call.
import { testAttack } from "../support.ts";

testAttack("a flood of ctx.progress", {
  source: `export default (_, ctx) => { for (let n = 0; n < 50_000; n += 1) ctx.progress({ progress: n, message: 'x'.repeat(1000) }); return 1; };`,
  codes: ["ok", "TOOL_TIMEOUT", "MEMORY_LIMIT"],
  timeoutMs: 2_000,
});
