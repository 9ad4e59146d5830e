// What a process of the flavour `python` is told before it has a call, and what one may tell back: the interpreter's snapshot, and the
// code cache of its runtime, by whichever process is the first to make them.
import type { EngineCache } from "./engine-cache.ts";

const MiB = 1024 * 1024;
export const MAX_RUNTIME_CACHE_BYTES: number = 16 * MiB;

/** A package of the host's, for Python tools to import. */
export interface PythonWheel {
  readonly fileName: string;
  readonly bytes: Uint8Array;
}

/** The same for every process of a host. */
export interface PythonSources {
  /** Of the runtime, which is the bundle of every Python call. */
  readonly sha256: string;
  readonly code: string;
  readonly wasm: Uint8Array;
  readonly stdlib: Uint8Array;
  readonly wheels?: readonly PythonWheel[];
  /** Of those that are loaded ahead. */
  readonly coarseTime: boolean;
  readonly codeCache: EngineCache;
  readonly snapshot: EngineCache;
}

/** One process's. */
export class PythonSetup {
  readonly #sources: PythonSources;
  readonly #awaited: readonly EngineCache[];
  #isReady = false;

  constructor(sources: PythonSources) {
    this.#sources = sources;
    this.#awaited = [sources.snapshot, sources.codeCache].filter(({ bytes }) => bytes.byteLength === 0);
  }

  /** An interpreter is loaded that nothing of a tool's has been near. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Of the frame that it may answer with. */
  get answerBytes(): number {
    return this.#awaited.reduce((sum, { maxBytes }) => sum + maxBytes, MiB);
  }

  /** Each of them a message of its own: together they may be too much for one. */
  get wheels(): readonly PythonWheel[] {
    return this.#sources.wheels ?? [];
  }

  /** One process loads one interpreter ahead: it runs one call at a time. */
  get message(): object {
    const { sha256, coarseTime } = this.#sources;
    return { type: "python", sha256, coarseTime, spares: 1 };
  }

  get parts(): readonly (string | Uint8Array)[] {
    const { code, codeCache, wasm, stdlib, snapshot } = this.#sources;
    return [code, codeCache.bytes, wasm, stdlib, snapshot.bytes];
  }

  /**
   * The process is ready. What it has made nothing of a tool's has been near.
   * @throws {Error} when it says so twice, or sends what it was not asked for
   */
  answered([snapshot, codeCache]: readonly Buffer[]): void {
    if (this.#isReady) throw new Error("The worker has loaded its interpreter already");
    this.#isReady = true;
    const made = [
      [this.#sources.snapshot, snapshot],
      [this.#sources.codeCache, codeCache],
    ] as const;
    for (const [cache, bytes] of made) {
      if (bytes === undefined || bytes.byteLength === 0) continue;
      if (!this.#awaited.includes(cache)) throw new Error("The worker sent what it was given");
      cache.offer(bytes);
    }
  }
}
