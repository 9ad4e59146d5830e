// Lines of concurrent calls in one process, and lines written after the end of a call, never reach the log of another call.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("lines for another call's log", {
  isolateLifetime: "tool",
  source: `let late = 0;
export default async ({ n }, ctx) => { for (let line = 0; line < 5; line += 1) { console.log('call ' + n); await ctx.log('call ' + n); await new Promise((done) => setTimeout(done, 2)); } (async () => { for (let turn = 0; turn < 500; turn += 1) await null; console.log('late'); ctx.log('late').catch(() => {}); })(); return n; };`,
  play: async ({ run }) => {
    const results = await Promise.all([1, 2, 3].map((n) => run({ n })));
    results.push(await run({ n: 4 }));
    return results.map(({ logs }) => logs.map(({ message }) => message));
  },
  judge: (logs) => expect(logs).toEqual([1, 2, 3, 4].map((n) => Array(10).fill(`call ${n}`))),
});
