// A capability kept from an earlier call belongs to that call: it stays closed, even while a later call runs.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const echo = defineCapability({ name: "echo", inputSchema: {}, outputSchema: {}, handler: (input) => input });

testPlay("a capability used after its call", {
  isolateLifetime: "tool",
  capabilities: [echo],
  source: `let kept;
export default async (_, ctx) => { const old = kept; kept = { echo: ctx.echo, self: ctx }; if (old === undefined) return 'kept'; return [await old.echo(1).catch((error) => error.code), await old.self.echo(1).catch((error) => error.code), await ctx.echo('own')]; };`,
  play: async ({ call, callAgain }) => [await call(), await callAgain("kept")],
  judge: (outputs) => expect(outputs).toEqual(["kept", ["CAPABILITY_DENIED", "CAPABILITY_DENIED", "own"]]),
});
