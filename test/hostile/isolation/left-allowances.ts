// Requests and timers left pending, up to their limit, must not reduce the limits of the next call.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const never = defineCapability({
  name: "never",
  inputSchema: {},
  outputSchema: {},
  handler: () => new Promise<null>(() => {}),
});

testPlay("limits used up before the next call", {
  isolateLifetime: "tool",
  limits: { maxPendingCapabilityCalls: 4, timers: 6 },
  capabilities: [never],
  source: `export default async (_, ctx) => { let asked = 0, timers = 0; for (; asked < 99; asked += 1) if (await Promise.race([ctx.never(1).catch(() => 'full'), new Promise((done) => queueMicrotask(() => queueMicrotask(() => queueMicrotask(done))))]) === 'full') break; try { for (; timers < 99; timers += 1) setTimeout(() => {}, 1e6); } catch {} return [asked, timers]; };`,
  play: async ({ call }) => [await call(), await call(), await call()],
  judge: (counts) => expect(counts).toEqual(Array(3).fill([4, 6])),
});
