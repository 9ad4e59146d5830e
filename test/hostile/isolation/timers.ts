// Timers that outlive their call would run in the next one, with its limits.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("timers left for the next call", {
  isolateLifetime: "tool",
  source: `let fired = 0;
export default async () => { const before = fired; const self = fired; await new Promise((done) => setTimeout(done, 60)); setTimeout(() => { fired += 1; }, 5); setInterval(() => { fired += 1; }, 5); setImmediate(() => { fired += 1; }); return [before, fired - self]; };`,
  play: async ({ call }) => [await call(), await call(), await call()],
  judge: (counts) =>
    expect(counts).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]),
});
