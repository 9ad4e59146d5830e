// Interface of what runs the calls of sandboxed tools: the worker processes of this machine, or the executors of a fleet.

import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { DrainOutcome, FleetState } from "../fleet/control/fleet-state.ts";
import type { QuarantinedTool } from "./health/crash-quarantine.ts";
import type { Job, SessionPlacement, Ticket, WarmUse } from "./pool-job.ts";
import type { PythonEnvironment } from "./spawn/python-setup.ts";
import type { WorkerInfo } from "./worker-info.ts";
import type { SentBundle } from "./worker-job.ts";

export interface CallPool extends AsyncDisposable {
  /** Tools that may have crashed a process. */
  readonly quarantined: readonly QuarantinedTool[];
  /** Executors on other machines, if the pool uses them. */
  readonly fleet?: FleetState | undefined;
  /** Requests that an executor finishes its calls and ends. */
  drainExecutor?(id: string): Promise<DrainOutcome>;
  /** Ids of the processes on this machine. */
  readonly pids: readonly number[];
  /** The processes on this machine. */
  readonly workers: readonly WorkerInfo[];
  /**
   * Queues or starts a job.
   * @throws {ToolError} TOOL_UNAVAILABLE when the pool is closed; OVERLOADED, with `retryAfterMs`, when the queue is
   * full
   */
  run(job: Job): Ticket;
  /** Lists where calls with these profiles have run on this machine. */
  usesOf(profiles: readonly WorkerToolProfile[]): readonly WarmUse[];
  /** Makes an isolate of a tool in a process that uses an earlier version of it. Never rejects. */
  prewarm(use: WarmUse, profile: WorkerToolProfile, bundle: SentBundle): Promise<void>;
  /**
   * Releases a tool's warm isolates in all processes of this machine. Running calls continue.
   * @param bundle the tool's code, which is dropped where no other tool uses it
   */
  release(profiles: readonly WorkerToolProfile[], bundle: SentBundle | undefined): void;
  /** Disposes the session's isolate. Calling it twice is a no-op. */
  endSession(placement: SessionPlacement): void;
  /** Charges time of the host's event loop that went into an account's values. */
  chargeHostTime(account: string, ms: number): void;
  /** Ends the processes of an owner. Returns their number on this machine. */
  endOwner(owner: string, isShared: boolean): number;
  /** Lets other machines prepare the Python of this host, so that no call waits for that. */
  preparePython?(environment: PythonEnvironment): void;
  /** Deletes what other machines keep of a tenant's code. Its calls have ended. */
  deleteTenant?(tenantId: string): void;
}
