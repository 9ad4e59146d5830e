// The isolates of one worker: made when a call needs one, kept warm between calls where the caller accepts shared state.
import type { ChunkName } from "../protocol/platform-modules.ts";
import {
  createLoadableBundle,
  type Engine,
  type IsolateOptions,
  type LoadableBundle,
  ToolIsolate,
} from "./tool-isolate.ts";
import { type WarmIsolateKeeper, WarmIsolates } from "./warm-isolates.ts";
import { type PythonOptions, WarmPythonIsolates } from "./warm-python-isolates.ts";

/** Idle warm isolates kept in one worker (1.2 to 2 MB each); the longest unused goes first. */
const MAX_IDLE = 16;

/** Of a bundle's calls that ended well, those after which its code cache is made again: at 2, 4, 8 … */
const MAX_REMADE_AFTER = 64;

interface IdleIsolate {
  readonly key: string;
  readonly isolate: ToolIsolate;
}

export class IsolatePool {
  readonly #engine: Engine;
  readonly spares: WarmIsolates;
  readonly #bundles = new Map<string, LoadableBundle>();
  /** By bundle. */
  readonly #callsEnded = new Map<string, number>();
  /** By bundle: how many of its chunks, in the order of their set, the host has heard of. */
  readonly #chunksTold = new Map<string, number>();
  readonly #isCalm: () => boolean;
  /** In a process that was given Python. */
  python: WarmPythonIsolates | undefined;
  /** Of each session between two of its calls. */
  readonly sessions = new Map<number, ToolIsolate>();
  /** In order of last use, oldest first. */
  #idle: IdleIsolate[] = [];

  constructor(engine: Engine, worker: Pick<WarmIsolateKeeper, "isCalm" | "onStuck">) {
    this.#engine = engine;
    this.#isCalm = worker.isCalm;
    this.spares = new WarmIsolates({
      ...worker,
      create: ({ limits, features, coarseTime }) => this.create({ memoryMiB: limits.memoryMiB, features, coarseTime }),
      bundle: ({ sha256 }) => this.bundle(sha256),
    });
  }

  /** @param known what the host knows that its isolates touch */
  addBundle(sha256: string, code: string, codeCache: Uint8Array, known: readonly ChunkName[] = []): void {
    const chunks = this.#bundles.get(sha256)?.chunks ?? new Set(known);
    this.#chunksTold.set(sha256, Math.max(this.#chunksTold.get(sha256) ?? 0, known.length));
    this.#bundles.set(sha256, createLoadableBundle(sha256, code, codeCache, chunks));
  }

  /** What isolates of the bundle have touched since this was asked last, or undefined; the host's own words are not told back. */
  takeTouched({ sha256, chunks }: LoadableBundle): ChunkName[] | undefined {
    const told = this.#chunksTold.get(sha256) ?? 0;
    if (chunks.size <= told) return undefined;
    this.#chunksTold.set(sha256, chunks.size);
    return [...chunks].slice(told);
  }

  bundle(sha256: string): LoadableBundle | undefined {
    return this.#bundles.get(sha256);
  }

  /** Its bundle is for calls that have begun. */
  forgetBundle(sha256: string): void {
    this.#bundles.delete(sha256);
    this.#chunksTold.delete(sha256);
    this.#callsEnded.delete(sha256);
  }

  /** Disposes what no call is using of a tool. */
  forgetTool(toolId: number): void {
    this.spares.forget(toolId);
    const isOf = ({ key }: IdleIsolate): boolean => key.startsWith(`${toolId} `);
    for (const { isolate } of this.#idle.filter(isOf)) void isolate.dispose();
    this.#idle = this.#idle.filter((idle) => !isOf(idle));
  }

  /** What a session's last call has left, for its next one; it may have been disposed meanwhile, which the call has to report. */
  takeSession(session: number): ToolIsolate | undefined {
    const isolate = this.sessions.get(session);
    this.sessions.delete(session);
    return isolate;
  }

  endSession(session: number): void {
    void this.takeSession(session)?.dispose();
  }

  /** A warm isolate that no call is using, if there is one. */
  takeIdle(key: string): ToolIsolate | undefined {
    for (let index = this.#idle.length - 1; index >= 0; index -= 1) {
      const candidate = this.#idle[index];
      if (candidate?.key !== key) continue;
      this.#idle.splice(index, 1);
      if (!candidate.isolate.isDisposed) return candidate.isolate;
    }
    return undefined;
  }

  /** Only in a process in which nothing of a tool's has been; once. Returns what it has made that was not known, else empty. */
  async openPython(
    sha256: string,
    options: PythonOptions,
  ): Promise<{ readonly snapshot: Uint8Array; readonly codeCache: Uint8Array }> {
    const python = new WarmPythonIsolates(this.#engine, () => this.bundle(sha256), options);
    this.python = python;
    const made = await python.open();
    if (made.codeCache.byteLength > 0) {
      const bundle = this.bundle(sha256);
      if (bundle !== undefined) this.addBundle(sha256, bundle.code, made.codeCache);
    }
    return made;
  }

  /** An isolate with nothing in it; `boot` it first. */
  create(options: IsolateOptions): ToolIsolate {
    return new ToolIsolate(this.#engine, options);
  }

  /** Keeps a warm isolate for the next call of the same key. */
  keep(key: string, isolate: ToolIsolate): void {
    isolate.rest();
    this.#idle.push({ key, isolate });
    if (this.#idle.length > MAX_IDLE) void this.#idle.shift()?.isolate.dispose();
  }

  /**
   * Disposes an isolate whose call has ended well, after it has left what it has compiled to those to come. For this process only: to
   * others its cache could be poison.
   */
  retire(isolate: ToolIsolate, { sha256 }: LoadableBundle): void {
    const calls = (this.#callsEnded.get(sha256) ?? 0) + 1;
    this.#callsEnded.set(sha256, calls);
    const isPowerOfTwo = (calls & (calls - 1)) === 0;
    if (calls > 1 && calls <= MAX_REMADE_AFTER && isPowerOfTwo && this.#isCalm()) this.#remakeCache(isolate, sha256);
    void isolate.dispose();
  }

  #remakeCache(isolate: ToolIsolate, sha256: string): void {
    const bundle = this.#bundles.get(sha256);
    if (bundle === undefined || isolate.isDisposed || isolate.isRunning) return;
    try {
      const made = isolate.makeCodeCache(bundle);
      // A smaller one has lost what V8 has flushed.
      if (made.byteLength > (bundle.codeCache?.byteLength ?? 0)) this.addBundle(sha256, bundle.code, made);
    } catch {
      // It has passed its memory limit at the last moment: the old cache is as good as it was.
    }
  }
}
