// A tool that ends its process, called by another again and again: it costs the caller's tenant, and nobody else.
import { testAttack } from "../support.ts";

testAttack("a callee that ends its process", {
  source: `export default async (_, { tools }) => {
    for (let n = 0; n < 5; n += 1) await tools.dies().catch(() => {});
    return "alive";
  };`,
  others: { dies: "export default () => 'a'.repeat(32768).replace(/a/g, '$&'.repeat(16384)).length" },
  features: ["tools"],
  codes: ["SANDBOX_CRASHED", "MEMORY_LIMIT", "TOOL_TIMEOUT", "OVERLOADED", "ok"],
  timeoutMs: 5_000,
});
