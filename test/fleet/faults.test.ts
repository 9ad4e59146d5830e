// Executors that die, freeze, stop or are full, and a NATS server that restarts: each call ends once, and its effects are stated.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { MemoryKvStore } from "../../src/host/capabilities/kv/kv-memory.ts";
import type { ToolResult } from "../../src/host/index.ts";
import type { CliProcess } from "../support/cli-process.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { descendantsOf, signal } from "../support/process-tree.ts";

const MIB = 1024 * 1024;
const LONG = { tenantId: "acme", timeoutMs: 300_000 };

const TOOLS: { readonly [name: string]: string } = {
  add: "export default ({ a, b }) => a + b",
  // Says that it has begun, and then waits.
  waits:
    "export default ({ ms = 280_000 }) => { console.log('begun'); return new Promise((resolve) => setTimeout(resolve, ms, 'waited')) }",
  // Says that it has begun, and waits until a key is set.
  gated: `export const capabilities = { kv: true };
    export default async ({ key, bytes }, { kv }) => {
      console.log("begun");
      while ((await kv.get(key)) === undefined) await new Promise((resolve) => setTimeout(resolve, 100));
      return "x".repeat(bytes);
    }`,
  // The first run waits for ever, a second one returns.
  repeats: `export const capabilities = { kv: true }; export const annotations = { idempotentHint: true };
    export default async ({ key }, { kv }) => {
      const runs = ((await kv.get(key)) ?? 0) + 1;
      await kv.set(key, runs);
      if (runs === 1) await new Promise((resolve) => setTimeout(resolve, 280_000));
      return runs;
    }`,
  // Writes after a while, whatever has become of its call.
  late: `export const capabilities = { kv: true };
    export default async (_, { kv }) => {
      console.log("begun");
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      await kv.set("late", true);
      return "wrote";
    }`,
};

describe.skipIf(!hasNatsServer)("a fleet with faults", () => {
  let fleet: Fleet;
  const executors = new Map<string, CliProcess>();
  const kv = new MemoryKvStore();

  const start = async (id: string, ...flags: readonly string[]): Promise<void> => {
    executors.set(id, await fleet.start(id, ["--drain-ms", "300000", ...flags]));
  };
  /** Ends an executor and waits until the host has noticed. */
  const end = async (id: string): Promise<void> => {
    await executors.get(id)?.[Symbol.asyncDispose]();
    executors.delete(id);
    await fleet.until(id, false);
  };
  const call = (toolName: string, args: object = {}, context: object = LONG): Promise<ToolResult> =>
    fleet.host.execute({ id: toolName, toolName, arguments: args }, context);
  /** Starts a call and resolves when its tool has begun, with the executor that runs it. */
  const begin = async (toolName: string, args: object = {}): Promise<{ result: Promise<ToolResult>; id: string }> => {
    const begun = Promise.withResolvers<void>();
    const result = call(toolName, args, { ...LONG, onLog: () => begun.resolve() });
    await begun.promise;
    return { result, id: await busyOne() };
  };
  const busyOne = async (): Promise<string> =>
    await vi.waitFor(() => {
      const [busy, ...others] = fleet.host.fleet.executors.filter((one) => one.busy > 0);
      if (busy === undefined || others.length > 0) throw new Error("Expected one busy executor");
      return busy.id;
    });

  /** Starts a call that goes on until `open` is called, with the executor that runs it. */
  const beginGated = async (key: string, bytes = 1) => {
    const open = async (): Promise<void> => {
      const write = { kind: "json", data: Buffer.from("true"), quota: { keys: 100, bytes: MIB } } as const;
      await kv.set({ tenantId: "acme", tool: "global/gated" }, key, write);
    };
    return { ...(await begin("gated", { key, bytes })), open };
  };

  const untilWritten = async (key: string): Promise<void> => {
    const owner = { tenantId: "acme", tool: "global/repeats" };
    await vi.waitFor(() => expect(kv.get(owner, key)).resolves.toBeDefined());
  };

  beforeAll(async () => {
    const tenants = { acme: {}, europe: { pools: ["eu"] }, nowhere: { pools: ["mars"] } };
    fleet = await openFleet({
      executors: ["a", "b", "eu-1"],
      poolOf: (id) => (id === "eu-1" ? "eu" : "default"),
      host: { tenancy: "multi", tenants, kv, workers: { max: 4 }, limits: { outputBytes: 16 * MIB } },
    });
    for (const [name, source] of Object.entries(TOOLS))
      await fleet.host.addTool({ name, source }, { scope: "global", grant: ["kv"] });
    await Promise.all([start("a"), start("b")]);
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test("a begun call of a killed executor fails with SANDBOX_CRASHED, and the next call runs elsewhere", async () => {
    const { result, id } = await begin("waits");
    executors.get(id)?.signal("SIGKILL");
    expect(await result).toMatchObject({
      success: false,
      error: { code: "SANDBOX_CRASHED", details: { begun: true } },
    });
    expect(await call("add", { a: 1, b: 2 })).toMatchObject({ success: true, output: 3 });
    await end(id);
    expect(fleet.host.fleet.lost).toMatchObject([{ id, reason: "silent", pool: "default", slots: 32 }]);
    await start(id);
    expect(fleet.host.fleet.lost).toEqual([]);
  });

  test("an idempotent call of a killed executor runs again elsewhere", async () => {
    const result = call("repeats", { key: "killed" });
    await untilWritten("killed");
    const id = await busyOne();
    executors.get(id)?.signal("SIGKILL");
    expect(await result).toMatchObject({ success: true, output: 2 });
    await end(id);
    await start(id);
  });

  test("an idempotent call whose worker process is killed runs again, and its executor keeps its calls", async () => {
    const result = call("repeats", { key: "lost" });
    await untilWritten("lost");
    const id = await busyOne();
    const since = fleet.host.fleet.executors.find((one) => one.id === id)?.since;
    for (const { pid } of descendantsOf(executors.get(id)?.pid ?? -1)) signal(pid, "SIGKILL");
    expect(await result).toMatchObject({ success: true, output: 2 });
    expect(fleet.host.fleet.executors).toContainEqual(expect.objectContaining({ id, since }));
  });

  test("a call of a frozen executor ends, and what the executor sends when it continues has no effect", async () => {
    const { result, id } = await begin("late");
    // Only the executor: its worker process goes on, and runs the tool to its end.
    executors.get(id)?.signal("SIGSTOP");
    expect(await result).toMatchObject({
      success: false,
      error: { code: "SANDBOX_CRASHED", details: { begun: true } },
    });
    executors.get(id)?.signal("SIGCONT");
    await fleet.until(id, true);
    // Alone, so that it runs the next call: everything that it sent before has arrived then.
    const other = id === "a" ? "b" : "a";
    await end(other);
    expect(await call("add", { a: 2, b: 3 })).toMatchObject({ success: true, output: 5 });
    expect(await kv.get({ tenantId: "acme", tool: "global/late" }, "late")).toBeUndefined();
    await start(other);
  });

  test("a stopped executor finishes its calls, takes no new ones, and exits with 0", async () => {
    const { result, id, open } = await beginGated("stopped");
    executors.get(id)?.signal("SIGTERM");
    await vi.waitFor(() => expect(fleet.host.fleet.executors.find((one) => one.id === id)?.isDraining).toBe(true));
    expect(await call("add", { a: 1, b: 1 })).toMatchObject({ success: true, output: 2 });
    await open();
    expect(await result).toMatchObject({ success: true, output: "x" });
    expect(await executors.get(id)?.exit).toBe(0);
    await end(id);
    await start(id);
  });

  test("a stopped executor exits when its host has read a large result, and not before", async () => {
    const bytes = 12 * MIB;
    const { result, id, open } = await beginGated("large", bytes);
    executors.get(id)?.signal("SIGTERM");
    await vi.waitFor(() => expect(fleet.host.fleet.executors.find((one) => one.id === id)?.isDraining).toBe(true));
    await open();
    const ended = await result;
    expect(ended.success ? (ended.output as string).length : ended.error).toBe(bytes);
    expect(await executors.get(id)?.exit).toBe(0);
    await end(id);
    await start(id);
  });

  test("an executor that its host drains finishes its calls, takes no new ones, and exits with 0", async () => {
    const { result, id, open } = await beginGated("drained");
    expect(await fleet.host.drainExecutor(id)).toBe("draining");
    // Again, while it drains.
    expect(await fleet.host.drainExecutor(id)).toBe("draining");
    expect(fleet.host.fleet.executors.find((one) => one.id === id)).toMatchObject({ isDraining: true });
    expect(await call("add", { a: 1, b: 1 })).toMatchObject({ success: true, output: 2 });
    await open();
    expect(await result).toMatchObject({ success: true, output: "x" });
    expect(await executors.get(id)?.exit).toBe(0);
    await end(id);
    expect(fleet.host.fleet.lost).toEqual([]);
    expect(await fleet.host.drainExecutor(id)).toBe("unknown");
    await start(id);
  });

  test("calls survive a restart of NATS that is shorter than the silence, or end with a stated result", async () => {
    const { result } = await begin("waits", { ms: 2_000 });
    await fleet.nats.restart();
    const ended = await result;
    if (!ended.success) expect(ended.error).toMatchObject({ code: "SANDBOX_CRASHED", details: { begun: true } });
    await vi.waitFor(async () => expect(await call("add", { a: 4, b: 4 })).toMatchObject({ success: true, output: 8 }));
  });

  test("a tenant's calls run only in its pools", async () => {
    // A machine that stops for the whole time of a call sees its timeout instead.
    await vi.waitFor(async () => {
      const noExecutor = await call("add", { a: 1, b: 1 }, { tenantId: "nowhere", timeoutMs: 1_000 });
      expect(noExecutor).toMatchObject({
        success: false,
        error: { code: "OVERLOADED", details: { retryAfterMs: expect.any(Number) } },
      });
      expect(noExecutor.success ? "" : noExecutor.error.message).toContain("No executor of the pool mars");
    });
    await vi.waitFor(async () => {
      const context = { tenantId: "europe", timeoutMs: 2_000 };
      expect(await call("add", { a: 1, b: 1 }, context)).toMatchObject({ error: { code: "OVERLOADED" } });
    });
    await start("eu-1", "--pool", "eu", "--slots", "1");
    expect(await call("add", { a: 1, b: 1 }, { tenantId: "europe" })).toMatchObject({ success: true, output: 2 });
  });

  test("a call that no executor has a slot for fails with OVERLOADED before its timeout, and does not run", async () => {
    const busy = call("waits", {}, { tenantId: "europe", timeoutMs: 300_000, signal: AbortSignal.timeout(240_000) });
    await vi.waitFor(() => expect(fleet.host.fleet.executors.find(({ id }) => id === "eu-1")?.busy).toBe(1));
    const waiting = call("add", { a: 1, b: 1 }, { tenantId: "europe", timeoutMs: 10_000 });
    await vi.waitFor(() => expect(fleet.host.fleet.queues).toMatchObject([{ pool: "eu", queued: 1 }]));
    const rejected = await waiting;
    expect(rejected).toMatchObject({
      success: false,
      error: { code: "OVERLOADED", details: { retryAfterMs: expect.any(Number) } },
    });
    expect(rejected.usage).toMatchObject({ cpuMs: 0, executeMs: 0, startMs: 0 });
    await end("eu-1");
    expect(await busy).toMatchObject({ success: false, error: { code: "SANDBOX_CRASHED" } });
  });
});

test.skipIf(!hasNatsServer)("a host that is blocked for longer than the silence loses no call", async () => {
  // With the 4 s between two lists of calls far less than the 15 s after which an executor ends the calls of a host that sends none.
  const silenceMs = 6_000;
  await using fleet = await openFleet({ executors: ["a"], silenceMs });
  await fleet.host.addTool({ name: "waits", source: TOOLS.waits as string });
  await fleet.start("a");
  const begun = Promise.withResolvers<void>();
  const context = { timeoutMs: 300_000, onLog: () => begun.resolve() };
  const result = fleet.host.execute({ id: "c", toolName: "waits", arguments: { ms: 1_000 } }, context);
  await begun.promise;
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, silenceMs + 1_000);
  expect(await result).toMatchObject({ success: true, output: "waited" });
  expect(fleet.host.fleet.lost).toEqual([]);
});
