// Decides which worker process a sandboxed call runs in, and whether it runs there alone.
import { type EngineFeature, unlimitedFeatures } from "../../sandbox/contract/engine-features.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import { dataLimitBytes } from "../workers/hardening/launcher.ts";
import type { Job } from "../workers/pool-job.ts";
import { pythonClassOf, pythonDataBytes } from "../workers/worker-kind.ts";

/** Maximum number of isolates in a tool's own process: the running one, and the previous one while it is disposed. */
const CONFINED_ISOLATES = 2;

/** Which process a call runs in. */
export type ProcessPlacement = Pick<Job, "owner" | "exclusive" | "dataBytes" | "kind">;

/**
 * Returns the process placement of a Python call. Each process runs one call at a time, because V8 does not count the
 * memory of WebAssembly.
 * @param keeper key of the tool or session that keeps its isolate between calls, and so has its own processes, each with
 *   room for two interpreters. Empty if the isolate is used for one call
 */
export function pythonPlacementOf(owner: string, { memoryMiB }: Limits, keeper = ""): ProcessPlacement {
  const classMiB = pythonClassOf(memoryMiB);
  const dataBytes = pythonDataBytes(classMiB);
  return { owner: `${owner} python ${classMiB} ${keeper}`, kind: "python", exclusive: true, dataBytes };
}

/**
 * Returns the process placement of a tool. A tool whose memory V8 does not count gets a process of its own, limited by
 * the operating system.
 */
export function placementOf(
  owner: string,
  sha256: string,
  features: readonly EngineFeature[],
  { memoryMiB }: Limits,
): ProcessPlacement {
  if (unlimitedFeatures(features).length === 0) return { owner };
  return {
    owner: `${owner} ${sha256} ${memoryMiB}`,
    exclusive: true,
    dataBytes: dataLimitBytes(CONFINED_ISOLATES, memoryMiB),
  };
}
