// An answer to a request of the first call that arrives during the second must not reach any request of the second call.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const slow = defineCapability({
  name: "slow",
  inputSchema: {},
  outputSchema: {},
  handler: async (input) => {
    const { n, ms } = input as { readonly n: number; readonly ms: number };
    await new Promise((done) => setTimeout(done, ms));
    return n;
  },
});

testPlay("an answer that arrives during the next call", {
  isolateLifetime: "tool",
  capabilities: [slow],
  source: `const got = [];
export default async ({ n }, ctx) => { const asked = ctx.slow({ n, ms: n === 1 ? 80 : 10 }).then((answer) => got.push([n, answer]), (error) => got.push([n, error.code])); if (n === 1) return 'left'; await asked; await new Promise((done) => setTimeout(done, 120)); return got; };`,
  play: async ({ call }) => [await call({ n: 1 }), await call({ n: 2 })],
  judge: (outputs) => expect(outputs).toEqual(["left", [[2, 2]]]),
});
