// A tool as the host describes it to a worker, for tests with another subject.
import type { WorkerToolProfile } from "../../src/host/workers/worker-job.ts";
import { DEFAULT_LIMITS } from "../../src/sandbox/contract/limits.ts";

export const TOOL_PROFILE: WorkerToolProfile = {
  sha256: "0".repeat(64),
  isolateLifetime: "call",
  prewarm: true,
  limits: DEFAULT_LIMITS,
  features: [],
  coarseTime: false,
  logSourceLocations: false,
  granted: [],
  denied: [],
};
