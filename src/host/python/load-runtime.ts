// Loads the Python runtime for worker processes, of a host or of an executor: Glovebox's bundle, Pyodide's files, and
// caches made from both on this machine.

import type { SandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import { type BundleCache, engineKeyOf } from "../../bundler/cache/bundle-cache.ts";
import { loadPythonAssets } from "../../bundler/python/python-assets.ts";
import { MAX_SNAPSHOT_BYTES } from "../../sandbox/protocol/message-fields.ts";
import type { PythonOptions } from "../config/glovebox-options.ts";
import { PlatformModuleUsage } from "../executors/platform-module-usage.ts";
import { EngineCache } from "../workers/spawn/engine-cache.ts";
import { MAX_RUNTIME_CACHE_BYTES, type PythonSources } from "../workers/spawn/python-setup.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { PythonRuntime } from "./python-tool.ts";
import { packWheels, readWheels, unpackWheels } from "./wheels.ts";

export interface LoadFilesOptions {
  readonly artifacts: SandboxArtifacts;
  readonly cache: BundleCache;
  /** Properties of the engine that a code cache depends on. */
  readonly engineKey: string;
}

/** The files of the runtime, and what processes of this machine have made from them. */
export interface PythonFiles extends Omit<PythonSources, "wheels" | "coarseTime"> {
  /** Hash of the files, which is the same on all machines with them. */
  readonly key: string;
  /** Version of Pyodide. */
  readonly version: string;
  /** The same, with the properties of the engine. */
  readonly machineKey: string;
}

/** @throws {ToolError} TOOL_UNAVAILABLE without Pyodide in its version; INTERNAL for a broken installation */
export async function loadPythonFiles({ artifacts, cache, engineKey }: LoadFilesOptions): Promise<PythonFiles> {
  const { code, sha256, wasm, stdlib, key, version } = await loadPythonAssets(artifacts);
  const machineKey = engineKeyOf([engineKey, key]);
  const [knownCode, knownSnapshot] = await Promise.all([
    cache.getCodeCache(sha256, machineKey),
    cache.getSnapshot(machineKey),
  ]);
  const keepCode = (made: Uint8Array): void => void cache.setCodeCache(sha256, machineKey, made);
  const keepSnapshot = (made: Uint8Array): void => void cache.setSnapshot(machineKey, made);
  const codeCache = new EngineCache(MAX_RUNTIME_CACHE_BYTES, knownCode, keepCode);
  const snapshot = new EngineCache(MAX_SNAPSHOT_BYTES, knownSnapshot, keepSnapshot);
  return { sha256, code, wasm, stdlib, codeCache, snapshot, key, version, machineKey };
}

export interface LoadRuntimeOptions extends LoadFilesOptions {
  readonly pool: WorkerPool;
  readonly packages: PythonOptions["packages"];
  /** Clock precision of interpreters that are loaded ahead. */
  readonly coarseTime: boolean;
}

/**
 * Loads the runtime and starts Python processes in the pool.
 * @throws {ToolError} INTERNAL for a broken installation; PARAM_INVALID for missing wheels
 */
export async function loadPythonRuntime(options: LoadRuntimeOptions): Promise<PythonRuntime> {
  const { pool, cache, coarseTime, packages } = options;
  const packedWheels = packWheels(await readWheels(packages));
  const { key, version, machineKey, ...files } = await loadPythonFiles(options);
  const { sha256, code } = files;
  const usedModules = await cache.getPlatformModules(sha256);
  await pool.openPython({ ...files, wheels: unpackWheels(packedWheels), coarseTime });
  // Each process receives the code cache at its start, and never the bundle.
  const modules = new PlatformModuleUsage(cache, sha256, usedModules);
  const bundle = { sha256, code };
  return {
    bundle,
    codeCache: new Uint8Array(0),
    modules,
    key: machineKey,
    version,
    environment: { key, packedWheels },
  };
}
