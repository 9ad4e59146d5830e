// Functions of the prelude (platform/python.ts). The bundle of the Python runtime loads them like a built-in module.
import type { PythonBuiltin } from "../platform/capabilities/python.ts";

declare const useBuiltin: (chunk: "python", name: "python") => PythonBuiltin;

export const {
  MAX_LINE_LENGTH,
  makeNotGranted,
  queueTask,
  readAsset,
  writeLazily,
  serialize,
  toRejected,
  fromTextWithBytes,
} = useBuiltin("python", "python");
