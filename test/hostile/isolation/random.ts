// Random numbers of one isolate must reveal nothing about those of another: no shared seed, no shared sequence.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("random numbers that another isolate had too", {
  isolateLifetime: "call",
  placement: "shared",
  source: `export default () => [Math.random(), Math.random(), Math.random()];`,
  play: async ({ call }) =>
    (await Promise.all(Array.from({ length: 12 }, (_, n) => call({}, { tenantId: n % 2 === 0 ? "a" : "b" })))).flat(),
  judge: (numbers) => expect(new Set(numbers).size).toBe(36),
});
