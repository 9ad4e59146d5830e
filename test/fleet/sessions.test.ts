// Sessions whose isolates are on executors: where their calls run, what ends them, and what a lost executor means for them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import { type CallContext, createGlovebox, defineCapability, type ToolResult } from "../../src/host/index.ts";
import type { CliProcess } from "../support/cli-process.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { descendantsOf, signal } from "../support/process-tree.ts";

const COUNTER = "let count = 0; export default ({ by = 1 }) => (count += by);";
/** Says that it has begun, waits, and counts. */
const SLOW = `let count = 0;
  export default async ({ ms = 0 }) => { console.log("begun"); await new Promise((resolve) => setTimeout(resolve, ms)); return (count += 1); }`;
const HOARDS = "const kept = []; export default () => { for (;;) kept.push(new Array(100_000).fill(Math.random())); };";
const GATED = `export const capabilities = { gate: true }; export default async (_, ctx) => await ctx.gate({});`;
/** Let the calls of "gated" go on. */
const gates: (() => void)[] = [];
const gate = defineCapability({
  name: "gate",
  inputSchema: z.object({}),
  outputSchema: z.string(),
  handler: () => new Promise<string>((resolve) => gates.push(() => resolve("passed"))),
});
const SESSION = { scope: "global", isolateLifetime: "session" } as const;

const fold = (results: readonly ToolResult[]): readonly unknown[] =>
  results.map((result) => (result.success ? result.output : (result.error.details?.endedFor ?? result.error.code)));

describe.skipIf(!hasNatsServer)("sessions on executors", () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-sessions-"));
  /** Pools that the tenant "moves" may use. */
  let pools = ["default"];
  let fleet: Fleet;
  const executors = new Map<string, RunningExecutor>();
  const processes: CliProcess[] = [];

  const start = async (
    id: string,
    options: { readonly slots?: number; readonly pool?: string } = {},
  ): Promise<void> => {
    const { nats, credentialsOf } = fleet;
    const place = { url: nats.url, credentials: credentialsOf(id), cacheDir: join(folder, id) };
    executors.set(id, await startExecutor({ ...place, ...options, workers: { max: 3 } }));
    await fleet.until(id, true);
  };
  const end = async (id: string): Promise<void> => {
    await executors.get(id)?.[Symbol.asyncDispose]();
    executors.delete(id);
    await fleet.until(id, false);
  };
  /** Number of isolates on each executor that has some. */
  const homes = (): { readonly [id: string]: number } =>
    Object.fromEntries([...executors].flatMap(([id, { sessions }]) => (sessions === 0 ? [] : [[id, sessions]])));
  const untilHomes = (expected: object): Promise<void> =>
    vi.waitFor(() => {
      expect(homes()).toEqual(expected);
    });
  const call = (toolName: string, args: object = {}, context: CallContext = {}): Promise<ToolResult> =>
    fleet.host.execute({ id: toolName, toolName, arguments: args as never }, { tenantId: "acme", ...context });
  const count = (sessionId: string, tenantId = "acme"): Promise<ToolResult> =>
    call("counter", {}, { sessionId, tenantId });
  /** Starts a call that waits, and resolves when its tool has begun. */
  const begin = async (args: object, context: CallContext): Promise<{ readonly result: Promise<ToolResult> }> => {
    const begun = Promise.withResolvers<void>();
    const result = call("slow", args, { ...context, onLog: () => begun.resolve() });
    await begun.promise;
    return { result };
  };

  beforeAll(async () => {
    const few = { limits: { sessions: 2 } };
    const known: { readonly [id: string]: object } = { few, beta: {}, acme: {}, narrow: { pools: ["narrow"] } };
    fleet = await openFleet({
      executors: ["a", "b", "narrow-1", "lost-1"],
      poolOf: (id) => (id.includes("-") ? id.slice(0, -2) : "default"),
      host: {
        tenancy: "multi",
        tenants: (id) => (id === "moves" ? { pools } : id === "lost" ? { pools: ["lost"] } : known[id]),
        workers: { max: 4 },
        capabilities: [gate],
      },
      silenceMs: 15_000,
    });
    await Promise.all([start("a"), start("b")]);
    await fleet.host.addTool({ name: "counter", source: COUNTER }, SESSION);
    await fleet.host.addTool({ name: "slow", source: SLOW }, SESSION);
    await fleet.host.addTool({ name: "gated", source: GATED }, { ...SESSION, grant: ["gate"] });
    await fleet.host.addTool({ name: "hoards", source: HOARDS }, SESSION);
  });
  afterAll(async () => {
    await Promise.all([...executors.values()].map((one) => one[Symbol.asyncDispose]()));
    await fleet?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    for (const id of ["a", "b"]) if (!executors.has(id)) await start(id);
  });
  afterEach(async () => {
    for (const tenantId of ["acme", "beta", "few", "moves", "lost"]) await fleet.host.closeSessions({ tenantId });
    await untilHomes({});
    await Promise.all(processes.splice(0).map((one) => one[Symbol.asyncDispose]()));
  });

  test("all calls of a session run in one isolate on one executor, and none on the host", async () => {
    expect(fold([await count("s"), await count("s"), await count("other"), await count("s")])).toEqual([1, 2, 1, 3]);
    expect(fold([await count("s", "beta")])).toEqual([1]);
    const numbers = await Promise.all([1, 2, 3, 4].map(() => count("s")));
    expect(fold(numbers)).toEqual([4, 5, 6, 7]);
    expect(Object.values(homes()).reduce((sum, n) => sum + n, 0)).toBe(3);
    expect(fleet.host.listSessions({ tenantId: "acme" }).map(({ id, runs }) => [id, runs])).toEqual([
      ["s", 7],
      ["other", 1],
    ]);
  });

  test("a closed session ends on its executor, also while a call runs", async () => {
    await count("s");
    expect(await fleet.host.closeSession("s", { tenantId: "acme" })).toBe(true);
    await untilHomes({});
    const { result } = await begin({ ms: 600_000 }, { sessionId: "busy" });
    expect(await fleet.host.closeSession("busy", { tenantId: "acme" })).toBe(true);
    expect(await result).toMatchObject({ success: false, error: { code: "CANCELLED" } });
    await untilHomes({});
    expect(fold([await count("s")])).toEqual([1]);
  });

  test("the host limits the sessions of a tenant", async () => {
    expect(fold([await count("1", "few"), await count("2", "few"), await count("3", "few")])).toEqual([
      ...[1, 1],
      "QUOTA_EXCEEDED",
    ]);
    await fleet.host.closeSession("1", { tenantId: "few" });
    expect(fold([await count("3", "few"), await count("2", "few")])).toEqual([1, 2]);
  });

  test("a session that is idle, or has used what it may, ends on its executor", async () => {
    const idle = await fleet.host.openSession({ tenantId: "acme", idleMs: 2_000 });
    expect(await idle.run("var n = 1; n")).toMatchObject({ success: true, output: 1 });
    await untilHomes({});
    expect(await idle.run("n")).toMatchObject({
      success: false,
      error: { code: "TOOL_UNAVAILABLE", details: { reason: "session_ended", endedFor: "it was idle for 2000 ms" } },
    });
    const short = await fleet.host.openSession({ tenantId: "acme", total: { runs: 2 } });
    expect(fold([await short.run("1"), await short.run("2"), await short.run("3")])).toEqual([
      1,
      2,
      "it has reached 2 runs",
    ]);
    await untilHomes({});
  });

  test("a call that is stopped ends its session", async () => {
    expect(fold([await call("slow", {}, { sessionId: "s" })])).toEqual([1]);
    // Again with more time, if the machine is so busy that it could not begin.
    let hasBegun = false;
    for (let timeoutMs = 3_000; !hasBegun; timeoutMs *= 4) {
      const onLog = (): void => {
        hasBegun = true;
      };
      const result = await call("slow", { ms: 600_000 }, { sessionId: "s", timeoutMs, onLog });
      expect(result).toMatchObject({ success: false, error: { code: "TOOL_TIMEOUT" } });
    }
    await untilHomes({});
    expect(fold([await call("slow", {}, { sessionId: "s" })])).toEqual([1]);
    const home = homes();
    expect(fold([await call("hoards", {}, { sessionId: "m" })])).toEqual(["MEMORY_LIMIT"]);
    await untilHomes(home);
  });

  test("a tool that is updated or removed ends its sessions after their calls", async () => {
    const own = { tenantId: "acme", isolateLifetime: "session" } as const;
    await fleet.host.addTool({ name: "own", source: SLOW }, own);
    const run = (args: object = {}, onLog = (): void => {}): Promise<ToolResult> =>
      call("own", args, { sessionId: "s", onLog });
    expect(fold([await run(), await run()])).toEqual([1, 2]);
    const begun = Promise.withResolvers<void>();
    const last = run({ ms: 500 }, begun.resolve);
    await begun.promise;
    await fleet.host.updateTool({ name: "own", source: SLOW }, own);
    expect(fold([await last, await run()])).toEqual([3, 1]);
    fleet.host.removeTool("own", { tenantId: "acme" });
    await untilHomes({});
  });

  test("a deleted tenant has no isolates left", async () => {
    await count("s", "beta");
    const { result } = await begin({ ms: 600_000 }, { sessionId: "t", tenantId: "beta" });
    await fleet.host.deleteTenant("beta");
    expect(await result).toMatchObject({ success: false });
    await untilHomes({});
  });

  test("a session whose process is lost ends, and is never continued in an empty isolate", async () => {
    const cli = await fleet.start("lost-1", ["--pool", "lost"]);
    processes.push(cli);
    const session = await fleet.host.openSession({ tenantId: "lost" });
    expect(await session.run("var kept = 1; kept")).toMatchObject({ success: true, output: 1 });
    expect(fold([await count("s", "lost"), await count("s", "lost")])).toEqual([1, 2]);
    for (const { pid } of descendantsOf(cli.pid ?? -1)) signal(pid, "SIGKILL");
    await vi.waitFor(() => expect(fleet.host.listSessions({ tenantId: "lost" })).toEqual([]));
    expect(await session.run("typeof kept")).toMatchObject({
      error: { code: "TOOL_UNAVAILABLE", details: { reason: "session_ended", endedFor: "its process has ended" } },
    });
    // A later call of a tool begins a new session.
    expect(fold([await count("s", "lost")])).toEqual([1]);
  });

  test("a call waits for the executor of its session, and fails before its timeout if that stays full", async () => {
    await start("narrow-1", { pool: "narrow", slots: 1 });
    const tenantId = "narrow";
    expect(fold([await count("s", tenantId)])).toEqual([1]);
    const busy = call("gated", {}, { sessionId: "busy", tenantId });
    await vi.waitFor(() => expect(gates.length).toBe(1));
    // A machine that stops for the whole time of a call sees its timeout instead.
    await vi.waitFor(async () => {
      const full = await call("counter", {}, { sessionId: "s", tenantId, timeoutMs: 3_000 });
      expect(full).toMatchObject({ success: false, error: { code: "OVERLOADED" } });
      expect(full.success ? "" : full.error.message).toMatch(/^The executor of the session was full for \d+ ms/);
    });
    const waiting = count("s", tenantId);
    for (const open of gates.splice(0)) open();
    expect(fold([await busy])).toEqual(["passed"]);
    // It has kept its state.
    expect(fold([await waiting])).toEqual([2]);
    await end("narrow-1");
  });

  test("a session of a tenant that may no longer use the pool of its executor ends there", async () => {
    pools = ["default"];
    expect(fold([await count("s", "moves"), await count("s", "moves")])).toEqual([1, 2]);
    pools = ["narrow"];
    fleet.host.invalidateTenant("moves");
    await start("narrow-1", { pool: "narrow" });
    expect(await count("s", "moves")).toMatchObject({
      error: {
        details: { reason: "session_ended", endedFor: "its tenant may no longer use the pool of its executor" },
      },
    });
    await untilHomes({});
    expect(fold([await count("s", "moves")])).toEqual([1]);
    expect(homes()).toEqual({ "narrow-1": 1 });
    await end("narrow-1");
  });

  test("an executor that drains finishes the running call of a session, ends its sessions, and gets no new ones", async () => {
    await count("idle");
    const [id] = Object.keys(homes()) as [string];
    const { result } = await begin({ ms: 2_000 }, { sessionId: "busy" });
    const waiting = call("slow", {}, { sessionId: "busy" });
    const home = Object.keys(homes()).find((one) => (homes()[one] ?? 0) > (one === id ? 1 : 0)) as string;
    const executor = executors.get(home) as RunningExecutor;
    const drained = executor.drain(300_000);
    expect(fold([await result])).toEqual([1]);
    expect(await waiting).toMatchObject({
      error: { details: { reason: "session_ended", endedFor: "its executor stops" } },
    });
    expect(await drained).toBe(0);
    await vi.waitFor(() => expect(executor.sessions).toBe(0));
    expect(fold([await call("slow", {}, { sessionId: "busy" })])).toEqual([1]);
    expect(executor.sessions).toBe(0);
    await end(home);
  });

  test("an executor that is lost ends its sessions: a running call fails, and later ones begin anew or say why", async () => {
    const cli = await fleet.start("lost-1", ["--pool", "lost"]);
    processes.push(cli);
    const context = { tenantId: "lost", sessionId: "s" };
    expect(fold([await call("slow", {}, context), await call("slow", {}, context)])).toEqual([1, 2]);
    const idle = await fleet.host.openSession({ tenantId: "lost" });
    await idle.run("var n = 1");
    const { result } = await begin({ ms: 600_000 }, context);
    cli.signal("SIGKILL");
    expect(await result).toMatchObject({ error: { code: "SANDBOX_CRASHED", details: { begun: true } } });
    await fleet.until("lost-1", false);
    expect(await idle.run("n")).toMatchObject({
      error: { details: { reason: "session_ended", endedFor: "its executor was lost" } },
    });
    processes.push(await fleet.start("lost-1", ["--pool", "lost"]));
    expect(fold([await call("slow", {}, context)])).toEqual([1]);
  });

  test("an executor that was frozen has no session any longer", async () => {
    const cli = await fleet.start("lost-1", ["--pool", "lost"]);
    processes.push(cli);
    const context = { tenantId: "lost", sessionId: "s" };
    expect(fold([await call("slow", {}, context), await call("slow", {}, context)])).toEqual([1, 2]);
    cli.signal("SIGSTOP");
    await vi.waitFor(() => expect(fleet.host.listSessions({ tenantId: "lost" })).toEqual([]));
    cli.signal("SIGCONT");
    await fleet.until("lost-1", true);
    expect(fold([await call("slow", {}, context), await call("slow", {}, context)])).toEqual([1, 2]);
  });

  test("executors end the sessions of a host that has closed", async () => {
    const { nats, credentialsOf } = fleet;
    const other = await createGlovebox({
      executors: { url: nats.url, credentials: credentialsOf("control-plane"), silenceMs: 10_000 },
      workers: { max: 2 },
      limits: PATIENT_LIMITS,
    });
    await vi.waitFor(() => expect(other.fleet.executors.length).toBeGreaterThan(0));
    const session = await other.openSession();
    await session.run("1");
    expect(Object.values(homes())).toEqual([1]);
    await other.close();
    await untilHomes({});
  });
});
