// Prepares a Python process before its first call, and accepts what the first such process makes: the interpreter's
// snapshot and the runtime's code cache.
import type { EngineCache } from "./engine-cache.ts";

const MiB = 1024 * 1024;
export const MAX_RUNTIME_CACHE_BYTES: number = 16 * MiB;

/** A package that the host provides to Python tools. */
export interface PythonWheel {
  readonly fileName: string;
  readonly bytes: Uint8Array;
}

/** What each machine that runs the Python calls of a host must have. */
export interface PythonEnvironment {
  /** Hash of the runtime and of the files of Pyodide. */
  readonly key: string;
  /** The wheels as one object; undefined if there are none. */
  readonly packedWheels: Uint8Array | undefined;
}

/** Text that all calls of a tool have in common. Executors read it once, by its hash. */
export interface SharedText {
  readonly text: string;
}

/** What an executor needs for a Python call in addition to the call itself. */
export interface RemotePython {
  readonly environment: PythonEnvironment;
  /** The source of the tool, with which the call's input begins. */
  readonly source?: SharedText | undefined;
}

/** Data that is the same for every Python process with the same packages. */
export interface PythonSources {
  /** Hash of the runtime, which is the bundle of every Python call. */
  readonly sha256: string;
  readonly code: string;
  readonly wasm: Uint8Array;
  readonly stdlib: Uint8Array;
  readonly wheels?: readonly PythonWheel[];
  /** Clock precision of interpreters that are loaded ahead. */
  readonly coarseTime: boolean;
  readonly codeCache: EngineCache;
  readonly snapshot: EngineCache;
}

/** Setup of one process. */
export class PythonSetup {
  readonly #sources: PythonSources;
  readonly #awaited: readonly EngineCache[];
  #isReady = false;

  constructor(sources: PythonSources) {
    this.#sources = sources;
    this.#awaited = [sources.snapshot, sources.codeCache].filter(({ bytes }) => bytes.byteLength === 0);
  }

  /** Whether an interpreter is loaded that no tool has used. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Maximum size in bytes of the frame that the process may answer with. */
  get answerBytes(): number {
    return this.#awaited.reduce((sum, { maxBytes }) => sum + maxBytes, MiB);
  }

  /** Each wheel is a message of its own: together they may exceed the frame limit. */
  get wheels(): readonly PythonWheel[] {
    return this.#sources.wheels ?? [];
  }

  /** A process loads one interpreter ahead, because it runs one call at a time. */
  get message(): object {
    const { sha256, coarseTime } = this.#sources;
    return { type: "python", sha256, coarseTime, warmIsolates: 1 };
  }

  get parts(): readonly (string | Uint8Array)[] {
    const { code, codeCache, wasm, stdlib, snapshot } = this.#sources;
    return [code, codeCache.bytes, wasm, stdlib, snapshot.bytes];
  }

  /**
   * Stores the caches that a ready process has made. No tool has run in it yet.
   * @throws {Error} when it reports ready twice, or sends a cache that was not requested
   */
  answered([snapshot, codeCache]: readonly Buffer[]): void {
    if (this.#isReady) throw new Error("The worker reported its interpreter twice");
    this.#isReady = true;
    const made = [
      [this.#sources.snapshot, snapshot],
      [this.#sources.codeCache, codeCache],
    ] as const;
    for (const [cache, bytes] of made) {
      if (bytes === undefined || bytes.byteLength === 0) continue;
      if (!this.#awaited.includes(cache)) throw new Error("The worker sent a Python cache that was not requested");
      cache.offer(bytes);
    }
  }
}
