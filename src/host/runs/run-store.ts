// Defines where durable runs are kept: one record for each run, and a journal that only grows. A claim has a number (fence); what an earlier
// claim writes is rejected, so two processes never continue one run.
import type { ToolResult } from "../contract/tool-call.ts";
import type { RunWait } from "./run-wait.ts";

/**
 * - `running`: a process has claimed it. If its lease expires, another one may.
 * - `suspended`: it waits, and takes no process.
 * - `succeeded`, `failed`, `cancelled`: it has ended.
 */
export type RunState = "running" | "suspended" | "succeeded" | "failed" | "cancelled";

/** A run. Its tool, version and arguments are pinned until it ends. */
export interface RunRecord {
  readonly id: string;
  readonly tenantId: string;
  /** What continues the run: `tool` is the kind of {@link createRuns}, `code` that of a code mode, `agent` that of an agent's journal. */
  readonly kind: string;
  readonly toolName: string;
  /** Version of the tool, if the tool has versions. */
  readonly toolVersion?: string | undefined;
  /** Arguments as JSON text. */
  readonly input: string;
  readonly state: RunState;
  /** Number of the latest claim. */
  readonly fence: number;
  /** End of the latest claim's lease, in ms since 1970. */
  readonly leaseUntil: number;
  /** Time at which a suspended run continues by itself, in ms since 1970. */
  readonly wakeAt?: number | undefined;
  readonly waits: readonly RunWait[];
  /** Result of a run that has ended. */
  readonly result?: ToolResult | undefined;
  /** Time in ms since 1970. */
  readonly createdAt: number;
  /** Time at which a run that has not ended fails, in ms since 1970. */
  readonly expiresAt: number;
  /** Size of the journal in UTF-16 code units. */
  readonly journalLength: number;
  /** Number of entries of the journal. */
  readonly entries: number;
}

/** A run as it is created. */
export type NewRun = Pick<
  RunRecord,
  "id" | "tenantId" | "kind" | "toolName" | "toolVersion" | "input" | "createdAt" | "expiresAt" | "leaseUntil"
>;

/** Identifies a run. */
export interface RunKey {
  readonly tenantId: string;
  readonly id: string;
}

/** A claim of a run. */
export interface RunClaim extends RunKey {
  readonly fence: number;
}

/** Selects a page of a tenant's runs. */
export interface RunFilter {
  /** Default: runs in every state. */
  readonly state?: RunState | undefined;
  /** Id of the last run of the page before. */
  readonly before?: string | undefined;
  /** Largest number of runs in the page. */
  readonly limit: number;
}

/** A claim as it is requested. */
export interface RunLease {
  /** Kind of the runs that the process continues. A run of another kind is not claimed. */
  readonly kind: string;
  /** Both in ms since 1970. */
  readonly now: number;
  readonly until: number;
}

/** Which runs that are due a process can continue. */
export interface DueFilter {
  readonly kind: string;
  /** Only the runs of this tenant. */
  readonly tenantId?: string | undefined;
  /** No runs of these tenants. */
  readonly except?: readonly string[] | undefined;
  /** Maximum number of runs of one tenant. */
  readonly perTenant: number;
  /** Maximum number of runs in total. */
  readonly limit: number;
}

/** How a claim ends. */
export type RunRelease =
  | { readonly state: "suspended"; readonly waits: readonly RunWait[]; readonly wakeAt: number | undefined }
  | { readonly state: "succeeded" | "failed" | "cancelled"; readonly result: ToolResult };

/**
 * Keeps durable runs. Every method with a claim does nothing and returns false if the run was claimed again or has ended. One conformance suite
 * runs against all stores.
 */
export interface RunStore {
  /** Time by which leases, waits and lifetimes go, in whole ms since 1970, for processes that share the store. Default: the clock of each machine. */
  now?(): number;
  /**
   * Adds a run in state `running`, claimed with fence 1, unless the tenant has `maxOpen` runs of its kind that have not ended.
   * @returns `taken` if the tenant has a run of this id
   */
  create(run: NewRun, maxOpen: number): Promise<"created" | "taken" | "full">;
  /** Returns a run; undefined if the tenant has none of this id. */
  find(key: RunKey): Promise<RunRecord | undefined>;
  /** Returns the journal: JSON texts in the order in which they were added. */
  journal(key: RunKey): Promise<readonly string[]>;
  /** Lists the newest runs first, by id. */
  list(tenantId: string, filter: RunFilter): Promise<readonly RunRecord[]>;
  /**
   * Claims a suspended run of a kind, or a running one whose lease has expired. Of concurrent claims one succeeds.
   * @returns the number of the claim
   */
  claim(key: RunKey, lease: RunLease): Promise<number | undefined>;
  /** Extends the lease of a claim. @param until end of the lease in ms since 1970 */
  renew(claim: RunClaim, until: number): Promise<boolean>;
  /** Adds entries, all or none. */
  append(claim: RunClaim, entries: readonly string[]): Promise<boolean>;
  /** Adds an entry to a run that has not ended, without a claim. Returns the state of the run; undefined if it has ended. */
  appendEvent(key: RunKey, entry: string): Promise<RunState | undefined>;
  /**
   * Ends a claim.
   * @param entries number of entries that the process has seen. With others, a suspension is rejected, because they may end a wait
   */
  release(claim: RunClaim, release: RunRelease, entries: number): Promise<"released" | "changed" | "lost">;
  /**
   * Returns runs that are suspended and whose `wakeAt` has come, that have expired, or whose lease has: first one of each tenant, then a second one
   * of each, and so on, so that a tenant with many runs does not keep out the others. Those of one tenant are in the order of their ids.
   */
  due(now: number, filter: DueFilter): Promise<readonly RunKey[]>;
  /** Deletes all runs of a tenant. Returns how many. */
  deleteTenant(tenantId: string): Promise<number>;
}
