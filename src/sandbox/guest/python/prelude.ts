// What the Python runtime takes from the prelude (platform/python.ts): a bundle finds it under the name of a built-in.
import type { PythonBuiltin } from "../platform/python.ts";

declare const useBuiltin: (chunk: "python", name: "python") => PythonBuiltin;

export const { LINE_UNITS, makeNotGranted, queueTask, readAsset, writeLazily, serialize, fromTextWithBytes } =
  useBuiltin("python", "python");
