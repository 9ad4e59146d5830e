// A tool keeps its ctx while two tenants call it at once in one process. No call can reach the ctx or the name of the other.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const echo = defineCapability({ name: "echo", inputSchema: {}, outputSchema: {}, handler: (input) => input });

testPlay("a ctx kept for another tenant", {
  isolateLifetime: "tool",
  placement: "shared",
  capabilities: [echo],
  source: `const kept = [];
export default async (_, ctx) => { kept.push(ctx); await new Promise((done) => setTimeout(done, 30)); const answer = await ctx.echo(ctx.callId); return [...new Set([...kept.map((one) => one.tenantId), ctx.tenantId])].concat(answer); };`,
  play: async ({ call }) => await Promise.all(["a", "b", "c"].map((tenantId) => call({}, { tenantId }))),
  judge: (outputs) =>
    expect(outputs).toEqual([
      ["a", "evil"],
      ["b", "evil"],
      ["c", "evil"],
    ]),
});
