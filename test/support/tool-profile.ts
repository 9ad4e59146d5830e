// A tool as the host describes it to a worker, for tests with another subject.
import { DEFAULT_LIMITS } from "../../src/sandbox/contract/limits.ts";
import type { WorkerToolProfile } from "../../src/sandbox/protocol/host-messages.ts";

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
