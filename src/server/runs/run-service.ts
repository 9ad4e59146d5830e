// Durable runs of tools and of code: starts, answers and cancels them, and continues those that are due, also when the process that ran them is
// gone. A run stays on the version with which it began. When it has ended it becomes a call, with the same id.
import { createHash } from "node:crypto";
import {
  type CallContext,
  createRuns,
  type Glovebox,
  type LogListener,
  type RunContext,
  type RunKey,
  type RunRecord,
  type RunSignal,
  type RunStarter,
  type Runs,
  type TenantRunLimits,
  type ToolCall,
  ToolError,
  type ToolResult,
  unavailable,
} from "../../host/index.ts";
import { type CallCaller, type CallRequest, checkCaller, IdempotencyConflict } from "../calls/call-request.ts";
import { checkActive, tenantDeletedError, toFailedResult } from "../calls/call-results.ts";
import type { CallService } from "../calls/call-service.ts";
import type { ClusterSlot, ClusterSlots } from "../calls/cluster-slots.ts";
import { toNewRow } from "../calls/new-call.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { RunsTable } from "../database/tables/call-tables.ts";
import { createId, rootOf } from "../ids.ts";
import type { CallerLimits } from "../quotas/caller-limits.ts";
import { type Actor, appendAudit } from "../records/audit/audit.ts";
import {
  deleteRequest,
  findRequest,
  findRun,
  insertRequest,
  isRollingBack,
  listToCancel,
  type RunRow,
  requestRunCancel,
} from "../records/calls/runs.ts";
import { addUsage } from "../records/reports/usage.ts";
import { findTenant, type TenantRecord } from "../records/tenants/tenants.ts";
import { changeExclusively } from "../records/write-lock.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import { DatabaseRunStore } from "./database-run-store.ts";
import { checkWait, isEnded, RunConflict, toAudit } from "./run-answers.ts";
import { endRun, reportWaits } from "./run-content.ts";

/** A run whose process has died is taken over after this time in ms. */
const LEASE_MS = 10_000;
const POLL_MS = 500;
const MAX_CANCELLED = 100;
const MINUTE_MS = 60_000;

/** A run as a request describes it. */
export type RunRequest = Pick<
  CallRequest,
  "toolName" | "input" | "version" | "alias" | "idempotencyKey" | "approvedBy"
> & {
  /** Default: `tool`. */
  readonly kind?: RunKind | undefined;
};
type RunKind = RunsTable["kind"];

/** Who waits for a run that starts. */
export interface RunAudience {
  /** Answers elicitations in the first attempt. */
  readonly starter?: RunStarter | undefined;
  /** Receives the log lines until the run waits or has ended. */
  readonly onLog?: LogListener | undefined;
}

/** A run, and what its tool has returned if that happened in this process. The stored result has no secrets. */
export interface ShownRun {
  readonly row: RunRow;
  readonly result?: ToolResult | undefined;
}

export interface RunServiceDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  readonly tools: TenantTools;
  readonly calls: CallService;
  readonly slots: ClusterSlots;
  readonly callerLimits: CallerLimits;
  /** Runs code of the tenant in the context: the tool `run_code` of its code mode. */
  readonly executeCode: (call: ToolCall, context: CallContext) => Promise<ToolResult>;
  readonly onError: (error: unknown) => void;
}

const requestHash = ({ kind, toolName, input, version, alias }: RunRequest): string =>
  createHash("sha256")
    .update(JSON.stringify([kind ?? "run", toolName, input ?? null, version ?? null, alias ?? null]))
    .digest("hex");

/** @throws {RunConflict} if the run has ended */
function checkNotEnded(row: RunRow): void {
  if (isEnded(row)) throw new RunConflict(`The run has ended (${row.state})`);
}

type Host = Parameters<typeof createRuns>[0];

export class RunService implements AsyncDisposable {
  readonly #dependencies: RunServiceDependencies;
  readonly #store: DatabaseRunStore;
  readonly #options: Parameters<typeof createRuns>[1];
  readonly #hosts: { readonly [Kind in RunKind]: Host };
  #runs: { readonly [Kind in RunKind]: Runs };
  #timer: NodeJS.Timeout | undefined;
  #cancelling: Promise<void> | undefined;
  /** Results of runs for which a request waits. */
  readonly #results = new Map<string, ToolResult | undefined>();
  /** Receive the log lines of runs for which a caller waits. */
  readonly #listeners = new Map<string, LogListener>();

  constructor(dependencies: RunServiceDependencies) {
    this.#dependencies = dependencies;
    const { database, glovebox, onError } = dependencies;
    this.#store = new DatabaseRunStore({ ...database, onEnded: endRun, onWaiting: reportWaits });
    this.#options = {
      store: this.#store,
      leaseMs: LEASE_MS,
      pollMs: 0,
      onError,
      tenantLimits: (tenantId) => this.#limitsOf(tenantId),
      prepare: (run) => this.#prepare(run),
      onAttempt: (...attempt) => this.#attempted(...attempt),
    };
    const { router } = glovebox;
    const { tenancy, tenants, tenantStates } = router;
    const { executeCode } = dependencies;
    this.#hosts = {
      tool: { router, execute: (call, context) => this.#execute(call, context, (...run) => glovebox.execute(...run)) },
      code: {
        // A tenant's own tool can have the name of the one that runs code.
        router: { tenancy, tenants, tenantStates, registry: { get: () => undefined } },
        runScope: { kind: "code" },
        execute: (call, context) => this.#execute(call, context, executeCode),
      },
    };
    this.#runs = this.#createRuns(0);
  }

  #createRuns(pollMs: number): { readonly [Kind in RunKind]: Runs } {
    const { tool, code } = this.#hosts;
    const options = { ...this.#options, pollMs };
    return { tool: createRuns(tool, options), code: createRuns(code, options) };
  }

  /** Starts to continue runs that are due. */
  start(): void {
    this.#runs = this.#createRuns(POLL_MS);
    this.#timer = setInterval(() => {
      this.#cancelling ??= this.#cancelRequested()
        .catch(this.#dependencies.onError)
        .finally(() => {
          this.#cancelling = undefined;
        });
    }, POLL_MS);
    this.#timer.unref();
  }

  /** Stops to continue runs, and waits until those that are under way wait or have ended. @param drainMs longest wait in ms */
  async close(drainMs = 0): Promise<void> {
    clearInterval(this.#timer);
    await this.#cancelling;
    await Promise.all(Object.values(this.#runs).map((runs) => runs.close({ drainMs })));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Starts a run.
   * @returns its id. `settled` resolves when the run has ended or waits
   * @throws {IdempotencyConflict} if the key was used for another request
   * @throws {ToolError} TOOL_UNAVAILABLE, QUOTA_EXCEEDED, or APPROVAL_REQUIRED if the tool needs an approval that the request does not have
   */
  async begin(
    request: RunRequest,
    caller: CallCaller,
    { starter, onLog }: RunAudience = {},
  ): Promise<{ readonly id: string; readonly settled: Promise<ShownRun> }> {
    const { tenant, keyId } = caller;
    const { kind = "tool" } = request;
    checkCaller(caller);
    checkActive(tenant);
    const key = { tenantId: tenant.id, id: createId("call") };
    const stored = await insertRequest(this.#dependencies.database.db, {
      tenant_id: key.tenantId,
      run_id: key.id,
      key_id: keyId,
      request_hash: requestHash(request),
      cancel_requested: 0,
      idempotency_key: request.idempotencyKey ?? null,
      created_at: this.#dependencies.database.clock.now(),
    });
    if (stored === undefined) throw new IdempotencyConflict(true);
    const id = stored.run_id;
    const row = await findRun(this.#dependencies.database.db, { ...key, id });
    if (row !== undefined) return { id, settled: Promise.resolve({ row }) };
    if (onLog !== undefined) this.#listeners.set(id, onLog);
    try {
      const toolVersion = kind === "tool" ? await this.#admit(id, request, caller) : undefined;
      const input = request.input ?? {};
      const run = { id, tenantId: tenant.id, toolName: request.toolName, arguments: input, toolVersion };
      const begun = await this.#runs[kind].begin(run, starter);
      return { id, settled: this.#settle({ ...key, id }, begun.settled) };
    } catch (thrown) {
      this.#listeners.delete(id);
      // A request with the same key at the same time has started it.
      const started = await findRun(this.#dependencies.database.db, { ...key, id });
      if (started !== undefined) return { id, settled: Promise.resolve({ row: started }) };
      // The row of an earlier request, whose run may begin yet, keeps its key.
      if (id === key.id) await deleteRequest(this.#dependencies.database.db, stored);
      throw thrown;
    }
  }

  /** Returns the version that a run stays on. @throws {ToolError} TOOL_UNAVAILABLE; APPROVAL_REQUIRED */
  async #admit(id: string, request: RunRequest, { tenant, keyId }: CallCaller): Promise<string | undefined> {
    const { toolName, input, version, alias, approvedBy } = request;
    const row = toNewRow(
      { toolName, input, version, alias },
      { tenantId: tenant.id, keyId, now: this.#dependencies.database.clock.now() },
      "run",
    );
    const { toolVersion, needed } = await this.#dependencies.calls.versionOf(row, tenant);
    if (this.#dependencies.glovebox.router.registry.get(toolName, tenant.id) === undefined)
      throw unavailable("not_found", `There is no tool ${JSON.stringify(toolName)}`, { details: { toolName } });
    if (needed === undefined) return toolVersion;
    if (approvedBy === undefined) {
      const message = `Runs of "${toolName}" need an approval. Start the run with approve: true and a key with the scope calls:approve`;
      throw new ToolError("APPROVAL_REQUIRED", message, { recoverable: false });
    }
    await changeExclusively(this.#dependencies.database, (transaction) =>
      appendAudit(transaction, {
        actor: approvedBy,
        tenantId: tenant.id,
        action: "approval.approved",
        target: id,
        details: { runId: id, tool: toolName, version: Number(needed.version) },
      }),
    );
    return needed.version;
  }

  /** Waits until a run waits or has ended, and returns it with what its tool has returned. */
  async #settle(key: RunKey, settled: Promise<unknown>): Promise<ShownRun> {
    this.#results.set(key.id, undefined);
    try {
      await settled;
      const row = await this.#found(key);
      return { row, ...(isEnded(row) ? { result: this.#results.get(key.id) } : {}) };
    } finally {
      this.#results.delete(key.id);
      this.#listeners.delete(key.id);
    }
  }

  async #found(key: RunKey): Promise<RunRow> {
    const row = await findRun(this.#dependencies.database.db, key);
    if (row === undefined) throw unavailable("not_found", `There is no run ${JSON.stringify(key.id)}`);
    return row;
  }

  async #limitsOf(tenantId: string): Promise<TenantRunLimits> {
    const { runs } = (await this.#tenantOf(tenantId)).policy;
    const { maxOpen, maxJournalLength, lifetimeMinutes } = runs;
    return { maxOpen, maxJournalLength, lifetimeMs: lifetimeMinutes * MINUTE_MS };
  }

  async #tenantOf(tenantId: string): Promise<TenantRecord> {
    const tenant = await findTenant(this.#dependencies.database.db, tenantId);
    if (tenant === undefined || tenant.state === "deleting") throw tenantDeletedError();
    return tenant;
  }

  /** Runs an attempt within the limits of concurrent calls of the tenant and of the key that has started the run. */
  async #execute(
    call: ToolCall,
    context: CallContext = {},
    run: (call: ToolCall, context: CallContext) => Promise<ToolResult>,
  ): Promise<ToolResult> {
    const { database, slots, onError } = this.#dependencies;
    const tenant = await this.#tenantOf(context.tenantId ?? "");
    let slot: ClusterSlot;
    try {
      // The id of an attempt is that of its run and a number.
      const request = await findRequest(database.db, { tenantId: tenant.id, id: rootOf(call.id) });
      slot = await slots.acquire(tenant, call.id, context.signal, request?.key_id);
    } catch (thrown) {
      return toFailedResult({ id: call.id, tool_name: call.toolName }, thrown, onError);
    }
    try {
      return await run(call, context);
    } finally {
      slot.release();
    }
  }

  /** Registers the version of a run, or the tools that code can call, and follows the calls that it makes. */
  async #prepare(run: RunRecord): Promise<RunContext> {
    const { tools, calls, database, callerLimits } = this.#dependencies;
    const tenant = await this.#tenantOf(run.tenantId);
    // Not a failure of the run: it continues when the tenant is active again.
    if (tenant.state !== "active") throw new Error("The tenant is suspended");
    if (run.kind === "code") await tools.ensureAll(tenant.id, tenant.revision);
    else {
      await tools.ensureTool(tenant.id, tenant.revision, run.toolName);
      if (run.toolVersion !== undefined)
        await tools.choose(tenant.id, run.toolName, { version: Number(run.toolVersion) });
    }
    const keyId = (await findRequest(database.db, run))?.key_id ?? "";
    const nested = calls.nestedCallsOf(tenant, keyId);
    const listener = this.#listeners.get(run.id);
    const onLog: LogListener = (entry) => {
      nested.log(entry);
      listener?.(entry);
    };
    const approvalOf = (toolName: string) => this.#approvalOf(run.tenantId, toolName);
    return {
      ...(run.kind === "tool" ? { approvalOf } : {}),
      // The calls that an attempt makes have ids below its own.
      callId: `${run.id}.${run.fence}`,
      nestedCalls: nested.observer,
      onLog,
      logSourceLocations: true,
      ...(await callerLimits.quotasOf(keyId)),
    };
  }

  /** Returns for how long a call that a run makes waits for an approval; undefined if the tenant's policy demands none. */
  async #approvalOf(tenantId: string, toolName: string): Promise<{ readonly expiresInMs: number } | undefined> {
    const { tools, calls } = this.#dependencies;
    const tenant = await this.#tenantOf(tenantId);
    await tools.ensureTool(tenant.id, tenant.revision, toolName);
    return calls.approvals.waitOf(tenant, toolName);
  }

  #attempted(run: RunRecord, result: ToolResult, isSuspended: boolean): void {
    if (this.#results.has(run.id)) this.#results.set(run.id, result);
    const endedAt = this.#dependencies.database.clock.now();
    const row = { tenant_id: run.tenantId, tool_name: run.toolName, usage: JSON.stringify(result.usage) };
    const times = { started_at: endedAt - Math.round(result.durationMs), ended_at: endedAt };
    const error = result.success || isSuspended ? null : JSON.stringify(result.error);
    addUsage(this.#dependencies.database.db, [{ ...row, ...times, error }]).catch(this.#dependencies.onError);
  }

  /**
   * Gives a run an event, or a person's decision about one of its waits, together with its entry in the audit log.
   * @returns `settled` resolves when the run waits again or has ended; undefined if there is no such run
   * @throws {RunConflict} if it has ended, does not wait for this approval, or was decided about before
   * @throws {ToolError} QUOTA_EXCEEDED if its journal has no room for it
   */
  async answer(
    tenant: TenantRecord,
    id: string,
    signal: RunSignal,
    actor: Actor,
  ): Promise<{ readonly settled: Promise<ShownRun> } | undefined> {
    checkActive(tenant);
    const key = { tenantId: tenant.id, id };
    const before = await changeExclusively(this.#dependencies.database, async (transaction) => {
      const row = await findRun(transaction, key);
      if (row === undefined) return undefined;
      checkNotEnded(row);
      const wait = "event" in signal ? undefined : await checkWait(transaction, row, signal, this.#store.now());
      // The same runs as part of the transaction.
      const { maxJournalLength } = tenant.policy.runs;
      const host = this.#hosts[row.kind];
      const runs = createRuns(host, { store: this.#store.in(transaction), pollMs: 0, maxJournalLength });
      try {
        await runs.deliver(id, signal, { tenantId: tenant.id });
      } catch (thrown) {
        // Another process can end the run meanwhile.
        const now = thrown instanceof ToolError ? await findRun(transaction, key) : undefined;
        if (now !== undefined) checkNotEnded(now);
        throw thrown;
      }
      const { action, details } = toAudit(signal, wait);
      await appendAudit(transaction, { actor, tenantId: tenant.id, action, target: id, details });
      return row;
    });
    if (before === undefined) return undefined;
    // A run that was under way finds the signal by itself, and its attempt may take long.
    const isWaiting = before.state === "suspended";
    const resumed = isWaiting ? this.#runs[before.kind].resume(id, { tenantId: tenant.id }) : Promise.resolve();
    return { settled: this.#settle(key, resumed) };
  }

  /**
   * Cancels a run: at once if it waits, otherwise as soon as it waits or its process sees it.
   * @returns the state that it had; undefined if there is no such run
   */
  async cancel(tenant: TenantRecord, id: string, actor: Actor): Promise<RunsTable["state"] | undefined> {
    const key = { tenantId: tenant.id, id };
    const before = await changeExclusively(this.#dependencies.database, async (transaction) => {
      const row = await findRun(transaction, key);
      if (row === undefined || isEnded(row)) return row;
      await requestRunCancel(transaction, key);
      await appendAudit(transaction, { actor, tenantId: tenant.id, action: "run.cancelled", target: id, details: {} });
      return row;
    });
    if (before !== undefined && !isEnded(before)) await this.#cancel(key, before.kind);
    return before?.state;
  }

  /** Cancels a run that waits, or that is under way in this process. A run that is rolled back is left to its end. */
  async #cancel(key: RunKey, kind: RunKind): Promise<void> {
    if (await isRollingBack(this.#dependencies.database.db, key)) return;
    await this.#runs[kind].cancel(key.id, { tenantId: key.tenantId });
  }

  async #cancelRequested(): Promise<void> {
    const runs = await listToCancel(this.#dependencies.database.db, MAX_CANCELLED);
    await Promise.all(runs.map(({ kind, ...key }) => this.#cancel(key, kind)));
  }
}
