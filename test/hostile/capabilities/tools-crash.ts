// A tool calls another one repeatedly that only the end of its process stops. Only the caller's tenant is affected.
import { testAttack } from "../support.ts";

testAttack("a callee that ends its process", {
  source: `export default async (_, { tools }) => {
    for (let n = 0; n < 5; n += 1) await tools.dies().catch(() => {});
    return "alive";
  };`,
  others: {
    dies: `export const limits = { timeoutMs: 200 };
      export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);`,
  },
  features: ["tools"],
  codes: ["SANDBOX_CRASHED", "TOOL_TIMEOUT", "ok"],
  timeoutMs: 5_000,
});
