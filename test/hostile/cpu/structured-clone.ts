// The prelude's structuredClone walks any argument: cycles, depth and width.
import { testAttack } from "../support.ts";

testAttack("structuredClone of deep and wide values", {
  source: `export default () => { let deep = {}; for (let n = 0; n < 1e5; n += 1) deep = { deep }; const wide = Array.from({ length: 1e5 }, () => ({ a: [1] })); for (;;) { try { structuredClone(deep); } catch {} structuredClone(wide); } };`,
  codes: ["TOOL_TIMEOUT", "MEMORY_LIMIT"],
});
