// A long chain of bound functions, which both a call and instanceof unwind in native code.
import { testAttack } from "../support.ts";

testAttack("a chain of bound functions", {
  source: `export default () => { let chain = () => 1; for (let n = 0; n < 1e6; n += 1) chain = chain.bind(null, n); const tries = [() => chain(), () => ({}) instanceof chain, () => new chain(), () => chain.name.length]; return tries.map((run) => { try { return String(run()); } catch (error) { return error.name; } }); };`,
  codes: ["ok", "MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "TOOL_FAILED"],
  timeoutMs: 800,
});
