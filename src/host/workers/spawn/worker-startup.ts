// Prepares a worker process for its first call: sends it the prelude, the code caches and, for Python, the interpreter; limits the time until it
// is ready; and accepts the code caches that it makes before any code of a tool runs in it.
import { MAX_FRAME_BYTES } from "../../../sandbox/protocol/frames.ts";
import { MAX_INSPECT_BYTES, PROTOCOL_VERSION } from "../../../sandbox/protocol/message-fields.ts";
import type { WorkerChannel } from "../process/worker-channel.ts";
import type { WorkerSources } from "../worker-job.ts";
import type { EngineCache } from "./engine-cache.ts";
import { PythonSetup, type PythonSources } from "./python-setup.ts";

const MiB = 1024 * 1024;
/** Longest time in ms until a new worker reports `ready`: far more than an idle machine needs, because calls have deadlines of their own. */
const START_MS = 30_000;
/**
 * The same until the interpreter is loaded. It takes seven seconds of CPU time if the process also makes the snapshot, which a
 * process on a busy machine gets within minutes (measured: more than 60 s).
 */
const PYTHON_START_MS = 240_000;

interface StartupOptions {
  readonly isInspected: boolean;
  /** Called when the process is not ready in time. */
  readonly onLate: () => void;
}

export class WorkerStartup implements Disposable {
  readonly #channel: WorkerChannel;
  readonly #onLate: () => void;
  #timer: NodeJS.Timeout;
  #python: PythonSetup | undefined;
  /** Set if the process was started without the prelude's code cache: it returns one when it is ready. */
  #awaitedPrelude: EngineCache | undefined;
  /** Set while the worker makes the code caches of the platform modules. */
  #awaitedModules: EngineCache | undefined;

  constructor(
    channel: WorkerChannel,
    { preludeSource, preludeCache, moduleCache }: WorkerSources,
    { isInspected, onLate }: StartupOptions,
  ) {
    this.#channel = channel;
    this.#onLate = onLate;
    if (preludeCache.bytes.byteLength === 0) this.#awaitedPrelude = preludeCache;
    if (isInspected) channel.allow(MAX_INSPECT_BYTES + MiB);
    const inspect = isInspected ? { inspect: true } : {};
    channel.write({ type: "init", protocolVersion: PROTOCOL_VERSION, ...inspect }, [
      preludeSource,
      preludeCache.bytes,
      moduleCache.bytes,
    ]);
    this.#timer = setTimeout(onLate, START_MS);
  }

  /** Lets the process load an interpreter ahead. Returns the setup, which tells when it is loaded. */
  openPython(sources: PythonSources): PythonSetup {
    const setup = new PythonSetup(sources);
    this.#python = setup;
    this.#channel.allow(Math.min(MAX_FRAME_BYTES, setup.answerBytes));
    for (const { fileName, bytes } of setup.wheels) {
      this.#channel.write({ type: "python-package", fileName }, [bytes]);
    }
    this.#channel.write(setup.message, setup.parts);
    return setup;
  }

  /**
   * Accepts the worker's `ready`. From then on, a Python process has time to load its interpreter.
   * @throws {Error} for a code cache that was not requested, or that is too large
   */
  acceptReady([preludeCache]: readonly Buffer[]): void {
    if (preludeCache !== undefined) {
      if (this.#awaitedPrelude === undefined) throw new Error("The worker sent a code cache that was not requested");
      this.#awaitedPrelude.offer(preludeCache);
      this.#awaitedPrelude = undefined;
    }
    clearTimeout(this.#timer);
    if (this.#python !== undefined) this.#timer = setTimeout(this.#onLate, PYTHON_START_MS);
  }

  /** @throws {Error} for an interpreter that was not requested, or was reported before */
  acceptPython(parts: readonly Buffer[]): void {
    if (this.#python === undefined) throw new Error("The worker reported an interpreter that was not requested");
    this.#python.answered(parts);
    clearTimeout(this.#timer);
  }

  /** See `WorkerProcess.requestModuleCaches`. */
  requestModuleCaches(cache: EngineCache): void {
    this.#awaitedModules = cache;
    this.#channel.allow(cache.maxBytes + MiB);
    this.#channel.write({ type: "make-module-caches" });
  }

  /**
   * @param servedCalls number of calls that the process has received
   * @throws {Error} for caches that were not requested, or that are too large
   */
  acceptModuleCaches([caches]: readonly Buffer[], servedCalls: number): void {
    if (this.#awaitedModules === undefined || caches === undefined) {
      throw new Error("The worker sent code caches that were not requested");
    }
    // If it received a call meanwhile, a tool may have tampered with the caches: do not share them.
    if (servedCalls === 0) this.#awaitedModules.offer(caches);
    this.#awaitedModules = undefined;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
