// A definition requests higher limits. An author's limits can only lower those of the host.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a definition that requests unlimited memory and time", {
  source: `export const limits = { timeoutMs: 300_000, memoryMiB: 2_048, outputBytes: 67_108_864, logLines: 100_000 };
export default () => { for (let n = 0; n < 5_000; n += 1) console.log(n); const all = []; for (;;) all.push(new Array(1e4).fill(1.5)); };`,
  codes: ["MEMORY_LIMIT", "TOOL_TIMEOUT"],
  timeoutMs: 1_500,
  check: (result) => expect(result.logs.length).toBeLessThanOrEqual(1_000),
});
