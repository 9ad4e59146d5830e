// Starts the worker processes of a host or of an executor: the hardening layers, the code caches of the sandbox's own
// files, and the pool.
import { createHash } from "node:crypto";
import type { SandboxArtifacts } from "../../../bundler/artifacts/sandbox-artifacts.ts";
import { type BundleCache, CODE_CACHE_FACTOR, engineKeyOf } from "../../../bundler/cache/bundle-cache.ts";
import { Launcher, type LauncherOptions } from "../hardening/launcher.ts";
import type { Inspector } from "../process/inspected-isolate.ts";
import { WorkerPool, type WorkerPoolOptions } from "../worker-pool.ts";
import { EngineCache } from "./engine-cache.ts";
import { v8FlagsOf } from "./launch.ts";
import type { ProcessStarter } from "./process-starter.ts";

export interface WorkersStart {
  readonly artifacts: SandboxArtifacts;
  readonly cache: BundleCache;
  readonly hardening: LauncherOptions["hardening"];
  readonly inspector?: Inspector | undefined;
  readonly isolatesPerProcess: number;
  /** Default: one that uses a spawner after the first few processes. */
  readonly starter?: ProcessStarter | undefined;
  readonly pool: WorkerPoolOptions;
}

export interface StartedWorkers {
  readonly workers: WorkerPool;
  readonly launcher: Launcher;
  /** Key of code caches: they are valid for one version and configuration of the engine. */
  readonly engineKey: string;
}

/** @throws {ToolError} as a rejection: TOOL_UNAVAILABLE if a required layer is missing; what the first process fails with */
export async function startWorkers(start: WorkersStart): Promise<StartedWorkers> {
  const { artifacts, cache, hardening, inspector, isolatesPerProcess, starter, pool } = start;
  const preludeSha256 = createHash("sha256").update(artifacts.preludeSource).digest("hex");
  const engineKey = engineKeyOf([...v8FlagsOf(hardening), preludeSha256]);
  const engineCacheOf = async (sha256: string, units: number): Promise<EngineCache> => {
    const known = await cache.getCodeCache(sha256, engineKey);
    return new EngineCache(
      CODE_CACHE_FACTOR * units,
      known,
      (made) => void cache.setCodeCache(sha256, engineKey, made),
    );
  };
  const [preludeCache, moduleCache, launcher] = await Promise.all([
    engineCacheOf(preludeSha256, artifacts.preludeSource.length),
    engineCacheOf(artifacts.chunks.sha256, artifacts.chunks.units),
    Launcher.create({ script: artifacts.workerPath, hardening, isolatesPerProcess, starter }),
  ]);
  const workers = new WorkerPool({ ...artifacts, preludeCache, moduleCache, launcher, inspector }, pool);
  try {
    await workers.start();
  } catch (thrown) {
    await workers[Symbol.asyncDispose]();
    throw thrown;
  }
  return { workers, launcher, engineKey };
}
