// How many calls of a burst are admitted: as many as may run and wait, even before there are processes for them.
import { expect, test } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { AddToolOptions } from "../../../src/host/config/tool-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, makeGlovebox, PYTHON_CACHE } from "../../support/host-zone.ts";

const CALLS = 10;
const SESSIONS = 10;
/** Each Python call has an interpreter of its own. */
const PYTHON_LIMITS = { maxConcurrentCalls: 2, maxQueuedCalls: 1, sessions: SESSIONS } as const;
const LIMITS = { ...PYTHON_LIMITS, maxConcurrentCalls: 5, maxQueuedCalls: 2 } as const;

/** Every admitted call waits until the rejected ones have been answered. */
const WAITS = "export default (_, ctx) => ctx.gate()";
const PYTHON_WAITS = "async def main(input, ctx):\n    return await ctx.gate()\n";

interface Burst {
  readonly name: string;
  readonly options?: GloveboxOptions;
  readonly add?: AddToolOptions;
  readonly source?: string;
  readonly language?: "python";
  readonly limits?: { readonly maxConcurrentCalls: number; readonly maxQueuedCalls: number };
  readonly call?: (glovebox: Glovebox, id: string) => Promise<ToolResult>;
}

const execute = (glovebox: Glovebox, id: string): Promise<ToolResult> => glovebox.execute({ id, toolName: "waits" });
async function stream(glovebox: Glovebox, id: string): Promise<ToolResult> {
  for await (const item of glovebox.stream({ id, toolName: "waits" })) if (item.type === "result") return item;
  throw new Error("Expected a result");
}

const BURSTS: readonly Burst[] = [
  { name: "calls" },
  { name: "calls of warm isolates", add: { isolateLifetime: "tool" } },
  { name: "calls with warm processes", options: { workers: { warmProcesses: 2 } } },
  { name: "calls with one process", options: { workers: { max: 1 } } },
  {
    name: "calls of a tenant with limits of its own",
    options: { tenancy: "multi", limits: { ...LIMITS, maxConcurrentCalls: 100 }, tenants: () => ({ limits: LIMITS }) },
    add: { scope: "global" },
    call: (glovebox, id) => glovebox.execute({ id, toolName: "waits" }, { tenantId: "acme" }),
  },
  { name: "streams", source: "export default async function* (_, ctx) { yield await ctx.gate(); }", call: stream },
  {
    name: "calls of sessions",
    add: { isolateLifetime: "session" },
    call: (glovebox, id) => glovebox.execute({ id, toolName: "waits" }, { sessionId: id.split("-")[1] }),
  },
  {
    name: "calls of Python",
    language: "python",
    source: PYTHON_WAITS,
    options: { cache: PYTHON_CACHE },
    limits: PYTHON_LIMITS,
  },
];

test.for(BURSTS)("the first burst of $name admits as many as the next one", async (burst) => {
  const { options = {}, add, source = WAITS, language, limits = LIMITS, call = execute } = burst;
  let opened = Promise.withResolvers<null>();
  const handler = (): Promise<null> => opened.promise;
  const gate = defineCapability({ name: "gate", inputSchema: {}, outputSchema: {}, handler });
  await using glovebox = await makeGlovebox({ limits, capabilities: [gate], ...options });
  await glovebox.addTool({ name: "waits", source, language }, { ...add, grant: ["gate"] } as AddToolOptions);
  const admitted = limits.maxConcurrentCalls + limits.maxQueuedCalls;
  for (let round = 0; round < 2; round += 1) {
    opened = Promise.withResolvers();
    const codes: string[] = [];
    const calls = Array.from({ length: CALLS }, async (_, n) =>
      codes.push(codeOf(await call(glovebox, `${round}-${n}`))),
    );
    await expect.poll(() => codes).toEqual(Array(CALLS - admitted).fill("OVERLOADED"));
    opened.resolve(null);
    await Promise.all(calls);
    expect(codes.slice(CALLS - admitted)).toEqual(Array(admitted).fill("ok"));
  }
});
