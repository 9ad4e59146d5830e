// Each read of a missing property walks the whole prototype chain.
import { testAttack } from "../support.ts";

testAttack("a chain of a million prototypes", {
  source: `export default () => { let chain = null; for (let n = 0; n < 1e6; n += 1) chain = Object.create(chain); for (;;) if ('x' in chain) return 1; };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
