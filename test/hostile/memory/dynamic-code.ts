// Dynamic code from a large text: its syntax tree is outside V8's heap, where the limit of the isolate does not count it.
import { testAttack } from "../support.ts";

const CODES = ["MEMORY_LIMIT", "TOOL_FAILED", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "CPU_LIMIT", "ok"] as const;

testAttack("a list of ten million numbers, made by eval", {
  source: `export default () => { const text = "[" + "1,".repeat(1e7) + "]"; return eval(text).length; };`,
  features: ["stringToCode"],
  timeoutMs: 5_000,
  codes: CODES,
});

testAttack("functions without end, made by Function and kept", {
  source: `export default () => { const kept = []; for (let n = 0; ; n += 1) kept.push(Function("a" + n, "return [" + "a" + n + ",1,2,3].map((x) => x * " + n + ")")); };`,
  features: ["stringToCode"],
  codes: CODES,
});
