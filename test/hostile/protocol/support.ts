// A host with fake workers: one tenant's worker is compromised, the others behave. The compromised worker may fail only its own call.
import { chmodSync, copyFileSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { createStackMapper } from "../../../src/bundler/compile/source-map.ts";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { ToolStream } from "../../../src/host/contract/tool-stream.ts";
import { createSandboxExecutor } from "../../../src/host/executors/sandbox.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { Launcher } from "../../../src/host/workers/hardening/launcher.ts";
import { EngineCache } from "../../../src/host/workers/spawn/engine-cache.ts";
import { WorkerPool } from "../../../src/host/workers/worker-pool.ts";
import type { ErrorCode } from "../../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS, type PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, expectPublishable, outputOf } from "../../support/host-zone.ts";
import { expectDead, expectIdle } from "../../support/processes.ts";
import { makeTool } from "../../support/registered-tool.ts";
import { DEATH_MS, expectInTime, LATE_MS, LagMeter, MemoryWatch, promptly } from "../assertions.ts";

/** Wall time of calls that end by themselves. It is generous because it depends on the machine. */
const ATTACKED_MS = 120_000;
/** Wall time of calls that end only by their deadline. */
const BRIEF_MS = 5_000;

export interface WorkerAttack {
  /** The body of a module that imports all of fake-worker.js, and calls `serve(attack)`. */
  readonly worker: string;
  readonly codes: readonly (ErrorCode | "ok")[];
  /** Wall time of the attacked call. Default: BRIEF_MS where its deadline is one of `codes`, otherwise ATTACKED_MS. */
  readonly timeoutMs?: number;
  readonly limits?: PartialLimits;
  /** Whether the caller reads the output of the attacked call as a stream. */
  readonly stream?: true;
  /** Whether the compromised process must have ended afterwards. Default: true. */
  readonly dies?: boolean;
  readonly check?: (result: ToolResult, served: readonly string[]) => void;
}

function writeWorker(body: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-fake-worker-")));
  // A worker runs as a separate user, which must be able to read it.
  chmodSync(folder, 0o755);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  copyFileSync(fileURLToPath(new URL("fake-worker.js", import.meta.url)), join(folder, "fake-worker.js"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const path = join(folder, "worker.js");
  writeFileSync(
    path,
    `import { behave, ended, flood, frame, send, serve, socket, USAGE } from "./fake-worker.js";\n${body}\n`,
  );
  return path;
}

interface FakeHost extends AsyncDisposable {
  readonly pool: WorkerPool;
  readonly router: ToolRouter;
  /** Capability calls that a handler has answered, as `tenant:input`. */
  readonly served: readonly string[];
}

async function makeFakeHost(attack: WorkerAttack): Promise<FakeHost> {
  const plain = { require: [], without: [], jitless: false };
  const launcher = await Launcher.create({
    script: writeWorker(attack.worker),
    hardening: plain,
    isolatesPerProcess: 8,
  });
  const sources = { launcher, preludeSource: "", preludeCache: new EngineCache(0), moduleCache: new EngineCache(0) };
  const places = { max: 6, warmProcesses: 0, maxPerOwner: 1, callsPerWorker: 4, idleMs: 600_000 };
  const pool = new WorkerPool(sources, { ...places, memoryMiB: 4_096, maxQueued: 100 });
  const router = new ToolRouter({ tenancy: "multi", limits: { timeoutMs: ATTACKED_MS, ...attack.limits } });
  const served: string[] = [];
  const echo = defineCapability({
    name: "echo",
    inputSchema: {},
    outputSchema: {},
    handler: (input, { tenantId }) => {
      served.push(`${tenantId}:${JSON.stringify(input)}`);
      return input;
    },
  });
  const sha256 = "0".repeat(64);
  const bundle = {
    sha256,
    code: "",
    sourceMap: "",
    entry: "tool.ts",
    exports: [],
    inputs: [],
    packages: [],
    dynamicCode: [],
  };
  const executor = createSandboxExecutor(
    {
      bundle,
      codeCache: new Uint8Array(0),
      modules: { names: [], add() {} },
      stackMapper: createStackMapper('{"version":3,"sources":[],"names":[],"mappings":""}'),
      isolateLifetime: "call",
      prewarm: true,
      ownerOf: (tenantId) => tenantId,
      granted: new Map([["echo", echo]]),
      denied: [],
      features: [],
    },
    pool,
  );
  router.registry.add(makeTool({ executor }));
  const dispose = async (): Promise<void> => {
    await router[Symbol.asyncDispose]();
    await pool[Symbol.asyncDispose]();
  };
  return { pool, router, served, [Symbol.asyncDispose]: dispose };
}

async function timed(call: Promise<ToolResult>): Promise<{ readonly result: ToolResult; readonly tookMs: number }> {
  const begun = performance.now();
  const result = await call;
  return { result, tookMs: performance.now() - begun };
}

/** Reads a stream to its end. */
async function resultOf(stream: ToolStream): Promise<ToolResult> {
  for await (const item of stream) if (item.type === "result") return item;
  throw new Error("Expected a result at the end of the stream");
}

/** Registers one test. */
export function testWorkerAttack(name: string, attack: WorkerAttack): void {
  test(`a worker that ${name}: ${attack.codes.join(" or ")}, and no other tenant is affected`, () =>
    promptly(() => strike(attack)));
}

async function strike(attack: WorkerAttack): Promise<void> {
  const { codes, dies = true, check } = attack;
  const { timeoutMs = codes.includes("TOOL_TIMEOUT") ? BRIEF_MS : ATTACKED_MS } = attack;
  await using host = await makeFakeHost(attack);
  const call = (tenantId: string): Promise<ToolResult> => {
    const toolCall = { id: "c", toolName: "probe" };
    const context = { tenantId, timeoutMs: tenantId === "evil" ? timeoutMs : ATTACKED_MS };
    return tenantId === "evil" && attack.stream
      ? resultOf(host.router.stream(toolCall, context))
      : host.router.execute(toolCall, context);
  };
  expect(outputOf(await call("good"))).toBe("served");
  const good = new Set(host.pool.pids);
  using memory = new MemoryWatch(() => host.pool.pids, attack.limits?.memoryMiB ?? DEFAULT_LIMITS.memoryMiB);
  using lag = new LagMeter();
  const [{ result, tookMs }, ...others] = await Promise.all([
    timed(call("evil")),
    call("good"),
    call("good"),
    call("other"),
  ]);
  expect(codes, JSON.stringify(result).slice(0, 300)).toContain(codeOf(result));
  expectPublishable(result);
  check?.(result, host.served);
  expect(others.map(outputOf)).toEqual(["served", "served", "served"]);
  expect(host.pool.pids.filter((pid) => good.has(pid))).toEqual([...good]);
  if (dies) await expectIdle(() => host.pool.pids, DEATH_MS);
  await memory.expectBounded();
  const pids = [...host.pool.pids];
  expect(outputOf(await call("good"))).toBe("served");
  await host[Symbol.asyncDispose]();
  await expectDead(pids, DEATH_MS);
  expectInTime(tookMs, timeoutMs + LATE_MS);
  await lag.expectPrompt();
}

/** Registers one test: a compromised worker makes attempts, `await attempt(name, run)` each, and every attempt must fail. */
export function testForbidden(name: string, attempts: string): void {
  testWorkerAttack(name, {
    worker: `process.on("uncaughtException", () => {});
serve(async (call) => {
  const outcomes = {};
  const attempt = async (name, run) => {
    const silence = new Promise((_, fail) => setTimeout(() => fail(new Error("silent")), 300));
    try { outcomes[name] = "did it: " + String(await Promise.race([run(), silence])).slice(0, 40); } catch (error) { outcomes[name] = error.code ?? error.name; }
  };
  ${attempts}
  ended(call.seq, "output", JSON.stringify(outcomes));
  send({ type: "released", seq: call.seq });
});`,
    codes: ["ok"],
    dies: false,
    check: (result) => {
      for (const [attempt, outcome] of Object.entries(outputOf(result) as object))
        expect([attempt, outcome]).not.toEqual([attempt, expect.stringMatching(/^did it/)]);
    },
  });
}
