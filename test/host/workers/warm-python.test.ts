// Warm Python processes: none without a slot for one, and no endless restarts of one that fails.
import { afterEach, beforeAll, expect, test } from "vitest";
import { loadSandboxArtifacts, type SandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import { loadPythonAssets, type PythonAssets } from "../../../src/bundler/python/python-assets.ts";
import { EngineCache } from "../../../src/host/workers/spawn/engine-cache.ts";
import type { PythonSources } from "../../../src/host/workers/spawn/python-setup.ts";
import { WorkerPool, type WorkerPoolOptions } from "../../../src/host/workers/worker-pool.ts";
import { MAX_SNAPSHOT_BYTES } from "../../../src/sandbox/protocol/message-fields.ts";
import { launcherOf } from "../../support/launchers.ts";

const MiB = 1024 * 1024;
let artifacts: SandboxArtifacts;
let assets: PythonAssets;
let pool: WorkerPool | undefined;
beforeAll(async () => {
  artifacts = await loadSandboxArtifacts();
  assets = await loadPythonAssets(artifacts);
});
afterEach(() => pool?.[Symbol.asyncDispose]());

async function start(options: Partial<WorkerPoolOptions> = {}): Promise<WorkerPool> {
  const caches = { preludeCache: new EngineCache(16 * MiB), moduleCache: new EngineCache(64 * MiB) };
  const launcher = await launcherOf(artifacts.workerPath);
  const places = { max: 6, warmProcesses: 1, maxPerOwner: 1, callsPerWorker: 1, idleMs: 60_000, memoryMiB: 8_192 };
  pool = new WorkerPool(
    { ...artifacts, ...caches, launcher },
    { ...places, maxQueued: 1, warmPythonProcesses: 1, ...options },
  );
  await pool.start();
  return pool;
}

const sources = (): PythonSources => ({
  ...assets,
  coarseTime: false,
  snapshot: new EngineCache(MAX_SNAPSHOT_BYTES),
  codeCache: new EngineCache(16 * MiB),
});

test.for([
  ["without a free process slot", { max: 1 }],
  ["without enough memory", { memoryMiB: 256 }],
  ["if none are configured", { warmPythonProcesses: 0 }],
] as const)("WorkerPool.openPython() starts no warm process %s", async ([, options]) => {
  const started = await start(options);
  await started.openPython(sources());
  expect(started.pids).toHaveLength(1);
});

test("a Python process that never starts is not restarted forever", async () => {
  const started = await start();
  const [plain] = started.pids;
  const killed = new Set<number>();
  const opened = started.openPython(sources());
  while (killed.size < 3) {
    await expect.poll(() => started.pids.find((pid) => pid !== plain && !killed.has(pid))).toBeDefined();
    const pid = started.pids.find((each) => each !== plain && !killed.has(each)) as number;
    killed.add(pid);
    process.kill(pid, "SIGKILL");
  }
  await opened;
  await expect.poll(() => started.pids).toEqual([plain]);
});
