// Which failures of calls are the tool's own fault: they roll a release back, and make the overview report the tool.
import type { ErrorCode } from "../../../host/index.ts";

/** Failures that say something about the tool, and not about its caller, its tenant or the server. */
export const TOOL_FAULTS: ReadonlySet<string> = new Set<ErrorCode>([
  ...(["TOOL_FAILED", "TOOL_TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "OUTPUT_INVALID", "OUTPUT_TOO_LARGE"] as const),
  ...(["BUNDLE_FAILED", "CAPABILITY_DENIED", "SANDBOX_CRASHED"] as const),
]);
