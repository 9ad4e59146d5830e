// A registry holds a cell for each thing it watches, and a job that never ends lets it clean up nothing.
import { testAttack } from "../support.ts";

testAttack("a FinalizationRegistry without end", {
  source: `export default () => { const registry = new FinalizationRegistry(() => {}); for (;;) registry.register({}, 'x'.repeat(99), {}); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
