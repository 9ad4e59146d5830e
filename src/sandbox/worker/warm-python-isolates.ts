// Isolates in which Python is loaded and nothing has run: one bundle serves every Python tool, so each fits any call of any of them.
import { MAX_SNAPSHOT_BYTES } from "../protocol/messages.ts";
import {
  type Engine,
  type IsolateOptions,
  type LoadableBundle,
  ownHeader,
  SILENT,
  ToolIsolate,
} from "./tool-isolate.ts";

/** The bundle's own file names, as its runtime asks for them. */
export const PYTHON_ASSETS = ["pyodide.asm.wasm", "python_stdlib.zip", "snapshot"] as const;

/**
 * V8 heap and array buffers of an isolate with Python in it, whatever its tool may have: the interpreter's files pass through it while
 * it is loaded. What Python has lies outside (`memoryMiB` of a PythonRun).
 */
const HEAP_MIB = 512;
/** A machine that is busy with other things takes its time. */
const LOAD_MS = 60_000;
const FEATURES = ["webAssembly"] as const;

export interface PythonOptions {
  readonly coarseTime: boolean;
  /** To be ready at any time. */
  readonly spares: number;
}

/** What one process makes for all: empty where it was given it, or it could not be made. */
export interface MadeForPython {
  readonly snapshot: Uint8Array;
  readonly codeCache: Uint8Array;
}

type Fit = Pick<IsolateOptions, "features" | "coarseTime">;
const NOTHING = new Uint8Array(0);
/** Of the call that makes a snapshot. */
const SNAPSHOT_HEADER = ownHeader(MAX_SNAPSHOT_BYTES);

export class WarmPythonIsolates {
  readonly #engine: Engine;
  readonly #bundle: () => LoadableBundle | undefined;
  readonly #options: PythonOptions;
  readonly #ready: ToolIsolate[] = [];
  /** One at a time. */
  #making: Promise<void> | undefined;

  constructor(engine: Engine, bundle: () => LoadableBundle | undefined, options: PythonOptions) {
    this.#engine = engine;
    this.#bundle = bundle;
    this.#options = options;
  }

  get sha256(): string | undefined {
    return this.#bundle()?.sha256;
  }

  /** Loads the first, and on its way makes what is not there yet. Only in a process in which nothing of a tool's has been. */
  async open(): Promise<MadeForPython> {
    let made: MadeForPython = { snapshot: NOTHING, codeCache: NOTHING };
    this.#making = (async () => {
      if (!this.#engine.assets.has("snapshot")) made = await this.#prepare();
      await this.#make();
    })();
    await this.#making;
    this.#making = undefined;
    return made;
  }

  async #prepare(): Promise<MadeForPython> {
    const isolate = await this.#load();
    if (isolate === undefined) return { snapshot: NOTHING, codeCache: NOTHING };
    const call = { header: SNAPSHOT_HEADER, input: '{"snapshot":true}', callId: "", tenantId: "" };
    const { bytes } = await isolate.call(call, SILENT);
    const bundle = this.#bundle();
    const codeCache = bundle === undefined || isolate.isDisposed ? NOTHING : isolate.makeCodeCache(bundle);
    void isolate.dispose();
    if (bytes !== undefined) this.#engine.assets.set("snapshot", bytes.data);
    return { snapshot: bytes?.data ?? NOTHING, codeCache };
  }

  /** An isolate of a call that no spare fits; `boot` and `load` it first. */
  create(options: Omit<IsolateOptions, "memoryMiB">): ToolIsolate {
    return new ToolIsolate(this.#engine, { ...options, memoryMiB: HEAP_MIB });
  }

  #fits({ features, coarseTime }: Fit): boolean {
    return features.every((name) => name === "webAssembly") && coarseTime === this.#options.coarseTime;
  }

  /** One that is ready, at once. */
  take(tool: Fit): ToolIsolate | undefined {
    if (!this.#fits(tool)) return undefined;
    for (let spare = this.#ready.pop(); spare !== undefined; spare = this.#ready.pop()) {
      if (!spare.isDisposed) return spare;
    }
    return undefined;
  }

  /** The same, once those that are being loaded are there. */
  async waitFor(tool: Fit): Promise<ToolIsolate | undefined> {
    if (!this.#fits(tool)) return undefined;
    await this.#making;
    return this.take(tool);
  }

  /** Loads those that are missing. Never rejects. */
  async refill(): Promise<void> {
    while (this.#making === undefined && this.#ready.length < this.#options.spares) {
      const had = this.#ready.length;
      this.#making = this.#make();
      await this.#making;
      this.#making = undefined;
      // Where one cannot be loaded, the next call tries, and tells.
      if (this.#ready.length === had) return;
    }
  }

  async #make(): Promise<void> {
    const isolate = await this.#load();
    if (isolate !== undefined) this.#ready.push(isolate);
  }

  async #load(): Promise<ToolIsolate | undefined> {
    const bundle = this.#bundle();
    if (bundle === undefined) return undefined;
    const isolate = this.create({ features: FEATURES, coarseTime: this.#options.coarseTime });
    const late = setTimeout(() => void isolate.dispose(), LOAD_MS);
    try {
      isolate.boot();
      const { outcome } = await isolate.load(bundle, SILENT);
      if (outcome === "ready" && (await isolate.settle(LOAD_MS))) return isolate;
    } catch {
      // There was no memory for it.
    } finally {
      clearTimeout(late);
    }
    void isolate.dispose();
    return undefined;
  }
}
