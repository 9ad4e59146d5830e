// What a worker process is made ready for before anybody has it: one row each, with what such a process has at rest and may do unasked.
import { dataLimitBytes } from "./hardening/launcher.ts";

const MiB = 1024 * 1024;

interface FlavourRow {
  /** What one that nobody has comes to, in MiB of resident memory; 0 where that is nothing to speak of. */
  readonly spareMiB: number;
  /** Resident memory that a process may have for all that is no call's. */
  readonly baseBytes: number;
  /** CPU time that it may use after its start, and after each call, though nothing runs in it. */
  readonly idleWorkMs: number;
}

export const FLAVOURS = {
  /** JavaScript; at rest it has 60 to 90 MiB. */
  plain: { spareMiB: 0, baseBytes: 150 * MiB, idleWorkMs: 0 },
  /**
   * Python: at its start and after each call it loads an interpreter for the next one. It may hold three at one time (one that runs, one
   * on its way out, one to come), of some 100 MiB each.
   */
  python: { spareMiB: 320, baseBytes: 500 * MiB, idleWorkMs: 15_000 },
} as const satisfies { readonly [name: string]: FlavourRow };
export type WorkerKind = keyof typeof FLAVOURS;

/**
 * A process that is started ahead knows no call's limit, and the operating system's own cannot be raised later: calls of up to so much
 * memory share processes of one class, and the first class is what spares have.
 */
const PYTHON_CLASSES_MIB = [256, 512, 1_024, 2_048] as const;
/** Of an interpreter at rest, beside what every isolate has. */
const INTERPRETER_MIB = 128;
const INTERPRETERS = 3;

/** The class of process that a Python call with this limit runs in, in MiB. */
export const pythonClassOf = (memoryMiB: number): number =>
  PYTHON_CLASSES_MIB.find((most) => memoryMiB <= most) ?? PYTHON_CLASSES_MIB[3];

/** The operating system's limit on the data segment of a process of this class. */
export const pythonDataBytes = (classMiB: number): number =>
  dataLimitBytes(INTERPRETERS, INTERPRETERS * INTERPRETER_MIB + 2 * classMiB);

/** Of the processes that are started ahead. */
export const PYTHON_SPARE_CLASS_MIB: number = PYTHON_CLASSES_MIB[0];
