// The pool with a program that fails to start: a broken installation, or a machine without room.
import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { loadSandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import type { Job } from "../../../src/host/workers/pool-job.ts";
import type { CallLossReason } from "../../../src/host/workers/process/call-events.ts";
import { EngineCache } from "../../../src/host/workers/spawn/engine-cache.ts";
import { WorkerPool } from "../../../src/host/workers/worker-pool.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { failureOf } from "../../support/host-zone.ts";
import { launcherOf } from "../../support/launchers.ts";
import { TOOL_PROFILE } from "../../support/tool-profile.ts";

const PLACES = { max: 4, warmProcesses: 0, maxPerOwner: 2, callsPerWorker: 4, idleMs: 60_000, memoryMiB: 4_096 };

/** A pool of processes that end as soon as they have started. */
async function poolOfBroken(): Promise<WorkerPool> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-broken-worker-")));
  chmodSync(folder, 0o755);
  const script = join(folder, "worker.mjs");
  writeFileSync(script, 'console.error("out of order"); process.exit(3);');
  const launcher = await launcherOf(script);
  const pool = new WorkerPool(
    { launcher, preludeSource: "", preludeCache: new EngineCache(0), moduleCache: new EngineCache(0) },
    { ...PLACES, maxQueued: 100 },
  );
  onTestFinished(async () => {
    await pool[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  return pool;
}

const job = (onLost: (loss: CallLossReason) => void): Job => ({
  owner: "acme",
  claim: { account: "acme", weight: 1, toolKey: "tool", accountLimits: DEFAULT_LIMITS, toolLimits: DEFAULT_LIMITS },
  order: {
    type: "call",
    tool: TOOL_PROFILE,
    callId: "c",
    tenantId: "acme",
  },
  bundle: { sha256: "0".repeat(64), code: "", codeCache: new Uint8Array(0), modules: { names: [] } },
  input: "{}",
  memoryMiB: 64,
  listener: {
    onLog() {},
    onProgress() {},
    onCapability() {},
    onPlaced() {},
    onPaused() {},
    onEnded() {},
    onStuck() {},
    onLost,
  },
});

describe("WorkerPool", () => {
  test("answers OVERLOADED, with retryAfterMs, when three processes have died before they were usable", async () => {
    const pool = await poolOfBroken();
    const { promise, resolve } = Promise.withResolvers<CallLossReason>();
    pool.run(job(resolve));
    const { begun, cause } = await promise;
    expect([begun, cause?.code, cause?.message]).toEqual([
      false,
      "OVERLOADED",
      "A sandbox process could not be started",
    ]);
    expect(cause?.details?.retryAfterMs).toBeGreaterThan(0);
  });

  test("restarts a first process that was late, with every requested layer", async () => {
    const { workerPath, ...texts } = await loadSandboxArtifacts();
    const launcher = await launcherOf(workerPath);
    const before = launcher.report;
    const preludeCache = new EngineCache(4 * texts.preludeSource.length);
    const pool = new WorkerPool(
      { ...texts, preludeCache, moduleCache: new EngineCache(0), launcher },
      { ...PLACES, maxQueued: 100 },
    );
    onTestFinished(() => pool[Symbol.asyncDispose]());
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const started = pool.start();
    vi.advanceTimersByTime(10_000);
    vi.useRealTimers();
    await started;
    expect(launcher.report).toEqual(before);
    expect(pool.pids).toHaveLength(1);
  });

  test("does not end its first process as superfluous while that starts", async () => {
    const { workerPath, ...texts } = await loadSandboxArtifacts();
    const launcher = await launcherOf(workerPath);
    const before = launcher.report;
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const preludeCache = new EngineCache(4 * texts.preludeSource.length);
    const pool = new WorkerPool(
      { ...texts, preludeCache, moduleCache: new EngineCache(0), launcher },
      { ...PLACES, maxQueued: 100 },
    );
    onTestFinished(() => pool[Symbol.asyncDispose]());
    const started = pool.start();
    // In the turn in which the process has begun: a few ms later it has started, and may be superfluous.
    while (pool.pids.length === 0) await nextTurn();
    vi.advanceTimersByTime(20_000);
    vi.useRealTimers();
    await started;
    expect(launcher.report).toEqual(before);
    expect(pool.pids).toHaveLength(1);
  });

  test("fails to start if no process starts with any layers of hardening, and keeps its diagnostics", async () => {
    const pool = await poolOfBroken();
    const error = await failureOf(pool.start());
    expect([error.code, error.message]).toEqual(["INTERNAL", "A sandbox process could not be started"]);
    expect(String((error.cause as Error).message)).toContain("out of order");
  });
});
