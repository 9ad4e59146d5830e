// A registry allocates a cell for each registered object, and cannot clean up during a job that never ends.
import { testAttack } from "../support.ts";

testAttack("a FinalizationRegistry without end", {
  source: `export default () => { const registry = new FinalizationRegistry(() => {}); for (;;) registry.register({}, 'x'.repeat(99), {}); };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
