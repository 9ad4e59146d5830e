// What the host assigns to a worker: the settings of a tool, and the calls of it.
import type { Limits } from "../contract/limits.ts";
import type { EngineFeature, InvokeHeader } from "../protocol/guest-messages.ts";
import type { ToolMessage, ToolProfile } from "../protocol/host-messages.ts";
import type { LoadableBundle } from "./isolate/engine.ts";
import type { GuestBytes } from "./isolate/guest-call.ts";
import type { Deterministic } from "./random-bytes.ts";

/** Settings and input of a call, or of the extraction of a definition. */
export interface Assignment {
  readonly seq: number;
  readonly bundle: LoadableBundle;
  readonly limits: Limits;
  readonly features: readonly EngineFeature[];
  readonly coarseTime: boolean;
  /** Undefined for the extraction of a definition. */
  readonly call: AssignedCall | undefined;
}

export interface AssignedCall {
  readonly tool: ToolProfile;
  readonly callId: string;
  readonly tenantId: string;
  /** Bytes of the input. */
  readonly bytes?: GuestBytes | undefined;
  /** Whether to send the chunks of a streaming tool as they are produced. */
  readonly stream?: boolean | undefined;
  readonly deterministic?: Deterministic | undefined;
  /** Session in whose isolate the call runs. */
  readonly session?: AssignedSession | undefined;
  /** Longest time in ms on the main thread. Undefined for a call on another thread. */
  readonly mainThreadMs?: number | undefined;
  /** Loads the tool for a future call instead of running one. `like`: id of the tool whose call rate predicts that of this tool. */
  readonly prewarm?: { readonly like?: number | undefined } | undefined;
}

export interface AssignedSession {
  readonly id: number;
  /** Set if an earlier call created the session's isolate. If that is gone, the call fails. */
  readonly resumes?: true | undefined;
}

/**
 * Converts the host's message to the settings of a tool.
 * @param isPython Python's event loop continues its timers in the session's next call by itself
 */
export function toToolProfile(message: ToolMessage, isPython = false): ToolProfile {
  const { granted, denied, descriptors, limits, logSourceLocations, isolateLifetime } = message;
  const { outputBytes, logBytes, logLines, maxCapabilityCalls, maxPendingCapabilityCalls, timers } = limits;
  const header: InvokeHeader = {
    granted,
    denied,
    ...(descriptors === undefined ? {} : { descriptors }),
    outputBytes,
    logBytes,
    logLines,
    maxCapabilityCalls,
    maxPendingCapabilityCalls,
    timers,
    ...(logSourceLocations ? { logSourceLocations } : {}),
    ...(isolateLifetime === "session" && !isPython ? { isContinued: true } : {}),
  };
  return { ...message, header: JSON.stringify(header) };
}

/** Returns the key of idle isolates: they are reused for the same tenant and tool. A new version of a tool has a new id. */
export function warmKey(call: AssignedCall): string {
  return `${call.tool.toolId} ${call.tenantId}`;
}
