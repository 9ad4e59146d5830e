// Sandboxed tools through the public API: outputs, errors with the author's own lines, logs, progress, usage, isolation, placement.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { LogEntry } from "../../../src/host/observability/call-log.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import type { Progress } from "../../../src/sandbox/protocol/worker-messages.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const COUNTER =
  "let calls = 0; export default () => { calls += 1; globalThis.mark = (globalThis.mark ?? 0) + 1; return [calls, globalThis.mark]; }";

/** Resolves when the test lets the tool go on. */
let proceed = Promise.withResolvers<null>();
const gate = defineCapability({ name: "gate", inputSchema: {}, outputSchema: {}, handler: () => proceed.promise });

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ workers: { max: 6 }, capabilities: [gate] });
  await glovebox.addTool({ name: "echo", source: "export default ({ value }) => value" });
  await glovebox.addTool({ name: "counter", source: COUNTER });
  await glovebox.addTool({ name: "warm", source: COUNTER }, { isolateLifetime: "tool" });
  await glovebox.addTool({
    name: "script",
    source: `
      const steps = {
        logs: async (ctx) => { console.log("one", { a: 1 }); console.warn("two"); await ctx.log("three", { b: [2] }); ctx.log.error("four"); return null; },
        progress: async (ctx) => { for (let n = 1; n <= 3; n += 1) { ctx.progress({ progress: n, total: 3, message: "step " + n }); await null; } return null; },
        slow: async () => { console.log("begun"); await new Promise((done) => setTimeout(done, 60)); return "done"; },
        idle: () => new Promise((done) => setTimeout(done, 400)),
        burn: () => { const end = Date.now() + 80; let n = 0; while (Date.now() < end || n < 2e6) n += 1; return null; },
        hold: () => new Array(1e6).fill(1.5).length,
        late: () => { setTimeout(() => console.log("after the end"), 5); Promise.reject(new Error("detached")); return "early"; },
        mutate: () => { Object.prototype.polluted = 1; Array.prototype.push = () => { throw new Error("no"); }; JSON.stringify = () => '"forged"'; return { honest: true }; },
        who: (ctx) => ({ callId: ctx.callId, tenantId: ctx.tenantId, aborted: ctx.signal.aborted }),
      };
      export default ({ step }, ctx) => steps[step](ctx);`,
  });
  await glovebox.addTool({
    name: "thrower",
    files: {
      "tool.ts": `import { check } from "./lib/check.ts";
interface Input { readonly city: string }

export default async ({ city }: Input): Promise<string> => {
  await null;
  return check(city);
};
`,
      "lib/check.ts": `export type City = string;

export function check(city: City): City {
  if (city === "") throw new RangeError("Expected a city");
  return city;
}
`,
    },
  });
});
afterAll(() => glovebox.close());

const run = (toolName: string, args: JsonValue, context?: CallContext): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, context);

describe("sandbox executor: outputs", () => {
  test.for<JsonValue>([
    null,
    true,
    0,
    -1.5,
    1e300,
    "",
    "𝒳 \u2028 \u0000",
    [],
    {},
    [[1], { a: { b: [null] } }],
    { constructor: 1, toJSON: 2 },
  ])("returns %j unchanged", async (value) => {
    expect(outputOf(await run("echo", { value }))).toEqual(value);
  });

  test("returns lone surrogates unchanged", async () => {
    expect(outputOf(await run("echo", { value: "a\ud800b" }))).toBe("a\ud800b");
  });

  test("returns null for no output", async () => {
    expect(outputOf(await run("echo", {}))).toBeNull();
  });

  test("returns a megabyte unchanged", async () => {
    const value = "ü".repeat(1_000_000);
    expect(outputOf(await run("echo", { value }))).toBe(value);
  });

  test("is not forged by a tool that replaces intrinsics, and the next call has the originals", async () => {
    expect(outputOf(await run("script", { step: "mutate" }))).toEqual({ honest: true });
    expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
    expect(outputOf(await run("echo", { value: [1] }))).toEqual([1]);
  });
});

describe("sandbox executor: thrown errors", () => {
  test("names the author's own file, line and column, and no internal frame", async () => {
    const result = await run("thrower", { city: "" });
    const error = errorOf(result);
    expect(error).toMatchObject({
      code: "TOOL_FAILED",
      message: "Expected a city",
      userMessage: "thrower failed",
      recoverable: true,
      details: { errorName: "RangeError", file: "lib/check.ts", line: 4 },
    });
    expect(error.stack).toMatch(
      /^RangeError: Expected a city\n {4}at check \(lib\/check\.ts:4:\d+\)\n {4}at .*tool\.ts:6:\d+/,
    );
    expect(error.stack).not.toMatch(/glovebox:|prelude|isolated-vm/);
    expectPublishable(result);
  });
});

describe("sandbox executor: logs and progress", () => {
  test("keeps their order, level, data and time", async () => {
    const began = Date.now();
    const { logs } = await run("script", { step: "logs" });
    expect(logs.map(({ level, message }) => [level, message])).toEqual([
      ["info", "one { a: 1 }"],
      ["warn", "two"],
      ["info", "three"],
      ["error", "four"],
    ]);
    expect(logs[2]?.data).toEqual({ b: [2] });
    for (const { time } of logs) expect(time).toBeGreaterThanOrEqual(began - 1);
  });

  test("reach onLog while the call runs", async () => {
    const { promise, resolve } = Promise.withResolvers<LogEntry>();
    let over = false;
    const running = run("script", { step: "slow" }, { onLog: resolve }).finally(() => {
      over = true;
    });
    expect(await promise).toMatchObject({ message: "begun" });
    expect(over).toBe(false);
    expect(outputOf(await running)).toBe("done");
  });

  test("messages of ctx.log and ctx.progress arrive as they happen, with their data", async () => {
    const source = `export default async (input, ctx) => {
      ctx.progress({ progress: 1, total: 2 });
      await ctx.log("half way", { rows: 5 });
      await ctx.gate({});
      return "done";
    }`;
    await glovebox.addTool({ name: "reporter", source }, { grant: ["gate"] });
    const events: unknown[] = [];
    proceed = Promise.withResolvers();
    // The tool ends only after both have arrived.
    const record = (event: unknown): void => {
      events.push(event);
      if (events.length === 2) proceed.resolve(null);
    };
    const call = { id: "c1", toolName: "reporter" };
    const result = await glovebox.execute(call, { onLog: record, onProgress: record });
    record("over");
    expect(events).toEqual([
      { progress: 1, total: 2 },
      { level: "info", time: expect.any(Number), message: "half way", data: { rows: 5 } },
      "over",
    ]);
    expect(outputOf(result)).toBe("done");
  });

  test("reach onProgress in order", async () => {
    const reports: Progress[] = [];
    await run("script", { step: "progress" }, { onProgress: (report) => reports.push(report) });
    expect(reports).toEqual([1, 2, 3].map((n) => ({ progress: n, total: 3, message: `step ${n}` })));
  });

  test("do not end the call if a listener throws", async () => {
    const fail = (): never => {
      throw new Error("a listener's own affair");
    };
    expect(codeOf(await run("script", { step: "logs" }, { onLog: fail }))).toBe("ok");
    expect(codeOf(await run("script", { step: "progress" }, { onProgress: fail }))).toBe("ok");
  });

  test("do not count towards the next call when they arrive after the result", async () => {
    expect(outputOf(await run("script", { step: "late" }))).toBe("early");
    const next = await run("script", { step: "slow" });
    expect(next.logs.map(({ message }) => message)).toEqual(["begun"]);
  });

  test("keeps or counts every line of ctx.log, awaited or not", async () => {
    const source =
      'export default (_, ctx) => { for (let n = 0; n < 300; n += 1) void ctx.log("line " + n).catch(() => {}); return null; }';
    await glovebox.addTool({ name: "chatty", source });
    const { logs, usage } = await run("chatty", {});
    expect(logs.length + usage.logsDropped).toBe(300);
  });
});

describe("sandbox executor: usage", () => {
  test("adds up", async () => {
    // On a busy machine, a call may get little of the 80 ms that it computes for.
    const { usage } = await vi.waitFor(async () => {
      const result = await run("script", { step: "burn" });
      expect(result.usage.cpuMs).toBeLessThan(result.durationMs + 20);
      expect(result.usage.cpuMs).toBeGreaterThan(30);
      const { executeMs, startMs, queueMs } = result.usage;
      expect(executeMs + startMs + queueMs).toBeLessThanOrEqual(result.durationMs + 5);
      return result;
    });
    expect(usage.executeMs).toBeGreaterThanOrEqual(79);
    expect(usage.startMs).toBeGreaterThan(0);
    expect(usage).toMatchObject({ bundleMs: 0, logsDropped: 0 });
  });

  test("counts no CPU time while a tool waits", async () => {
    // A busy machine may use CPU time of its own to start the isolate, but not in each call as much as the tool waits.
    const { usage } = await vi.waitFor(async () => {
      const result = await run("script", { step: "idle" });
      expect(result.usage.cpuMs).toBeLessThan(result.usage.executeMs / 2);
      return result;
    });
    expect(usage.executeMs).toBeGreaterThanOrEqual(395);
  });

  test("reports the heap in use", async () => {
    // On a busy machine, the guest's thread may not have left the isolate when the call ends. The heap cannot be read then.
    const heapOf = (step: string): Promise<number> =>
      vi.waitFor(async () => {
        const { heapBytes } = (await run("script", { step })).usage;
        expect(heapBytes).toBeGreaterThan(0);
        return heapBytes;
      });
    const small = await heapOf("progress");
    expect(small).toBeGreaterThan(100_000);
    expect(await heapOf("hold")).toBeGreaterThan(small + 1_000_000);
  });

  test("reports the caller", async () => {
    expect(outputOf(await run("script", { step: "who" }))).toEqual({
      callId: "c1",
      tenantId: "default",
      aborted: false,
    });
  });
});

describe("sandbox executor: isolation", () => {
  test('"call" shares nothing between calls, sequential or concurrent', async () => {
    const first = outputOf(await run("counter", {}));
    const rest = await Promise.all([1, 2, 3, 4].map(() => run("counter", {})));
    expect([first, ...rest.map(outputOf)]).toEqual([
      [1, 1],
      [1, 1],
      [1, 1],
      [1, 1],
      [1, 1],
    ]);
  });

  test('"tool" shares an isolate between the calls of one tenant', async () => {
    const counts: JsonValue[] = [];
    for (let call = 0; call < 3; call += 1) counts.push(outputOf(await run("warm", {})));
    expect(counts).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
  });

  test('"tool" shares nothing between tenants', async () => {
    await using own = await makeGlovebox({ tenancy: "multi" });
    await own.addTool({ name: "warm", source: COUNTER }, { scope: "global", isolateLifetime: "tool" });
    for (const tenantId of ["first", "second"]) {
      expect(outputOf(await own.execute({ id: "c", toolName: "warm" }, { tenantId }))).toEqual([1, 1]);
    }
  });

  test('"tool" shares nothing between tenants in the same process', async () => {
    await using shared = await makeGlovebox({
      tenancy: "multi",
      placement: "shared",
      isolateLifetime: "tool",
      workers: { max: 1 },
    });
    await shared.addTool({ name: "counter", source: COUNTER }, { scope: "global" });
    const outputs: JsonValue[] = [];
    for (const tenantId of ["a", "b", "a", "b"]) {
      outputs.push(outputOf(await shared.execute({ id: "c", toolName: "counter" }, { tenantId })));
    }
    expect(outputs).toEqual([
      [1, 1],
      [1, 1],
      [2, 2],
      [2, 2],
    ]);
    expect(shared.workerPids).toHaveLength(1);
  });

  test('"tool" shares nothing between two versions of a tool', async () => {
    await run("warm", {});
    glovebox.removeTool("warm");
    await glovebox.addTool(
      { name: "warm", source: `${COUNTER} // second version, same name\nexport const version = 2;` },
      { isolateLifetime: "tool" },
    );
    expect(outputOf(await run("warm", {}))).toEqual([1, 1]);
  });

  test('"tool" ends an isolate after a failed call', async () => {
    await glovebox.addTool(
      {
        name: "grumpy",
        source: "let calls = 0; export default ({ n }) => { calls += 1; if (n === 1) for (;;); return calls; }",
      },
      { isolateLifetime: "tool" },
    );
    const results: string[] = [];
    for (const n of [0, 1, 0]) {
      const result = await run("grumpy", { n }, { timeoutMs: n === 1 ? 200 : 120_000 });
      results.push(result.success ? JSON.stringify(result.output) : result.error.code);
    }
    expect(results).toEqual(["1", "TOOL_TIMEOUT", "1"]);
  });
});

describe("sandbox executor: placement", () => {
  test('"tenant" gives each tenant processes of its own, which no other tenant enters', async () => {
    await using own = await makeGlovebox({ cache: false, tenancy: "multi", workers: { max: 8 } });
    await own.addTool({ name: "echo", source: "export default ({ value }) => value" }, { scope: "global" });
    const seen = new Map<string, Set<number>>();
    const before = new Set(own.workerPids);
    for (const tenantId of ["a", "b", "c"]) {
      await own.execute({ id: "c", toolName: "echo", arguments: { value: 1 } }, { tenantId });
      const pids = own.workerPids.filter((pid) => !before.has(pid));
      for (const pid of pids) before.add(pid);
      seen.set(tenantId, new Set(pids));
    }
    expect([...seen.values()].map((pids) => pids.size)).toEqual([1, 1, 1]);
    // A second round uses the processes of the first, so no tenant needs a new one.
    await Promise.all(["a", "b", "c"].map((tenantId) => own.execute({ id: "c", toolName: "echo" }, { tenantId })));
    expect(own.workerPids.filter((pid) => !before.has(pid))).toEqual([]);
  });

  test('"tenant" ends one tenant\'s idle process to make room for another, never shares it', async () => {
    await using tight = await makeGlovebox({ tenancy: "multi", workers: { max: 1 } });
    await tight.addTool({ name: "echo", source: "export default ({ value }) => value" }, { scope: "global" });
    const pids = new Set<number | undefined>();
    for (const tenantId of ["a", "b", "a"]) {
      expect(codeOf(await tight.execute({ id: "c", toolName: "echo" }, { tenantId }))).toBe("ok");
      expect(tight.workerPids).toHaveLength(1);
      pids.add(tight.workerPids[0]);
    }
    expect(pids.size).toBe(3);
  });

  test("a process that only extracted a global tool's definition is not kept, because several tenants use the tool", async () => {
    await using fresh = await makeGlovebox({ cache: false, tenancy: "multi", workers: { max: 8 } });
    for (const n of [1, 2, 3])
      await fresh.addTool({ name: `t${n}`, source: `export default () => ${n}` }, { scope: "global" });
    expect(fresh.workerPids).toEqual([]);
  });

  test("the process that extracted a definition runs the first call of a single tenant", async () => {
    await using fresh = await makeGlovebox({ cache: false, workers: { max: 8 } });
    await fresh.addTool({ name: "t1", source: "export default () => 1" });
    const kept = fresh.workerPids;
    expect(kept).toHaveLength(1);
    expect(outputOf(await fresh.execute({ id: "c", toolName: "t1" }))).toBe(1);
    expect(fresh.workerPids).toEqual(kept);
    // Each definition is extracted in an unused process. Only the first one is kept.
    for (const n of [2, 3]) await fresh.addTool({ name: `t${n}`, source: `export default () => ${n}` });
    expect(fresh.workerPids).toEqual(kept);
  });
});
