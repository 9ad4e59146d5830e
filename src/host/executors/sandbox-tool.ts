// Defines the properties of sandboxed tools and of sessions that the executor of their calls uses.
import type { StackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import type { ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityDescriptors } from "../../sandbox/protocol/guest-messages.ts";
import type { IsolateLifetime } from "../../sandbox/protocol/message-fields.ts";
import type { Capability } from "../capabilities/capability.ts";
import type { ToolUsage } from "../contract/tool-call.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import type { SessionPlacement } from "../workers/pool-job.ts";
import type { RemotePython } from "../workers/spawn/python-setup.ts";
import type { PlatformModuleUsage } from "./platform-module-usage.ts";

/** Identifies a Python tool, since all Python tools share one bundle. */
export interface PythonCalls extends RemotePython {
  /** Key of the tool in the tenant's queue. */
  readonly toolKey: string;
  /** Version of Pyodide. */
  readonly version: string;
  /** Builds a PythonRun as JSON text around arguments in JSON text. */
  readonly toRun: (args: string | Buffer, limits: Limits, isInSession: boolean) => string | Buffer;
}

/** A sandboxed tool, built and resolved, as its executor receives it. */
export interface SandboxTool {
  readonly bundle: Pick<ToolBundle, "sha256" | "code">;
  readonly codeCache: Uint8Array;
  readonly modules: Pick<PlatformModuleUsage, "add" | "names">;
  readonly stackMapper: StackMapper;
  readonly isolateLifetime: IsolateLifetime;
  /** Whether the tool's author allows its top level to run ahead of calls. */
  readonly prewarm: boolean;
  /** Returns the owner of the processes that the tool may run in: its tenant or a trust group. */
  readonly ownerOf: (tenantId: string) => string;
  /** Whether other tenants' tools run in the same processes, so that a crash does not count as a failure of this tool. */
  readonly sharesProcesses?: boolean;
  /** Id of the tool's source, for its health. */
  readonly sourceId?: string;
  readonly granted: ReadonlyMap<string, Capability>;
  /** Capabilities that were requested but not granted. The tool receives CAPABILITY_DENIED when it uses one. */
  readonly denied: readonly string[];
  /** Descriptors of granted and denied capabilities that are more than functions. */
  readonly descriptors?: CapabilityDescriptors | undefined;
  /** Granted features of the engine. */
  readonly features: readonly EngineFeature[];
  /** Set if the bundle is the Python runtime, which then runs the tool's source. */
  readonly python?: PythonCalls | undefined;
  /** The session whose isolate the calls run in, if `isolateLifetime` is `session`. */
  readonly session?: SandboxSession | undefined;
  /** Receives errors of capability handlers that are not ToolErrors. */
  readonly onHandlerError?: ((error: unknown, capability: string) => void) | undefined;
}

/** The isolate of a session, and the callbacks for its calls. */
export interface SandboxSession {
  readonly placement: SessionPlacement;
  /** Secrets of all runs, because the guest may still know those of an earlier one. */
  readonly redactor: Redactor;
  /** Whether bundle and profile are used for one call only. */
  readonly once: boolean;
  /** Whether an earlier call has left its isolate in the session's process. */
  readonly isKept: boolean;
  /** Called when a process has taken a call. The call may have used the isolate from then on. */
  onPlaced(): void;
  /**
   * Called when a call has ended.
   * @param isKept whether the isolate remains for the next call
   */
  onEnded(isKept: boolean, usage: ToolUsage, error: ToolError | undefined): void;
}
