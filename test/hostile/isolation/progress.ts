// A later call reports progress of a call that has ended. No caller receives the report.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("progress of a call that has ended", {
  isolateLifetime: "tool",
  source: `let kept;
export default async (_, ctx) => { kept?.progress({ progress: 99 }); ctx.progress({ progress: 1 }); kept = ctx; return 1; };`,
  play: async ({ call }) => {
    const received: number[][] = [];
    for (let n = 0; n < 2; n += 1) {
      const own: number[] = [];
      received.push(own);
      await call({}, { onProgress: ({ progress }) => void own.push(progress) });
    }
    return received;
  },
  judge: (received) => expect(received).toEqual([[1], [1]]),
});
