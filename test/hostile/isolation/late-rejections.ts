// Unhandled rejections that one call makes and that are due in the next. isolated-vm would fail the code that runs then.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("rejections left for the next call", {
  isolateLifetime: "tool",
  source: `let reject;
export default async () => { reject?.(new Error('late')); Promise.reject(new Error('now')); new Promise((_, no) => { reject = no; }).then(() => 1); (async () => { await null; await null; throw new Error('after'); })(); return 'fine'; };`,
  play: async ({ call }) => {
    const outputs = [];
    for (let n = 0; n < 5; n += 1) outputs.push(await call());
    return outputs;
  },
  judge: (outputs) => expect(outputs).toEqual(Array(5).fill("fine")),
});
