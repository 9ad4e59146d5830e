// What the Python runtime (../python/) takes from the prelude: Pyodide's files, which the worker holds, the log, and values as text.
import { fromTextWithBytes } from "../bytes-text.ts";
import { ask } from "../host.ts";
import { serialize } from "../json-output.ts";
import { LINE_UNITS, writeLazily } from "../log-lines.ts";
import { queueTask } from "../timers.ts";

/** One of the files that the host has sent to the worker; undefined where it has sent none of that name. */
const readAsset = (name: string): ArrayBuffer | undefined => ask("asset", name) as ArrayBuffer | undefined;

const python = { LINE_UNITS, queueTask, readAsset, writeLazily, serialize, fromTextWithBytes };
export type PythonBuiltin = typeof python;

export const builtins = { python };
