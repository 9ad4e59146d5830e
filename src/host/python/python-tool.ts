// Common parts of all Python tools: the runtime that is their bundle, and the features and default limits that it
// needs.
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import type { PythonEnvironment } from "../workers/spawn/python-setup.ts";

/**
 * Default limits of Python tools. They are higher than for JavaScript, because an interpreter may have to be loaded
 * first.
 */
export const PYTHON_DEFAULT_LIMITS: PartialLimits = { timeoutMs: 30_000, cpuMs: 10_000, memoryMiB: 256 };

/** Features that the runtime itself requires, regardless of what a tool is granted. */
const RUNTIME_FEATURES: readonly EngineFeature[] = ["webAssembly"];
export const withRuntimeFeatures = (granted: readonly EngineFeature[]): readonly EngineFeature[] => [
  ...new Set([...RUNTIME_FEATURES, ...granted]),
];

/** The runtime: the bundle of every Python tool. */
export interface PythonRuntime extends Pick<SandboxTool, "bundle" | "codeCache" | "modules"> {
  /** Properties of the runtime that a definition depends on. */
  readonly key: string;
  /** Version of Pyodide. */
  readonly version: string;
  /** What executors need to run the same. */
  readonly environment: PythonEnvironment;
}

/** The part of a sandboxed tool that is specific to Python. */
export type PythonTool = Pick<SandboxTool, "bundle" | "codeCache" | "modules" | "stackMapper" | "python">;
