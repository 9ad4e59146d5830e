// What every Python tool is run with: the runtime that is its bundle, and what of the engine and of limits that needs.
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import type { SandboxTool } from "../executors/sandbox.ts";

/** What Python needs more of than a function in JavaScript, where a host has stated nothing: its interpreter may have to be loaded first. */
export const PYTHON_DEFAULT_LIMITS: PartialLimits = { timeoutMs: 30_000, cpuMs: 10_000, memoryMiB: 256 };

/** What the runtime itself is made of: given to it, whatever its tool is granted. */
const RUNTIME_FEATURES: readonly EngineFeature[] = ["webAssembly"];
export const withRuntimeFeatures = (granted: readonly EngineFeature[]): readonly EngineFeature[] => [
  ...new Set([...RUNTIME_FEATURES, ...granted]),
];

/** The one bundle of all of them. */
export interface PythonRuntime extends Pick<SandboxTool, "bundle" | "codeCache" | "chunks"> {
  /** What a definition depends on besides its source. */
  readonly key: string;
}

/** What of an executor is a Python tool's own. */
export type PythonTool = Pick<SandboxTool, "bundle" | "codeCache" | "chunks" | "stackMapper" | "python">;
