// How many calls of a burst are admitted: as many as may run and wait, whether or not there are processes for them yet.
import { expect, test } from "vitest";
import type { AddToolOptions, GloveboxOptions } from "../../src/host/config.ts";
import type { Glovebox } from "../../src/host/runtime.ts";
import type { ToolResult } from "../../src/host/tool-call.ts";
import { codeOf, makeBox, PYTHON_CACHE } from "../support/host-zone.ts";

const LIMITS = { concurrentCalls: 12, queuedCalls: 4, cpuMs: 60_000, timeoutMs: 60_000, sessions: 24 } as const;
/** Rejected calls are rejected before the others end. */
const SLEEP = "export default () => new Promise((done) => setTimeout(done, 500, 1))";
const PYTHON_SLEEP = "import asyncio\n\nasync def main(input, ctx):\n    await asyncio.sleep(0.5)\n    return 1\n";

interface Burst {
  readonly name: string;
  readonly options?: GloveboxOptions;
  readonly add?: AddToolOptions;
  readonly source?: string;
  readonly language?: "python";
  readonly call: (box: Glovebox, id: string) => Promise<ToolResult>;
}

const execute = (box: Glovebox, id: string): Promise<ToolResult> => box.execute({ id, toolName: "sleep" });
async function stream(box: Glovebox, id: string): Promise<ToolResult> {
  for await (const item of box.stream({ id, toolName: "sleep" })) if (item.type === "result") return item;
  throw new Error("Expected a result");
}

const BURSTS: readonly Burst[] = [
  { name: "calls", call: execute },
  { name: "calls of warm isolates", add: { isolation: "tool" }, call: execute },
  { name: "calls with spare processes", options: { workers: { spares: 2 } }, call: execute },
  { name: "calls with one process", options: { workers: { max: 1 } }, call: execute },
  {
    name: "calls of a tenant with limits of its own",
    options: { tenancy: "multi", limits: { ...LIMITS, concurrentCalls: 100 }, tenants: () => ({ limits: LIMITS }) },
    add: { scope: "global" },
    call: (box, id) => box.execute({ id, toolName: "sleep" }, { tenantId: "acme" }),
  },
  {
    name: "streams",
    source: "export default async function* () { await new Promise((d) => setTimeout(d, 500)); yield 1 }",
    call: stream,
  },
  {
    name: "calls of sessions",
    add: { isolation: "session" },
    call: (box, id) => box.execute({ id, toolName: "sleep" }, { sessionId: id.split("-")[1] }),
  },
  {
    name: "calls of Python",
    language: "python",
    source: PYTHON_SLEEP,
    options: { cache: PYTHON_CACHE },
    call: execute,
  },
];

test.for(BURSTS)("the first burst of $name admits as many as the next one", { timeout: 240_000 }, async (burst) => {
  const { options = {}, add, source = SLEEP, language, call } = burst;
  await using box = await makeBox({ limits: LIMITS, ...options });
  await box.addTool({ name: "sleep", source, language }, add);
  for (let round = 0; round < 2; round += 1) {
    const results = await Promise.all(Array.from({ length: 24 }, (_, n) => call(box, `${round}-${n}`)));
    const codes = results.map(codeOf);
    expect([round, codes.filter((code) => code === "OVERLOADED").length, codes]).toEqual([round, 8, codes]);
  }
});
