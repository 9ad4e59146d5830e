// Endless requests: at most a hundred are pending, a thousand are answered, and the rest fail inside the guest.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

let served = 0;
const count = defineCapability({
  name: "count",
  inputSchema: {},
  outputSchema: {},
  handler: () => {
    served += 1;
    return served;
  },
});

testAttack("a flood of capability calls", {
  source: `export default async (_, ctx) => {
    const ends = [];
    for (let n = 0; n < 5_000; n += 1) ends.push(ctx.count({ n, text: "x".repeat(1_000) }).then(() => 1, () => 0));
    return (await Promise.all(ends)).reduce((a, b) => a + b, 0);
  };`,
  capabilities: [count],
  codes: ["ok", "MEMORY_LIMIT"],
  check: (result) => {
    if (result.success) expect(Number(outputOf(result))).toBeLessThanOrEqual(1_000);
    expect(served).toBeLessThanOrEqual(1_000);
  },
});
