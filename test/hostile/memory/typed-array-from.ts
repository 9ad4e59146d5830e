// A claimed length is allocated outside the heap.
import { testAttack } from "../support.ts";

testAttack("Uint8Array.from of four billion elements", {
  source: `export default () => { const all = []; for (;;) try { all.push(Uint8Array.from({ length: 2 ** 31 })); } catch { all.push(new Float64Array(2 ** 22).fill(1)); } };`,
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
