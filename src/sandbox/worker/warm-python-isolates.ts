// The warm pool of Python isolates: Python is loaded, and no tool has run. All Python tools share one bundle, so any isolate fits any call.
import { MAX_SNAPSHOT_BYTES } from "../protocol/message-fields.ts";
import type { Engine, LoadableBundle } from "./isolate/engine.ts";
import { createInternalHeader, IGNORE_MESSAGES } from "./isolate/guest-call.ts";
import { type IsolateOptions, ToolIsolate } from "./isolate/tool-isolate.ts";

/** Names under which the Python runtime requests its files. */
export const PYTHON_ASSETS = ["pyodide.asm.wasm", "python_stdlib.zip", "snapshot"] as const;

/**
 * Limit of the V8 heap and array buffers of a Python isolate, independent of the tool's own limit: the interpreter's files pass through
 * this memory while it is loaded. Python's own memory is outside of it (`memoryMiB` of a PythonRun).
 */
const HEAP_MIB = 512;
/** Longest time in ms for loading Python. Generous because the machine may be busy. */
const LOAD_MS = 60_000;
const FEATURES = ["webAssembly"] as const;

export interface WarmPythonOptions {
  readonly coarseTime: boolean;
  /** Number of warm isolates. */
  readonly warmIsolates: number;
}

/** Files that one process creates for all later ones. Each is empty if the process received it from the host or could not create it. */
export interface PythonArtifacts {
  readonly snapshot: Uint8Array;
  readonly codeCache: Uint8Array;
}

/** Missing in the types of Node.js. */
declare const WebAssembly: { readonly Module: new (bytes: Uint8Array) => object };

type Fit = Pick<IsolateOptions, "features" | "coarseTime">;
const NOTHING = new Uint8Array(0);
/** Header of the call that creates the snapshot. */
const SNAPSHOT_HEADER = createInternalHeader(MAX_SNAPSHOT_BYTES);

export class WarmPythonIsolates {
  readonly #engine: Engine;
  readonly #bundle: () => LoadableBundle | undefined;
  readonly #options: WarmPythonOptions;
  readonly #ready: ToolIsolate[] = [];
  /**
   * The compiled interpreter. V8 shares compiled code among the isolates of a process as long as a module with the same bytes exists: without
   * this one, each isolate compiled the interpreter anew, which took 40 % of the CPU time of loading it.
   */
  #compiled: object | undefined;
  /** Pending creation of an isolate. At most one runs at a time. */
  #pending: Promise<void> | undefined;

  constructor(engine: Engine, bundle: () => LoadableBundle | undefined, options: WarmPythonOptions) {
    this.#engine = engine;
    this.#bundle = bundle;
    this.#options = options;
  }

  get sha256(): string | undefined {
    return this.#bundle()?.sha256;
  }

  /** Loads the first isolate, and creates missing artifacts. Must be called in a process that has not run any tool code. */
  async open(): Promise<PythonArtifacts> {
    let artifacts: PythonArtifacts = { snapshot: NOTHING, codeCache: NOTHING };
    this.#pending = (async () => {
      this.#compiled ??= this.#compile();
      if (!this.#engine.assets.has("snapshot")) artifacts = await this.#createArtifacts();
      await this.#addIsolate();
    })();
    await this.#pending;
    this.#pending = undefined;
    return artifacts;
  }

  /** Returns nothing if the bytes are not a module: then no isolate can be loaded, and the next call reports it. */
  #compile(): object | undefined {
    const bytes = this.#engine.assets.get(PYTHON_ASSETS[0]);
    try {
      return bytes && new WebAssembly.Module(bytes);
    } catch {
      return undefined;
    }
  }

  async #createArtifacts(): Promise<PythonArtifacts> {
    const isolate = await this.#load();
    if (isolate === undefined) return { snapshot: NOTHING, codeCache: NOTHING };
    const call = { header: SNAPSHOT_HEADER, input: '{"snapshot":true}', callId: "", tenantId: "" };
    const { bytes } = await isolate.call(call, IGNORE_MESSAGES);
    const bundle = this.#bundle();
    const codeCache = bundle === undefined || isolate.isDisposed ? NOTHING : isolate.makeCodeCache(bundle);
    void isolate.dispose();
    if (bytes !== undefined) this.#engine.assets.set("snapshot", bytes.data);
    return { snapshot: bytes?.data ?? NOTHING, codeCache };
  }

  /** Creates an isolate for a call that the warm isolates do not fit. The caller must `boot` and `load` it. */
  create(options: Omit<IsolateOptions, "memoryMiB">): ToolIsolate {
    return new ToolIsolate(this.#engine, { ...options, memoryMiB: HEAP_MIB });
  }

  #fits({ features, coarseTime }: Fit): boolean {
    return features.every((name) => name === "webAssembly") && coarseTime === this.#options.coarseTime;
  }

  /** Returns a warm isolate, if one is available. */
  take(tool: Fit): ToolIsolate | undefined {
    if (!this.#fits(tool)) return undefined;
    for (let isolate = this.#ready.pop(); isolate !== undefined; isolate = this.#ready.pop()) {
      if (!isolate.isDisposed) return isolate;
    }
    return undefined;
  }

  /** Waits for a pending creation, then returns a warm isolate if one is available. */
  async waitFor(tool: Fit): Promise<ToolIsolate | undefined> {
    if (!this.#fits(tool)) return undefined;
    await this.#pending;
    return this.take(tool);
  }

  /** Creates missing warm isolates. Never rejects. */
  async refill(): Promise<void> {
    while (this.#pending === undefined && this.#ready.length < this.#options.warmIsolates) {
      const countBefore = this.#ready.length;
      this.#pending = this.#addIsolate();
      await this.#pending;
      this.#pending = undefined;
      // Loading failed. The next call tries again and reports the failure.
      if (this.#ready.length === countBefore) return;
    }
  }

  async #addIsolate(): Promise<void> {
    const isolate = await this.#load();
    if (isolate !== undefined) this.#ready.push(isolate);
  }

  async #load(): Promise<ToolIsolate | undefined> {
    const bundle = this.#bundle();
    if (bundle === undefined) return undefined;
    const isolate = this.create({ features: FEATURES, coarseTime: this.#options.coarseTime });
    const timeout = setTimeout(() => void isolate.dispose(), LOAD_MS);
    try {
      isolate.boot();
      const { outcome } = await isolate.load(bundle, IGNORE_MESSAGES);
      if (outcome === "ready" && (await isolate.settle(LOAD_MS))) return isolate;
    } catch {
      // Memory is exhausted.
    } finally {
      clearTimeout(timeout);
    }
    void isolate.dispose();
    return undefined;
  }
}
