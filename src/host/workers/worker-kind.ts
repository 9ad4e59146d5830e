// The kinds of worker processes: a table of what each kind uses at rest and may do without a call.
import { dataLimitBytes } from "./hardening/launcher.ts";

const MiB = 1024 * 1024;

interface WorkerKindRow {
  /** Resident memory of an unused warm process, in MiB; 0 where it is negligible. */
  readonly warmMiB: number;
  /** Resident memory in bytes that a process may use beyond that of its calls. */
  readonly baseBytes: number;
  /** CPU time in ms that it may use after its start and after each call, although no call runs. */
  readonly idleWorkMs: number;
}

export const WORKER_KINDS = {
  /** JavaScript. Such a process uses 60 to 90 MiB at rest. */
  plain: { warmMiB: 0, baseBytes: 150 * MiB, idleWorkMs: 0 },
  /**
   * Python. The process loads an interpreter for the next call at its start and after each call. It may contain three
   * at once (the running one, the previous one, the next one) of about 70 MiB each.
   */
  python: { warmMiB: 240, baseBytes: 500 * MiB, idleWorkMs: 15_000 },
} as const satisfies { readonly [name: string]: WorkerKindRow };
export type WorkerKind = keyof typeof WORKER_KINDS;

/**
 * Memory classes of Python processes. A process that is started ahead does not know the limit of its call, and the
 * operating system's limit cannot be raised later. Calls with limits up to a class share its processes; warm processes
 * are of the first class.
 */
const PYTHON_CLASSES_MIB = [256, 512, 1_024, 2_048] as const;
/** Memory of an interpreter at rest, in addition to that of any isolate. */
const INTERPRETER_MIB = 128;
const INTERPRETERS = 3;

/** Returns the class in MiB of the process that a Python call with this limit runs in. */
export const pythonClassOf = (memoryMiB: number): number =>
  PYTHON_CLASSES_MIB.find((classMiB) => memoryMiB <= classMiB) ?? PYTHON_CLASSES_MIB[3];

/** Returns the data limit in bytes of a process of this class, for the operating system. */
export const pythonDataBytes = (classMiB: number): number =>
  dataLimitBytes(INTERPRETERS, INTERPRETERS * INTERPRETER_MIB + 2 * classMiB);

/** Class of the processes that are started ahead. */
export const WARM_PYTHON_CLASS_MIB: number = PYTHON_CLASSES_MIB[0];
