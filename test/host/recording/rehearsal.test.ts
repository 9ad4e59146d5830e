// Rehearsals: a changed version runs against recorded calls, and the report lists exactly the calls that the change affects.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { jsonChanges } from "../../../src/host/recording/json-changes.ts";
import type { CallRecording } from "../../../src/host/recording/recording.ts";
import { failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const price = (rule: string, more = ""): string => `
  export const capabilities = { rate: true };
  export default async ({ order, amount, country }, ctx) => {
    const rate = await ctx.rate({ country });
    ${more}
    const total = Math.round(amount * rate * 100) / 100;
    ${rule}
    return { order, total, currency: "EUR", lines: [{ amount, rate }], id: crypto.randomUUID(), at: Date.now() };
  };`;

let glovebox: Glovebox;
const recordings: CallRecording[] = [];
const COUNTRIES = ["de", "fr", "it", "es"];

beforeAll(async () => {
  const rate = defineCapability({
    name: "rate",
    description: "Returns an exchange rate",
    inputSchema: z.strictObject({ country: z.string() }),
    outputSchema: z.number(),
    handler: () => 1 + Math.random(),
  });
  glovebox = await makeGlovebox({ capabilities: [rate], limits: { maxQueuedCalls: 1_000 } });
  await glovebox.addTool({ name: "price", source: price("") }, { grant: ["rate"] });
  // Three orders have an amount that the injected change affects.
  const amounts = Array.from({ length: 500 }, (_, n) => ([77, 250, 499].includes(n) ? 10_000 + n : n + 1));
  for (let at = 0; at < amounts.length; at += 10) {
    await Promise.all(
      amounts.slice(at, at + 10).map((amount, index) => {
        const order = at + index;
        const call = {
          id: `order ${order}`,
          toolName: "price",
          arguments: { order, amount, country: COUNTRIES[order % 4] },
        };
        return glovebox.execute(call, { record: { onRecording: (made) => recordings.push(made) } });
      }),
    );
  }
});
afterAll(() => glovebox.close());

const update = async (source: string): Promise<unknown> =>
  await glovebox.updateTool({ name: "price", source }, { grant: ["rate"] });

describe("a rehearsal of 500 recorded calls", () => {
  test("finds a change of behaviour in exactly the 3 calls that it affects", async () => {
    await update(
      price(
        "if (amount > 9_000) return { order, total: total - 1, currency: 'EUR', lines: [], id: crypto.randomUUID(), at: Date.now() };",
      ),
    );
    const report = await glovebox.rehearse(recordings);
    expect(report).toMatchObject({ replayed: 500, identical: 497, different: 3, diverged: 0, failed: 0, skipped: 0 });
    expect(report.groups).toHaveLength(1);
    const [group] = report.groups;
    expect(group).toMatchObject({ verdict: "different", summary: "changed /total, removed /lines/*", count: 3 });
    expect([...(group?.callIds ?? [])].sort()).toEqual(["order 250", "order 499", "order 77"]);
    expect(group?.changes?.map(({ path, kind }) => [kind, path])).toEqual([
      ["changed", "/total"],
      ["removed", "/lines/0"],
    ]);
    expect(report.resources.cpuMs.after.p50).toBeGreaterThan(0);
    expect(report.resources.executeMs.after.p95).toBeGreaterThan(0);
  });

  test("groups calls that ask for something new, and calls that fail", async () => {
    await update(
      price(
        "if (country === 'it') throw new Error('no orders from Italy');",
        "if (country === 'fr') await ctx.rate({ country: 'ch' });",
      ),
    );
    const sample = recordings.slice(0, 40);
    const report = await glovebox.rehearse(sample, { maxConcurrency: 8 });
    expect(report).toMatchObject({ replayed: 40, identical: 20, different: 0, diverged: 10, failed: 10 });
    expect(report.groups.map(({ verdict, count, summary }) => [verdict, count, summary]).sort()).toEqual([
      ["diverged", 10, "expected one of the 1 recorded requests to rate, got rate(…)"],
      ["failed", 10, "TOOL_FAILED: no orders from Italy"],
    ]);
  });

  test("waits for a limit of the host, and skips what it does not let run for a minute", async () => {
    const recorded: CallRecording[] = [];
    const limited = { a: { rateLimit: { calls: 4, per: "second" } }, b: { quotas: { calls: { month: 2 } } } } as const;
    await using own = await makeGlovebox({ tenancy: "multi", tenants: limited });
    for (const tenantId of ["a", "b"]) {
      await own.addTool({ name: "echo", source: "export default (input) => input;" }, { tenantId });
      const call = { id: "c", toolName: "echo", arguments: { a: 1 } };
      const onRecording = (made: CallRecording): void => void recorded.push(made);
      outputOf(await own.execute(call, { tenantId, record: { onRecording } }));
    }
    const [first, second] = recorded;
    expect(await own.rehearse(Array(9).fill(first), { tenantId: "a" })).toMatchObject({ replayed: 9, identical: 9 });
    const report = await own.rehearse(Array(3).fill(second), { tenantId: "b" });
    expect(report).toMatchObject({
      replayed: 1,
      identical: 1,
      skipped: 2,
      skippedFor: { recording: 0, limit: 2 },
      groups: [],
    });
  });

  test.for([
    ["OVERLOADED", { queueMs: 50 }],
    ["TOOL_TIMEOUT", { queueMs: 120_000 }],
  ] as const)("repeats what found no free process: %s", async ([, limits]) => {
    const { promise: isHeld, resolve: release } = Promise.withResolvers<void>();
    const hold = defineCapability({
      name: "hold",
      description: "Waits",
      inputSchema: z.unknown(),
      outputSchema: z.unknown(),
      handler: async () => await isHeld,
    });
    await using own = await makeGlovebox({
      capabilities: [hold],
      limits: { timeoutMs: 120_000, ...limits, maxConcurrentCalls: 1 },
    });
    const holder = `export const capabilities = { hold: true }; export const limits = { timeoutMs: 120_000 };
      export default async (input, ctx) => { console.log("begun"); await ctx.hold(); };`;
    await own.addTool({ name: "holder", source: holder }, { grant: ["hold"] });
    const source = "export const limits = { timeoutMs: 10_000 }; export default (input) => input;";
    await own.addTool({ name: "echo", source });
    const made: CallRecording[] = [];
    const onRecording = (recording: CallRecording): void => void made.push(recording);
    outputOf(await own.execute({ id: "c", toolName: "echo", arguments: { a: 1 } }, { record: { onRecording } }));
    const { promise: hasBegun, resolve: onLog } = Promise.withResolvers<void>();
    const holding = own.execute({ id: "h", toolName: "holder", arguments: {} }, { onLog: () => onLog() });
    await hasBegun;
    let attempts = 0;
    const admit = async (): Promise<Disposable> => {
      attempts += 1;
      // Both have waited in vain once.
      if (attempts === 3) release();
      return { [Symbol.dispose]: () => {} };
    };
    const report = await own.rehearse([...made, ...made], { admit, maxConcurrency: 2 });
    expect(report).toMatchObject({ replayed: 2, identical: 2, failed: 0, skipped: 0 });
    expect((await holding).success).toBe(true);
  });

  test("repeats what has lost its process, and does not call a recording unusable for a failure of the host", async () => {
    await using own = await makeGlovebox({ limits: { cpuMs: 60_000, timeoutMs: 60_000 } });
    const source =
      "export default () => { let x = 0; for (let n = 0; n < 3e8; n += 1) x = (x * 31 + n) | 0; return x; };";
    await own.addTool({ name: "computes", source });
    const made: CallRecording[] = [];
    const onRecording = (recording: CallRecording): void => void made.push(recording);
    outputOf(await own.execute({ id: "c", toolName: "computes", arguments: {} }, { record: { onRecording } }));
    let attempts = 0;
    const admit = async (): Promise<Disposable> => {
      attempts += 1;
      if (attempts === 1) void kill();
      return { [Symbol.dispose]: () => {} };
    };
    const kill = async (): Promise<void> => {
      // A call that has not begun runs again by itself.
      for (; attempts === 1; await sleep(200)) for (const pid of own.workerPids) process.kill(pid, "SIGKILL");
    };
    const report = await own.rehearse(made, { admit });
    expect(report).toMatchObject({ replayed: 1, identical: 1, failed: 0, skipped: 0 });
    expect(attempts).toBe(2);
    const failing = await own.rehearse(made, { admit: () => Promise.reject(new Error("The database is away")) });
    expect(failing).toMatchObject({ replayed: 0, skippedFor: { recording: 0, limit: 1 } });
  });

  test("compares CPU times, memory, and durations with the waits of the recorded call", async () => {
    await using own = await makeGlovebox({});
    await own.addTool({ name: "adds", source: "export default ({ n }) => n + 1;" });
    const recorded: CallRecording[] = [];
    const onRecording = (made: CallRecording): void => void recorded.push(made);
    outputOf(await own.execute({ id: "c", toolName: "adds", arguments: { n: 1 } }, { record: { onRecording } }));
    const [made] = recorded as [CallRecording];
    const resourcesOf = async (executeMs: number, cpuMs: number) => {
      const usage = { executeMs, cpuMs, peakBytes: 12_345, heapBytes: 1 };
      const { identical, resources } = await own.rehearse([{ ...made, usage }]);
      expect(identical).toBe(1);
      expect([resources.cpuMs.before.p50, resources.peakBytes.before.p50]).toEqual([cpuMs, 12_345]);
      return resources;
    };
    // It waited for 950 ms: so would the replay, which computes in another time.
    const waiting = await resourcesOf(1_000, 50);
    expect(waiting.executeMs.before.p50).toBe(1_000);
    expect(waiting.executeMs.after.p50).toBeCloseTo(950 + waiting.cpuMs.after.p50, 6);
    // Several threads can take more CPU time than the call took.
    const computing = await resourcesOf(100, 600);
    expect(computing.executeMs.after.p50).toBe(computing.cpuMs.after.p50);
  });

  test("compares resources of calls that ran to their end only, by nearest rank", async () => {
    await using own = await makeGlovebox({});
    const source = (rule: string): string => `export default ({ n }) => { ${rule} return n; };`;
    await own.addTool({ name: "same", source: source("") });
    const made: CallRecording[] = [];
    const onRecording = (recording: CallRecording): void => void made.push(recording);
    for (let n = 1; n <= 20; n += 1)
      outputOf(await own.execute({ id: "c", toolName: "same", arguments: { n } }, { record: { onRecording } }));
    const recorded = made.map((one, index) => ({
      ...one,
      usage: { ...one.usage, cpuMs: index + 1 },
    }));
    const all = await own.rehearse(recorded);
    expect([all.identical, all.resources.cpuMs.before]).toEqual([20, { p50: 10, p95: 19 }]);
    await own.updateTool({ name: "same", source: source('if (n < 20) throw new Error("early");') });
    const { identical, failed, replayed, resources } = await own.rehearse(recorded);
    expect([identical, failed, replayed]).toEqual([1, 19, 20]);
    expect(resources.cpuMs.before).toEqual({ p50: 20, p95: 20 });
  });

  test("reports requests that are not made any more, the order of keys, and other messages of errors", async () => {
    await using own = await makeGlovebox({ kv: "memory" });
    const source = `export const capabilities = { kv: true };
      export default async ({ n }, ctx) => {
        await ctx.kv.set("n", n);
        await ctx.kv.set("also", n);
        if (n === 3) throw new Error("three");
        return { n, double: n * 2 };
      };`;
    await own.addTool({ name: "writes", source }, { grant: ["kv"] });
    const made: CallRecording[] = [];
    const onRecording = (one: CallRecording): void => void made.push(one);
    for (const n of [1, 2, 3]) {
      await own.execute({ id: `w${n}`, toolName: "writes", arguments: { n } }, { record: { onRecording } });
    }
    const rehearse = async (from: string, to: string) => {
      await own.updateTool({ name: "writes", source: source.replace(from, to) }, { grant: ["kv"] });
      const { identical, groups } = await own.rehearse(made);
      return { identical, groups: groups.map(({ verdict, summary, callIds }) => [verdict, summary, ...callIds]) };
    };
    expect(await rehearse('await ctx.kv.set("also", n)', 'if (n !== 2) await ctx.kv.set("also", n)')).toEqual({
      identical: 2,
      groups: [["different", "requests that are not made any more: kv(…)", "w2"]],
    });
    expect(await own.replay(made[1])).toMatchObject({
      verdict: "different",
      missing: [expect.stringContaining('"key":"also"')],
    });
    expect(await rehearse("{ n, double: n * 2 }", "n === 1 ? { double: 2, n } : { n, double: n * 2 }")).toEqual({
      identical: 2,
      groups: [["different", "the order of keys, or other forms of the same values, in the output", "w1"]],
    });
    expect(await rehearse('"three"', '"four"')).toEqual({
      identical: 2,
      groups: [["different", "TOOL_FAILED with another message: three → four", "w3"]],
    });
    expect(await rehearse("new Error", "new RangeError")).toEqual({
      identical: 2,
      groups: [["different", "TOOL_FAILED with another error: Error → RangeError", "w3"]],
    });
    // The same requests in another order are the same requests.
    const sets = 'await ctx.kv.set("n", n);\n        await ctx.kv.set("also", n);';
    const other = 'await Promise.all([ctx.kv.set("also", n), ctx.kv.set("n", n)]);';
    expect(await rehearse(sets, other)).toEqual({ identical: 3, groups: [] });
  });

  test("skips recordings that are incomplete or invalid", async () => {
    await update(price(""));
    const [first] = recordings;
    const report = await glovebox.rehearse([
      first,
      { ...first, incomplete: "too_large" },
      {},
      { ...first, tenantId: "x" },
    ]);
    expect(report).toMatchObject({ replayed: 1, identical: 1, skipped: 3, skippedFor: { recording: 3, limit: 0 } });
    expect(await failureOf(glovebox.rehearse([], { sample: 5 } as never))).toMatchObject({ code: "PARAM_INVALID" });
    for (const wrong of [undefined, null, {}, "recordings"])
      expect(await failureOf(glovebox.rehearse(wrong as never))).toMatchObject({ code: "PARAM_INVALID" });
  });
});

test("the changes of a value have a path, a kind and both values", () => {
  const before = { a: [1, { b: "x" }], gone: true, "sl/ash": 1, same: { deep: [null] } };
  const after = { a: [1, { b: "y" }, 3], "sl/ash": [1], same: { deep: [null] }, more: {} };
  expect(jsonChanges(before, after)).toEqual([
    { path: "/a/1/b", kind: "changed", before: '"x"', after: '"y"' },
    { path: "/a/2", kind: "added", after: "3" },
    { path: "/gone", kind: "removed", before: "true" },
    { path: "/sl~1ash", kind: "changed", before: "1", after: "[1]" },
    { path: "/more", kind: "added", after: "{}" },
  ]);
});
