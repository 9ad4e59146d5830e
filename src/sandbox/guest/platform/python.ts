// What the Python runtime (../python/) takes from the prelude: Pyodide's files, which the worker holds, the log, and values as text.
import { fromTextWithBytes } from "../bytes-text.ts";
import { makeCapabilityError, notGranted } from "../error-text.ts";
import { ask } from "../host.ts";
import { serialize } from "../json-output.ts";
import { LINE_UNITS, writeLazily } from "../log-lines.ts";
import { queueTask } from "../timers.ts";

/** One of the files that the host has sent to the worker; undefined where it has sent none of that name. */
const readAsset = (name: string): ArrayBuffer | undefined => ask("asset", name) as ArrayBuffer | undefined;

/** The error of a program in Python that uses a capability which it was not granted. */
const makeNotGranted = (use: string, capability: string): Error =>
  makeCapabilityError("CAPABILITY_DENIED", notGranted(use, capability), capability);

const python = { LINE_UNITS, makeNotGranted, queueTask, readAsset, writeLazily, serialize, fromTextWithBytes };
export type PythonBuiltin = typeof python;

export const builtins = { python };
