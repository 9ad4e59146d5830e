// The first call never stops in the background. The second call gets a new isolate.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testPlay } from "./support.ts";

testPlay("microtasks without end, left for the next call", {
  isolateLifetime: "tool",
  source: `let calls = 0;
export default ({ leave }) => { calls += 1; if (leave) (async () => { for (;;) await null; })(); return calls; };`,
  play: async ({ run }) => [await run({ leave: true }, { timeoutMs: 400 }), await run({ leave: false })],
  judge: ([, second]) => expect(second !== undefined && outputOf(second)).toBe(1),
});
