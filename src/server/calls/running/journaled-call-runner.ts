// Runs calls in the Glovebox, with what the server adds: live logs, records of nested calls, recordings, metrics, and the call's own record.
import {
  type CallContext,
  type Glovebox,
  type LogEntry,
  type Progress,
  type StreamItem,
  type ToolCall,
  ToolError,
  type ToolResult,
  toHttpStatus,
  toJson,
  unavailable,
} from "../../../host/index.ts";
import type { Admission, ApprovalService } from "../../approvals/approval-service.ts";
import type { RequestAuthenticator } from "../../auth/authentication.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import type { Metrics } from "../../operation/metrics.ts";
import type { CallerLimits } from "../../quotas/caller-limits.ts";
import type { QuotaChecks } from "../../quotas/quota-checks.ts";
import { bitsOf, withContents } from "../../records/calls/call-contents.ts";
import { finishCall } from "../../records/calls/call-outcomes.ts";
import { type CallRow, findCall, type WholeCall } from "../../records/calls/calls.ts";
import type { TenantRecord } from "../../records/tenants/tenants.ts";
import type { ReleaseWatch } from "../../releases/release-watch.ts";
import type { ReplicaBus } from "../../replicas/bus.ts";
import type { PeerClient } from "../../replicas/peers/peer-client.ts";
import type { ReplicaRequests } from "../../replicas/requests.ts";
import type { TenantTools } from "../../tools/tenant-tools.ts";
import type { CallCaller, CallRequest } from "../call-request.ts";
import { toFailedResult, toShown, writeOutput } from "../call-results.ts";
import type { ClusterSlot, ClusterSlots } from "../cluster-slots.ts";
import { toCallArguments } from "../input-text.ts";
import { toContext } from "../new-call.ts";
import { effectsOf, toOutcome, toStoredParts } from "../outcome.ts";
import type { WorkQueue } from "../queue/work-queue.ts";
import { CallJournal } from "./call-journal.ts";
import { CallRecordings } from "./call-recordings.ts";
import { LiveCalls } from "./live-calls.ts";
import { type NeededHandler, NestedCalls } from "./nested-calls.ts";
import { StartingCalls } from "./starting-calls.ts";

/** What running calls needs. */
export interface CallServiceDependencies {
  readonly database: OpenDatabase;
  /** Checks the callers of calls that other replicas pass on. */
  readonly authenticator: Pick<RequestAuthenticator, "access" | "caller">;
  readonly glovebox: Glovebox;
  readonly tools: TenantTools;
  readonly metrics: Metrics;
  readonly watch: ReleaseWatch;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly slots: ClusterSlots;
  /** The limits of the keys that make calls. */
  readonly callerLimits: CallerLimits;
  /** Rejects calls for the queue whose quotas are used up. */
  readonly quotaChecks: Pick<QuotaChecks, "check">;
  /** Delivers queued calls, for a server with executors. */
  readonly work: WorkQueue | undefined;
  /** Passes calls on to the replicas that have their sessions. */
  readonly peers: Pick<PeerClient, "open">;
  /** Returns whether this process runs further calls: false once it drains. */
  readonly acceptsCalls: () => boolean;
  readonly onError: (error: unknown) => void;
}

export interface JournaledCallRunnerDependencies extends CallServiceDependencies {
  readonly approvals: ApprovalService;
}

/** What an approval or an alias has fixed of a call. */
export type Pins = Pick<Admission, "toolVersion" | "toolDigest">;

/** Receives what a streamed call yields. */
export interface StreamSink {
  readonly onLog: (entry: LogEntry) => void;
  readonly onProgress: (progress: Progress) => void;
  readonly onChunk: (value: unknown) => void;
}

/** What a call that may be repeated leaves behind: another call can have its idempotency key. */
const RELEASED_KEY = { idempotency_key: null, request_hash: null } as const;

/** Returns whether the same request may succeed later, because the call met a rate, a quota, an open circuit or a busy server and has not begun. */
function mayRepeat(result: ToolResult): boolean {
  if (result.success || effectsOf(result) !== "none") return false;
  const status = toHttpStatus(result.error);
  return status === 429 || status === 503;
}

export class JournaledCallRunner {
  readonly #dependencies: JournaledCallRunnerDependencies;
  readonly journal: CallJournal;
  readonly live = new LiveCalls();
  readonly recordings = new CallRecordings();
  readonly starting = new StartingCalls();

  constructor(dependencies: JournaledCallRunnerDependencies) {
    this.#dependencies = dependencies;
    this.journal = new CallJournal(dependencies.database.db, dependencies.onError);
  }

  /**
   * Observes the calls that a call makes, so that each gets a record.
   * @param onNeeded rejects a call that needs an approval, or lets it run. Default: the call waits as one of its own
   */
  nestedCallsOf(tenant: TenantRecord, keyId: string, onNeeded?: NeededHandler): NestedCalls {
    return new NestedCalls(
      {
        approvals: this.#dependencies.approvals,
        live: this.live,
        tools: this.#dependencies.tools,
        onEnded: (row, input, result, owner) => this.#addNested(row, input, result, owner),
      },
      ...([tenant, keyId, onNeeded] as const),
    );
  }

  #addNested(row: CallRow, input: unknown, result: ToolResult, { policy }: TenantRecord): void {
    const outcome = toOutcome(result, input, policy, this.#dependencies.database.clock.now());
    const ended = { ...row, ...outcome };
    const parts = toStoredParts(result, policy.retention.keepContent);
    this.#dependencies.metrics.callEnded("nested", result.success ? "ok" : result.error.code, result.durationMs);
    this.#dependencies.watch.observe(ended);
    void this.journal.add({ row: ended, parts });
  }

  /** Runs a call. Never rejects. */
  async execute(row: CallRow, request: CallRequest, caller: CallCaller, pins: Pins): Promise<ToolResult> {
    const { signal } = caller;
    const call = { id: row.id, toolName: request.toolName, ...toCallArguments(request.input) };
    try {
      return await this.#observe(row, caller, pins, (added) =>
        this.#dependencies.glovebox.execute(call, {
          ...toContext(request, caller.tenant.id),
          ...added,
          ...(signal === undefined ? {} : { signal }),
        }),
      );
    } catch (thrown) {
      return toFailedResult(row, thrown, this.#dependencies.onError);
    }
  }

  /** Runs a call that came with a context of its own. @param host runs it. Default: the Glovebox */
  async executeForeign(
    row: CallRow,
    { toolCall, context }: { readonly toolCall: ToolCall; readonly context: CallContext },
    caller: CallCaller,
    pins: Pins,
    host: Pick<Glovebox, "execute"> = this.#dependencies.glovebox,
  ): Promise<ToolResult> {
    const tenantId = caller.tenant.id;
    const run = (added: CallContext): Promise<ToolResult> =>
      host.execute(toolCall, { ...context, tenantId, timeline: true, logSourceLocations: true, ...added });
    // A tool of another host has no approvals of its own, and may have the name of a tool of the tenant.
    const isOwn = host === this.#dependencies.glovebox;
    return await this.#observe(row, caller, isOwn ? pins : undefined, run, context.onLog);
  }

  /** Runs a call and passes on what it yields. */
  async stream(
    row: CallRow,
    request: CallRequest,
    caller: CallCaller,
    { pins, sink }: { readonly pins: Pins; readonly sink: StreamSink },
  ): Promise<ToolResult> {
    const { onLog, onProgress, onChunk } = sink;
    const call = { id: row.id, toolName: request.toolName, ...toCallArguments(request.input) };
    const run = async (added: CallContext): Promise<ToolResult> => {
      const context = { ...toContext(request, caller.tenant.id), signal: caller.signal, ...added, onProgress };
      let result: ToolResult | undefined;
      for await (const item of this.#dependencies.glovebox.stream(call, context) as AsyncIterable<StreamItem>) {
        if (item.type === "result") result = item;
        else onChunk(toJson(item.value));
      }
      return result as ToolResult;
    };
    return await this.#observe(row, caller, pins, run, onLog);
  }

  /**
   * Checks a call again that may have waited for its slot: meanwhile, another version can be released whose calls need an approval.
   * @returns the version that runs
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "tool_changed"`) if the call needs an approval now
   */
  #checkAgain(row: CallRow, tenant: TenantRecord, pins: Pins): Pins {
    // An approved call runs the tool that was shown, or fails.
    if (pins.toolDigest !== undefined) return pins;
    const { tool_name: toolName, session_id: sessionId } = row;
    const { needed, ...now } = this.#dependencies.approvals.check(tenant, toolName, {
      ...pins,
      ...(sessionId === null ? {} : { sessionId }),
    });
    if (needed === undefined) return now;
    const message = `The tool ${JSON.stringify(toolName)} changed while the call waited, and the call needs an approval now. It was not run. Repeat it to request the approval`;
    throw unavailable("tool_changed", message, { details: { toolName } });
  }

  /**
   * Runs a call with the part of its context that lets the server follow it.
   * @param pins undefined for a tool that is none of the tenant's
   */
  async #observe(
    row: CallRow,
    { tenant, keyId, signal }: CallCaller,
    pins: Pins | undefined,
    run: (added: CallContext) => Promise<ToolResult>,
    onLog?: ((entry: LogEntry) => void) | undefined,
  ): Promise<ToolResult> {
    const nested = this.nestedCallsOf(tenant, keyId);
    const live = this.live.begin(tenant.id, row.id);
    let slot: ClusterSlot | undefined;
    let hasBegun = false;
    try {
      const callerQuotas = await this.#dependencies.callerLimits.quotasOf(keyId);
      slot = await this.#dependencies.slots.acquire(tenant, row.id, signal, keyId);
      const { toolVersion, toolDigest }: Pins = pins === undefined ? {} : this.#checkAgain(row, tenant, pins);
      this.starting.started(row.id);
      hasBegun = true;
      return await run({
        ...this.recordings.contextOf(row, tenant),
        ...(toolVersion === undefined ? {} : { toolVersion }),
        ...(toolDigest === undefined ? {} : { toolDigest }),
        ...callerQuotas,
        nestedCalls: nested.observer,
        onLog: (entry) => {
          nested.log(entry);
          live.log(entry);
          onLog?.(entry);
        },
      });
    } catch (thrown) {
      // It has no slot, or may not run. What runs a call does not reject.
      if (hasBegun || !(thrown instanceof ToolError)) throw thrown;
      return toFailedResult(row, thrown, this.#dependencies.onError);
    } finally {
      slot?.release();
      await this.live.end(row.id);
    }
  }

  /** Stores the record of a call that has ended, and returns it as its caller sees it. */
  async ended(row: CallRow, request: CallRequest, { tenant }: CallCaller, result: ToolResult): Promise<WholeCall> {
    const outcome = toOutcome(result, request.input, tenant.policy, this.#dependencies.database.clock.now());
    const version = outcome.tool_version ?? row.tool_version;
    const parts = toStoredParts(result, tenant.policy.retention.keepContent);
    const extras = { recording: this.recordings.take(row.id), parts };
    const content = row.content | bitsOf(extras);
    const ended: CallRow = { ...row, ...outcome, tool_version: version, content };
    this.#dependencies.metrics.callEnded(row.mode, result.success ? "ok" : result.error.code, result.durationMs);
    this.#dependencies.watch.observe(ended);
    // A call with an idempotency key has a row already.
    if (row.idempotency_key === null) await this.journal.add({ row: ended, ...extras });
    else {
      const stored = { ...outcome, tool_version: version, ...(mayRepeat(result) ? RELEASED_KEY : {}) };
      const { db } = this.#dependencies.database;
      // Its lease is renewed meanwhile. No repetition of the request runs the call again, so its outcome must not be lost in an outage.
      const other = await this.journal.retry(async () => {
        if (await finishCall(db, row, stored, extras)) return undefined;
        const known = await findCall(db, row.tenant_id, row.id);
        // An earlier attempt has stored it if the answer to its COMMIT was lost.
        const isOwn = known?.state === stored.state && known.ended_at === stored.ended_at;
        return known === undefined || isOwn ? undefined : await withContents(db, known);
      });
      // If its lease has expired, as after this process was frozen, another process has ended the call: it has one outcome.
      if (other !== undefined) return other;
    }
    // The caller receives what the tool returned; only the stored copy is redacted.
    return { ...ended, ...toShown(result, request, await writeOutput(result)) };
  }
}
