// The host determines the caller of a capability. The guest cannot choose its tenant or call.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const who = defineCapability({
  name: "who",
  inputSchema: {},
  outputSchema: {},
  handler: (_, { tenantId, callId, toolName }) => [tenantId, callId, toolName].join(" "),
});

testPlay("a capability requested for another tenant", {
  isolateLifetime: "tool",
  placement: "shared",
  capabilities: [who],
  source: `export default async (input, ctx) => { const forged = { tenantId: 'cold neighbour', callId: 'neighbour' }; try { Object.assign(ctx, forged); } catch {} Object.assign(Object.prototype, forged); Object.assign(globalThis, forged); return await ctx.who(forged); };`,
  play: async ({ call }) => await Promise.all(["a", "b"].map((tenantId) => call({}, { tenantId }))),
  judge: (outputs) => expect(outputs).toEqual(["a evil attack", "b evil attack"]),
});
