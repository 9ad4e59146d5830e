// Loads the Python runtime for worker processes: Glovebox's bundle, Pyodide's files, and caches made from both on this
// machine.

import type { SandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import { type BundleCache, engineKeyOf } from "../../bundler/cache/bundle-cache.ts";
import { loadPythonAssets } from "../../bundler/python/python-assets.ts";
import { MAX_SNAPSHOT_BYTES } from "../../sandbox/protocol/messages.ts";
import type { PythonOptions } from "../config/glovebox-options.ts";
import { PlatformModuleUsage } from "../executors/platform-module-usage.ts";
import { EngineCache } from "../workers/engine-cache.ts";
import { MAX_RUNTIME_CACHE_BYTES } from "../workers/python-setup.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { PythonRuntime } from "./python-tool.ts";
import { readWheels } from "./wheels.ts";

export interface LoadRuntimeOptions {
  readonly artifacts: SandboxArtifacts;
  readonly pool: WorkerPool;
  readonly cache: BundleCache;
  /** Properties of the engine that a code cache depends on. */
  readonly engineKey: string;
  readonly packages: PythonOptions["packages"];
  /** Clock precision of interpreters that are loaded ahead. */
  readonly coarseTime: boolean;
}

/**
 * Loads the runtime and starts Python processes in the pool.
 * @throws {ToolError} INTERNAL for a broken installation; PARAM_INVALID for missing wheels
 */
export async function loadPythonRuntime(options: LoadRuntimeOptions): Promise<PythonRuntime> {
  const { artifacts, pool, cache, engineKey, coarseTime } = options;
  const wheels = await readWheels(options.packages);
  const { code, sha256, wasm, stdlib, key: assetsKey } = await loadPythonAssets(artifacts);
  const key = engineKeyOf([engineKey, assetsKey]);
  const [knownCode, knownSnapshot, usedModules] = await Promise.all([
    cache.getCodeCache(sha256, key),
    cache.getSnapshot(key),
    cache.getPlatformModules(sha256),
  ]);
  const keepCode = (made: Uint8Array): void => void cache.setCodeCache(sha256, key, made);
  const keepSnapshot = (made: Uint8Array): void => void cache.setSnapshot(key, made);
  const codeCache = new EngineCache(MAX_RUNTIME_CACHE_BYTES, knownCode, keepCode);
  const snapshot = new EngineCache(MAX_SNAPSHOT_BYTES, knownSnapshot, keepSnapshot);
  await pool.openPython({ sha256, code, wasm, stdlib, wheels, coarseTime, codeCache, snapshot });
  // Each process receives the code cache at its start, and never the bundle.
  const modules = new PlatformModuleUsage(cache, sha256, usedModules);
  return { bundle: { sha256, code }, codeCache: new Uint8Array(0), modules, key };
}
