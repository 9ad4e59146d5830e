// The engine may run clean-up callbacks of the first call during the second. Their errors must not fail the second call.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("clean-up callbacks that throw in the next call", {
  isolateLifetime: "tool",
  source: `const registry = new FinalizationRegistry(() => { console.log('cleaned'); throw new Error('cleaned'); });
export default async () => { for (let n = 0; n < 2e4; n += 1) registry.register({ n }, n); for (let n = 0; n < 300; n += 1) new Array(1e4).fill({}); await new Promise((done) => setTimeout(done, 5)); return 'fine'; };`,
  play: async ({ call }) => [await call(), await call(), await call()],
  judge: (outputs) => expect(outputs).toEqual(["fine", "fine", "fine"]),
});
