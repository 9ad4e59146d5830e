// Inspecting large values for the log uses guest memory, and must stop at the size limit of a line.
import { testAttack } from "../support.ts";

testAttack("giants for console.log", {
  source: `export default () => { const giant = { list: Array.from({ length: 1e5 }, (_, n) => 'x'.repeat(100) + n), map: new Map(Array.from({ length: 1e5 }, (_, n) => [n, { n }])) }; for (let n = 0; n < 100; n += 1) console.log(giant, [giant], 'x'.repeat(2e7)); return 1; };`,
  codes: ["ok", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
