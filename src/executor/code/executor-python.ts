// The Python of an executor: finds out whether this machine has it, and prepares processes with the packages of each
// control plane. Snapshots and code caches are made here and used here only.
import type { SandboxArtifacts } from "../../bundler/artifacts/sandbox-artifacts.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import { loadPythonAssets } from "../../bundler/python/python-assets.ts";
import { pyodideFolder } from "../../bundler/python/python-runtime.ts";
import { loadPythonFiles, type PythonFiles } from "../../host/python/load-runtime.ts";
import { unpackWheels } from "../../host/python/wheels.ts";
import { setBounded } from "../../host/util/bounded-map.ts";
import type { PythonSources } from "../../host/workers/spawn/python-setup.ts";
import type { WorkerPool } from "../../host/workers/worker-pool.ts";

export interface ExecutorPythonOptions {
  readonly artifacts: SandboxArtifacts;
  readonly cache: BundleCache;
  readonly engineKey: string;
  readonly workers: WorkerPool;
  readonly onError: (error: unknown) => void;
}

/** Which packages and clock the processes of a call have. */
export interface PackagesRef {
  /** Hash of the wheels; undefined if there are none. */
  readonly wheels: string | undefined;
  readonly coarseTime: boolean;
}

/** Maximum number of package sets kept. Control planes with one database have the same set. */
const MAX_ENVIRONMENTS = 4;
const keyOf = ({ wheels, coarseTime }: PackagesRef): string => `${wheels ?? ""} ${coarseTime}`;

interface Environment {
  readonly opening: Promise<PythonSources>;
  sources: PythonSources | undefined;
}

export class ExecutorPython {
  readonly #runtime: string;
  readonly #options: ExecutorPythonOptions;
  /** In order of use, most recent last. */
  readonly #environments = new Map<string, Environment>();
  #files: Promise<PythonFiles> | undefined;
  #preparing: Promise<void> | undefined;
  #isPrepared = false;
  #isBroken = false;

  private constructor(runtime: string, options: ExecutorPythonOptions) {
    this.#runtime = runtime;
    this.#options = options;
  }

  /** Returns the Python of this machine; undefined if Pyodide is not installed, or not in the right version. */
  static async find(options: ExecutorPythonOptions): Promise<ExecutorPython | undefined> {
    try {
      pyodideFolder();
    } catch {
      return undefined;
    }
    try {
      // Only its hash is needed. An executor that gets no Python calls keeps none of its files in memory.
      const { key } = await loadPythonAssets(options.artifacts);
      return new ExecutorPython(key, options);
    } catch (thrown) {
      options.onError(thrown);
      return undefined;
    }
  }

  /** Hash of the runtime; undefined if it has turned out to be broken. */
  get runtime(): string | undefined {
    return this.#isBroken ? undefined : this.#runtime;
  }

  /** Whether an interpreter can be started at once. */
  get isReady(): boolean {
    return this.#isPrepared && !this.#isBroken;
  }

  /**
   * Makes the interpreter's snapshot, which takes seconds, unless this machine has one. Processes are kept warm from the
   * first call on. Never rejects: a failure is reported, and calls fail.
   */
  prepare(): Promise<void> {
    this.#preparing ??= this.#makeSnapshot().catch(() => undefined);
    return this.#preparing;
  }

  async #makeSnapshot(): Promise<void> {
    const { key: _key, machineKey: _machineKey, ...files } = await this.#loadFiles();
    const { workers } = this.#options;
    if (files.snapshot.bytes.byteLength === 0) {
      const sources = { ...files, coarseTime: false };
      await workers.openPython(sources);
      workers.closePython(sources);
    }
    this.#isPrepared = true;
  }

  /** Returns what processes with these packages start from, if it has been prepared. */
  known(packages: PackagesRef): PythonSources | undefined {
    const key = keyOf(packages);
    const found = this.#environments.get(key);
    if (found?.sources !== undefined) setBounded(this.#environments, key, found, MAX_ENVIRONMENTS);
    return found?.sources;
  }

  /**
   * Prepares processes with these packages. The first time on a machine, it takes seconds to make the interpreter's
   * snapshot.
   * @throws {Error} as a rejection, for bytes that are not wheels, or if Pyodide's files differ from the announced ones
   */
  async open(packages: PackagesRef, packedWheels: Uint8Array | undefined): Promise<PythonSources> {
    const key = keyOf(packages);
    const known = this.#environments.get(key);
    if (known !== undefined) return await known.opening;
    const opening = this.#prepare(packages, packedWheels);
    const environment: Environment = { opening, sources: undefined };
    setBounded(this.#environments, key, environment, MAX_ENVIRONMENTS);
    try {
      environment.sources = await opening;
      return environment.sources;
    } catch (thrown) {
      if (this.#environments.get(key) === environment) this.#environments.delete(key);
      throw thrown;
    }
  }

  async #prepare({ coarseTime }: PackagesRef, packedWheels: Uint8Array | undefined): Promise<PythonSources> {
    const wheels = unpackWheels(packedWheels);
    const { key: _key, machineKey: _machineKey, ...files } = await this.#loadFiles();
    const sources = { ...files, wheels, coarseTime };
    await this.#options.workers.openPython(sources);
    return sources;
  }

  async #loadFiles(): Promise<PythonFiles> {
    this.#files ??= loadPythonFiles(this.#options);
    try {
      const files = await this.#files;
      if (files.key !== this.#runtime) throw new Error("Pyodide was replaced. Restart the executor to use it");
      return files;
    } catch (thrown) {
      // From now on it announces no Python.
      if (!this.#isBroken) this.#options.onError(thrown);
      this.#isBroken = true;
      throw thrown;
    }
  }
}
