// One store of durable runs for several tenants and hosts: a process continues only the runs that it can, and the runs of one tenant do not keep out
// those of another.
import { afterAll, beforeAll, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { type CodeMode, createCodeMode } from "../../../src/host/code-mode/code-mode.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { failureOf, makeGlovebox } from "../../support/host-zone.ts";

class TimedStore extends MemoryRunStore {
  time = Date.now();
  now(): number {
    return this.time;
  }
}

const LIMITS = { timeoutMs: 120_000, queueMs: 120_000, cpuMs: 60_000 };
const PATIENT = { timeout: 100_000, interval: 100 };
const gate = Promise.withResolvers<void>();
let glovebox: Glovebox;
beforeAll(async () => {
  const hold = defineCapability({
    name: "hold",
    inputSchema: z.unknown(),
    outputSchema: z.unknown(),
    handler: () => gate.promise,
  });
  glovebox = await makeGlovebox({
    tenancy: "multi",
    kv: "memory",
    capabilities: [hold],
    tenants: {
      a: { limits: { ...LIMITS, maxConcurrentCalls: 1, maxQueuedCalls: 1_000 } },
      b: { limits: LIMITS },
    },
  });
  const held = "export const capabilities = { hold: true }; export default (_, ctx) => ctx.hold(1);";
  await glovebox.addTool({ name: "held", source: held }, { tenantId: "a", grant: ["hold"] });
  await glovebox.addTool({ name: "pay", source: "export default ({ n }) => 'paid ' + n;" }, { tenantId: "b" });
});
afterAll(async () => {
  gate.resolve();
  await glovebox.close();
});

test("runs of a tenant that wait for its slots do not keep out those of another", { timeout: 200_000 }, async () => {
  const store = new MemoryRunStore();
  const lost = { kind: "tool", input: '{"n":1}', createdAt: Date.now(), expiresAt: Date.now() + 1e9, leaseUntil: 0 };
  for (let n = 0; n < 120; n += 1) await store.create({ ...lost, id: `a${n}`, tenantId: "a", toolName: "held" }, 1_000);
  await store.create({ ...lost, id: "b", tenantId: "b", toolName: "pay" }, 1_000);
  await using runs = createRuns(glovebox, { store, pollMs: 20 });
  await expect.poll(async () => (await runs.get("b", { tenantId: "b" }))?.state, PATIENT).toBe("succeeded");
  const claimed = (await store.list("a", { limit: 200 })).filter(({ fence }) => fence > 1);
  expect(claimed.length).toBeGreaterThan(0);
  expect(claimed.length).toBeLessThan(20);
});

test("a code mode continues code of its tenant, and nothing else", { timeout: 200_000 }, async () => {
  const store = new TimedStore();
  const open = (tenantId: string): CodeMode =>
    createCodeMode(glovebox, { tenantId, typeCheck: false, language: "javascript", runs: { store, pollMs: 0 } });
  await using mine = open("b");
  await using other = open("a");
  await using tools = createRuns(glovebox, { store, pollMs: 0 });
  const code = "await ctx.waitFor({ durationMs: 60_000 }); return await tools.pay({ n: 5 });";
  const called = await mine.execute({ id: "c", toolName: "run_code", arguments: { code } }, { tenantId: "b" });
  expect(called).toMatchObject({ success: true, output: { status: "suspended" } });
  const [run] = await store.list("b", { limit: 1 });
  const { id = "", fence } = run ?? {};
  const lost = { kind: "tool", input: "{}", createdAt: 1, expiresAt: Date.now() + 1e9, leaseUntil: 0 };
  await store.create({ ...lost, id: "tool", tenantId: "b", toolName: "pay" }, 1_000);
  store.time += 60_000;

  await other.runs?.poll();
  for (const tenantId of ["b", undefined])
    expect((await failureOf(other.runs?.resume(id, { tenantId }) as Promise<unknown>)).code).toBe("PARAM_INVALID");
  expect(await tools.resume(id, { tenantId: "b" })).toBeUndefined();
  expect(await tools.cancel(id, { tenantId: "b" })).toBe(false);
  expect(await failureOf(tools.signal(id, { event: "go" }, { tenantId: "b" }))).toMatchObject({
    code: "TOOL_UNAVAILABLE",
    message: expect.stringContaining("kind"),
  });
  expect(await store.find({ tenantId: "b", id })).toMatchObject({ state: "suspended", fence });

  await mine.runs?.poll();
  expect(await store.find({ tenantId: "b", id })).toMatchObject({
    state: "succeeded",
    result: { success: true, output: { status: "ok", value: "paid 5" } },
  });
  expect((await store.find({ tenantId: "b", id: "tool" }))?.fence).toBe(1);
  await tools.poll();
  expect((await store.find({ tenantId: "b", id: "tool" }))?.state).toBe("succeeded");
});
