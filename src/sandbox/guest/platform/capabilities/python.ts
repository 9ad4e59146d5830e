// Functions of the prelude for the Python runtime (../python/): Pyodide's files, which are in the worker, the log, and values as text.
import { fromTextWithBytes } from "../../bytes-text.ts";
import { createCapabilityError, notGranted } from "../../error-text.ts";
import { requestFromWorker } from "../../host.ts";
import { serialize, toRejected } from "../../json-output.ts";
import { MAX_LINE_LENGTH, writeLazily } from "../../log-lines.ts";
import { queueTask } from "../../timers.ts";

/** Returns a file that the host has sent to the worker, or undefined if it has not. */
const readAsset = (name: string): ArrayBuffer | undefined =>
  requestFromWorker("asset", name) as ArrayBuffer | undefined;

/** Creates the error for a Python program that uses a capability without a grant. */
const makeNotGranted = (use: string, capability: string): Error =>
  createCapabilityError("CAPABILITY_DENIED", notGranted(use, capability), capability);

const python = {
  MAX_LINE_LENGTH,
  makeNotGranted,
  queueTask,
  readAsset,
  writeLazily,
  serialize,
  toRejected,
  fromTextWithBytes,
};
export type PythonBuiltin = typeof python;

export const builtins = { python };
