// The isolates and bundles of one worker. Creates isolates for calls and keeps those that later calls of a tool or session reuse.
import type { PlatformModuleName } from "../protocol/platform-modules.ts";
import { createLoadableBundle, type Engine, type LoadableBundle } from "./isolate/engine.ts";
import { type IsolateOptions, ToolIsolate } from "./isolate/tool-isolate.ts";
import { recordedStart } from "./random-bytes.ts";
import { type WarmIsolateKeeper, WarmIsolates } from "./warm-isolates.ts";
import { WarmPythonIsolates, type WarmPythonOptions } from "./warm-python-isolates.ts";

/** Maximum number of idle isolates in one worker (1.2 to 2 MB each). The least recently used one is disposed first. */
const MAX_IDLE = 16;

/** A bundle's code cache is rebuilt after 2, 4, 8 … successful calls, up to this number. */
const LAST_CACHE_REBUILD = 64;

interface IdleIsolate {
  readonly key: string;
  readonly isolate: ToolIsolate;
}

export class IsolatePool {
  readonly #engine: Engine;
  readonly warmIsolates: WarmIsolates;
  readonly #bundles = new Map<string, LoadableBundle>();
  /** Number of successful calls by bundle. */
  readonly #successfulCalls = new Map<string, number>();
  /** By bundle: how many of its used platform modules, in the order of their set, the host already knows. */
  readonly #reportedModules = new Map<string, number>();
  readonly #isCalm: () => boolean;
  /** Set in a process that runs Python. */
  python: WarmPythonIsolates | undefined;
  /** Isolate of each session between two of its calls. */
  readonly sessions = new Map<number, ToolIsolate>();
  /** Ordered by last use, oldest first. */
  #idle: IdleIsolate[] = [];

  constructor(engine: Engine, worker: Pick<WarmIsolateKeeper, "isCalm" | "onStuck">) {
    this.#engine = engine;
    this.#isCalm = worker.isCalm;
    this.warmIsolates = new WarmIsolates({
      ...worker,
      create: ({ limits, features, coarseTime, isRecorded }) =>
        this.create({
          memoryMiB: limits.memoryMiB,
          features,
          coarseTime,
          deterministic: isRecorded === true ? recordedStart() : undefined,
        }),
      bundle: ({ sha256 }) => this.bundle(sha256),
    });
  }

  /** @param known platform modules that the host knows the bundle's isolates use */
  addBundle(sha256: string, code: string, codeCache: Uint8Array, known: readonly PlatformModuleName[] = []): void {
    const modules = this.#bundles.get(sha256)?.modules ?? new Set(known);
    this.#reportedModules.set(sha256, Math.max(this.#reportedModules.get(sha256) ?? 0, known.length));
    this.#bundles.set(sha256, createLoadableBundle(sha256, code, codeCache, modules));
  }

  /** Returns the platform modules that the bundle's isolates used and that the host does not know yet, or undefined if there are none. */
  takeUsedModules({ sha256, modules }: LoadableBundle): PlatformModuleName[] | undefined {
    const reported = this.#reportedModules.get(sha256) ?? 0;
    if (modules.size <= reported) return undefined;
    this.#reportedModules.set(sha256, modules.size);
    return [...modules].slice(reported);
  }

  bundle(sha256: string): LoadableBundle | undefined {
    return this.#bundles.get(sha256);
  }

  /** Removes a bundle. Running calls keep their reference to it. */
  forgetBundle(sha256: string): void {
    this.#bundles.delete(sha256);
    this.#reportedModules.delete(sha256);
    this.#successfulCalls.delete(sha256);
  }

  /** Disposes the tool's isolates that no call uses. */
  forgetTool(toolId: number): void {
    this.warmIsolates.forget(toolId);
    const isOf = ({ key }: IdleIsolate): boolean => key.startsWith(`${toolId} `);
    for (const { isolate } of this.#idle.filter(isOf)) void isolate.dispose();
    this.#idle = this.#idle.filter((idle) => !isOf(idle));
  }

  /** Takes the isolate of a session for its next call. The caller must check whether it was disposed since the last call. */
  takeSession(session: number): ToolIsolate | undefined {
    const isolate = this.sessions.get(session);
    this.sessions.delete(session);
    return isolate;
  }

  endSession(session: number): void {
    void this.takeSession(session)?.dispose();
  }

  /** Takes an idle isolate with this key, if one exists. */
  takeIdle(key: string): ToolIsolate | undefined {
    for (let index = this.#idle.length - 1; index >= 0; index -= 1) {
      const candidate = this.#idle[index];
      if (candidate?.key !== key) continue;
      this.#idle.splice(index, 1);
      if (!candidate.isolate.isDisposed) return candidate.isolate;
    }
    return undefined;
  }

  /**
   * Starts the pool of Python isolates. Must be called once, in a process that has not run any tool code. Returns the snapshot and the code
   * cache if it had to create them, else empty arrays.
   */
  async openPython(
    sha256: string,
    options: WarmPythonOptions,
  ): Promise<{ readonly snapshot: Uint8Array; readonly codeCache: Uint8Array }> {
    const python = new WarmPythonIsolates(this.#engine, () => this.bundle(sha256), options);
    this.python = python;
    const artifacts = await python.open();
    if (artifacts.codeCache.byteLength > 0) {
      const bundle = this.bundle(sha256);
      if (bundle !== undefined) this.addBundle(sha256, bundle.code, artifacts.codeCache);
    }
    return artifacts;
  }

  /** Creates an empty isolate. The caller must `boot` it first. */
  create(options: IsolateOptions): ToolIsolate {
    return new ToolIsolate(this.#engine, options);
  }

  /** Keeps an idle isolate for the next call with the same key. */
  keep(key: string, isolate: ToolIsolate): void {
    isolate.detachCall();
    this.#idle.push({ key, isolate });
    if (this.#idle.length > MAX_IDLE) void this.#idle.shift()?.isolate.dispose();
  }

  /**
   * Disposes the isolate of a successful call. Before that, it may rebuild the bundle's code cache, which then contains the functions that
   * the isolate has compiled. The cache stays in this process: after tool code has run here, other processes must not trust it.
   */
  retire(isolate: ToolIsolate, { sha256 }: LoadableBundle): void {
    const calls = (this.#successfulCalls.get(sha256) ?? 0) + 1;
    this.#successfulCalls.set(sha256, calls);
    const isPowerOfTwo = (calls & (calls - 1)) === 0;
    if (calls > 1 && calls <= LAST_CACHE_REBUILD && isPowerOfTwo && this.#isCalm()) this.#rebuildCache(isolate, sha256);
    void isolate.dispose();
  }

  #rebuildCache(isolate: ToolIsolate, sha256: string): void {
    const bundle = this.#bundles.get(sha256);
    if (bundle === undefined || isolate.isDisposed || isolate.isRunning) return;
    try {
      const codeCache = isolate.makeCodeCache(bundle);
      // A smaller cache lacks functions whose bytecode V8 has flushed.
      if (codeCache.byteLength > (bundle.codeCache?.byteLength ?? 0)) this.addBundle(sha256, bundle.code, codeCache);
    } catch {
      // The isolate exceeded its memory limit. The existing cache stays in use.
    }
  }
}
