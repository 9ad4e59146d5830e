// What the host tells an operator of its worker processes. All of it is counted or measured by the host: a worker process is not trusted.

import type { WorkerIsolates } from "./process/worker-contents.ts";
import type { WorkerProcess } from "./process/worker-process.ts";
import { tenantOfOwner } from "./scheduling/process-owner.ts";

/** A worker process of this machine. */
export interface WorkerInfo {
  /** Id of the process that runs the worker program. Until that is up, id of the outermost wrapper. */
  readonly pid: number;
  /** Language of the tools that it runs. */
  readonly language: "javascript" | "python";
  /**
   * Whose calls it runs. `warm`: those of no tenant yet, because it was started ahead; `tenant`: those of one tenant, until it ends; `shared`:
   * those of several tenants, with `placement: "shared"`, or it extracts the definition of a tool of all tenants.
   */
  readonly use: "warm" | "tenant" | "shared";
  /** `busy`: it has calls; `idle`: it has none; `ending`: it is being ended, or ends after its calls to make room for another tenant. */
  readonly state: "starting" | "idle" | "busy" | "ending";
  /** The tenant of a process with `use: "tenant"`; with `"shared"`, the tenants whose calls are in it now; with `"warm"`, none. */
  readonly tenantIds: readonly string[];
  readonly isolates: WorkerIsolates;
  /** Resident memory in bytes, at most about a second ago; undefined where the operating system does not tell (other than Linux). */
  readonly rssBytes: number | undefined;
}

function stateOf(worker: WorkerProcess): WorkerInfo["state"] {
  if (worker.isEnding || worker.draining) return "ending";
  if (!worker.isReady || (worker.kind === "python" && !worker.isPythonReady)) return "starting";
  return worker.callCount > 0 ? "busy" : "idle";
}

/**
 * Describes a process; returns undefined before it has an id.
 * @param callers tenants of the calls in it
 */
export function describeWorker(worker: WorkerProcess, callers: readonly string[]): WorkerInfo | undefined {
  const { pid, owner, kind, rssBytes, isolates } = worker;
  if (pid === undefined) return undefined;
  const tenantId = owner === undefined ? undefined : tenantOfOwner(owner);
  return {
    pid,
    language: kind === "python" ? "python" : "javascript",
    use: owner === undefined ? "warm" : tenantId === undefined ? "shared" : "tenant",
    state: stateOf(worker),
    tenantIds: tenantId === undefined ? [...new Set(callers)] : [tenantId],
    isolates,
    rssBytes: rssBytes > 0 ? rssBytes : undefined,
  };
}
