// Loads Pyodide into this isolate, from a snapshot of its memory if the host has one.
import { loadPyodide } from "pyodide";
import createPyodideModule from "pyodide/pyodide.asm.mjs";
import { HARNESS } from "./harness.ts";
import { readAsset } from "./prelude.ts";
import { ASSET_FOLDER } from "./shell.ts";
import { openSnapshot, type PackedSnapshot, packSnapshot } from "./snapshot.ts";
import { streams } from "./streams.ts";

/** Folder of a tool's own files, and its working directory. */
const HOME = "/home/tool";

/** Replaced by the build with the metadata of Pyodide's lock file. */
declare const __PYODIDE_INFO__: object;
/** Empty, because no packages are downloaded: the host supplies wheels. */
const LOCK_FILE = { info: __PYODIDE_INFO__, packages: {} };

const PAGE_BYTES = 65_536;
const MiB = 1024 * 1024;

interface Memory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

/**
 * Bytes of stack in the interpreter's memory that Python's C code may use before it raises RecursionError. Pyodide sets 10 MB, but the code
 * also uses V8's own stack (984 KB), whose overflow crashes the interpreter: there, functions of usual size overflow at 480 KB (measured).
 */
const STACK_BYTES = 400 * 1024;

interface Module {
  readonly memory: Memory;
  growMemory(bytes: number): void;
  _emscripten_stack_get_base(): number;
  _PyThreadState_Get(): number;
  _PyUnstable_ThreadState_SetStackProtection(thread: number, start: number, bytes: number): number;
}

/** Makes each connection of a socket fail at once. Where `fetch` is granted, Emscripten would open a WebSocket to the address. */
const NO_SOCKETS = { url: "no-sockets:" } as const;

/** Creates the module with the memory of the snapshot. Pyodide then restores the rest from the snapshot's header. */
async function createModule(settings: object, snapshot: PackedSnapshot | undefined): Promise<never> {
  const created = await createPyodideModule(Object.assign(settings, { websocket: NO_SOCKETS }) as never);
  if (snapshot !== undefined) {
    const module = created as Module;
    const initialBytes = module.memory.buffer.byteLength;
    module.growMemory(snapshot.memoryBytes);
    snapshot.writeTo(new Uint8Array(module.memory.buffer), initialBytes);
  }
  return created;
}

/** Sets the limit for the calling thread. Pyodide creates a thread for each run. */
function limitStack(module: Module): void {
  const start = module._emscripten_stack_get_base() - STACK_BYTES;
  module._PyUnstable_ThreadState_SetStackProtection(module._PyThreadState_Get(), start, STACK_BYTES);
}

/** Functions of the harness (harness.ts). */
export interface Harness {
  readonly run: { callPromising(...args: readonly unknown[]): Promise<void> };
  /** Runs a function of `ctx.onRollback`. Returns its failure as JSON text. */
  readonly undo: { callPromising(...args: readonly unknown[]): Promise<string | undefined> };
}

export interface Interpreter {
  readonly harness: Harness;
  /** Limits how far Python's memory may grow beyond its size before the first run. */
  allow(memoryMiB: number): void;
  /** True if an allocation has failed since the last call of `allow`. */
  hasExceededLimit(): boolean;
  /** Called by the harness at the start of a run. */
  limitStack(): void;
  /** Rejects when the interpreter has crashed, also in a task of its event loop that has no caller. */
  readonly crashed: Promise<never>;
  /** Returns the interpreter's memory, packed. Must be called before any code of a tool runs. */
  takeSnapshot(): Uint8Array;
}

/** Limits the method through which Emscripten grows the memory. Its exception makes malloc fail, which is a MemoryError in Python. */
function limitGrowth(memory: Memory): Pick<Interpreter, "allow" | "hasExceededLimit"> {
  const base = memory.buffer.byteLength;
  const grow = memory.grow.bind(memory);
  let limit = base;
  let isExceeded = false;
  memory.grow = (pages: number): number => {
    if (memory.buffer.byteLength + pages * PAGE_BYTES <= limit) return grow(pages);
    isExceeded = true;
    throw new RangeError("Past the tool's memory limit");
  };
  return {
    allow(memoryMiB) {
      limit = base + memoryMiB * MiB;
      isExceeded = false;
    },
    hasExceededLimit: () => isExceeded,
  };
}

interface FileSystem {
  readonly ErrnoError: new (errno: number) => Error;
  readonly filesystems: {
    readonly MEMFS: Record<"expandFileStorage" | "resizeFileStorage", (...args: unknown[]) => void>;
  };
}

/** Emscripten's number of ENOSPC. */
const NO_SPACE = 51;

/** Files are arrays of JavaScript's. One that cannot be allocated is an error that Python can catch, instead of a crash of the interpreter. */
function reportFullMemory({ ErrnoError, filesystems: { MEMFS } }: FileSystem): void {
  for (const name of ["expandFileStorage", "resizeFileStorage"] as const) {
    const resize = MEMFS[name];
    MEMFS[name] = (...args) => {
      try {
        resize(...args);
      } catch (error) {
        throw error instanceof RangeError ? new ErrnoError(NO_SPACE) : error;
      }
    };
  }
}

export async function loadInterpreter(): Promise<Interpreter> {
  const packed = readAsset("snapshot");
  const snapshot = packed && openSnapshot(packed);
  const pyodide = await loadPyodide({
    indexURL: ASSET_FOLDER,
    packageBaseUrl: ASSET_FOLDER,
    lockFileContents: LOCK_FILE as never,
    createPyodideModule: ((settings: object) => createModule(settings, snapshot)) as never,
    env: { HOME, LANG: "C.UTF-8" },
    ...(snapshot === undefined ? { _makeSnapshot: true } : { _loadSnapshot: snapshot.header }),
  });
  reportFullMemory(pyodide.FS as FileSystem);
  pyodide.setStdin({ error: false, stdin: () => null });
  pyodide.setStdout(streams.stdout);
  pyodide.setStderr(streams.stderr);
  if (snapshot === undefined) {
    // Separate namespaces keep `__main__` empty for the tool.
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
    takeSnapshot: () => packSnapshot((pyodide as unknown as { makeMemorySnapshot(): Uint8Array }).makeMemorySnapshot()),
  };
}
