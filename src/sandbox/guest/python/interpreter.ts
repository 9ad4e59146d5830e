// Pyodide, loaded into this isolate: from a snapshot of its memory where the host has one, else from its beginning.
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { HARNESS } from "./harness.ts";
import { readAsset } from "./prelude.ts";
import { ASSET_FOLDER } from "./shell.ts";
import { streams } from "./streams.ts";

/** Where a tool's own files lie, and its working directory. */
const HOME = "/home/tool";

/** The build's, from Pyodide's own lock file. */
declare const __PYODIDE_INFO__: object;
/** There are no packages to be looked up: a wheel is given, or it is not there. */
const LOCK_FILE = { info: __PYODIDE_INFO__, packages: {} };

const PAGE_BYTES = 65_536;
const MiB = 1024 * 1024;

interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

/**
 * Python's C code may take so much of its stack in the interpreter's memory before it raises RecursionError. Pyodide says 10 MB, but
 * beside it goes V8's own stack (984 KB), whose overflow ends the interpreter: functions of usual size pass 480 KB there [m].
 */
const STACK_BYTES = 400 * 1024;

interface Module {
  readonly memory: Memory;
  growMemory(bytes: number): void;
  _emscripten_stack_get_base(): number;
  _PyThreadState_Get(): number;
  _PyUnstable_ThreadState_SetStackProtection(thread: number, start: number, bytes: number): number;
}

/** Pyodide's modules begin with less memory than a snapshot may hold. Its second word is where that begins in it. */
async function createModule(settings: never, snapshot: ArrayBuffer | undefined): Promise<never> {
  const module = await createPyodideModule(settings);
  if (snapshot !== undefined) {
    const [, begin = 0] = new Uint32Array(snapshot, 0, 2);
    (module as Module).growMemory(snapshot.byteLength - begin);
  }
  return module;
}

/** Of the thread that calls it: Pyodide makes one for each run. */
function limitStack(module: Module): void {
  const start = module._emscripten_stack_get_base() - STACK_BYTES;
  module._PyUnstable_ThreadState_SetStackProtection(module._PyThreadState_Get(), start, STACK_BYTES);
}

/** What our own Python (harness.ts) is called by. */
export interface Harness {
  readonly run: { callPromising(...args: readonly unknown[]): Promise<void> };
}

export interface Interpreter {
  readonly harness: Harness;
  /** From now on Python's memory may grow by so much past what it has when nothing has run in it. */
  allow(memoryMiB: number): void;
  /** Whether it has asked for more since then. */
  wasRefused(): boolean;
  /** Called by the harness as it begins a run. */
  limitStack(): void;
  /** Rejects when it has ended, wherever that was: a task of its event loop has nobody to tell. */
  readonly crashed: Promise<never>;
  /** Its memory, before anything of a tool's is in it. */
  takeSnapshot(): Uint8Array;
}

/** Emscripten grows the memory by this method alone; what it throws is a failed malloc there, and a MemoryError in Python. */
function limitGrowth(memory: Memory): Pick<Interpreter, "allow" | "wasRefused"> {
  const base = memory.buffer.byteLength;
  const grow = memory.grow.bind(memory);
  let limit = base;
  let isRefused = false;
  memory.grow = (pages: number): number => {
    if (memory.buffer.byteLength + pages * PAGE_BYTES <= limit) return grow(pages);
    isRefused = true;
    throw new RangeError("Past the tool's memory limit");
  };
  return {
    allow(memoryMiB) {
      limit = base + memoryMiB * MiB;
      isRefused = false;
    },
    wasRefused: () => isRefused,
  };
}

export async function loadInterpreter(): Promise<Interpreter> {
  const snapshot = readAsset("snapshot");
  const pyodide = await loadPyodide({
    indexURL: ASSET_FOLDER,
    packageBaseUrl: ASSET_FOLDER,
    lockFileContents: LOCK_FILE as never,
    createPyodideModule: ((settings: never) => createModule(settings, snapshot)) as never,
    env: { HOME, LANG: "C.UTF-8" },
    ...(snapshot === undefined ? { _makeSnapshot: true } : { _loadSnapshot: snapshot }),
  });
  pyodide.setStdin({ error: false, stdin: () => null });
  pyodide.setStdout(streams.stdout);
  pyodide.setStderr(streams.stderr);
  if (snapshot === undefined) {
    // In namespaces of their own: what a tool finds in __main__ is what it has put there.
    pyodide.runPython(HARNESS.installer, { globals: pyodide.toPy({}) })(JSON.stringify(HARNESS.modules));
    pyodide.runPython(HARNESS.preload, { globals: pyodide.toPy({}) });
  }
  const { _module: module, _api: api } = pyodide as unknown as {
    readonly _module: Module;
    readonly _api: { on_fatal?: (error: unknown) => void };
  };
  const crashed = new Promise<never>((_resolve, reject) => {
    api.on_fatal = reject;
  });
  crashed.catch(() => {});
  return {
    harness: pyodide.pyimport("_glovebox.run") as Harness,
    crashed,
    limitStack: () => limitStack(module),
    ...limitGrowth(module.memory),
    takeSnapshot: () => (pyodide as unknown as { makeMemorySnapshot(): Uint8Array }).makeMemorySnapshot(),
  };
}
