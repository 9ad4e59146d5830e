// Runs the calls of the API: at once, streamed, or later from the queue. Each accepted call gets one record with one final state.
import { createHash } from "node:crypto";
import {
  type Glovebox,
  type LogEntry,
  type Progress,
  type StreamItem,
  type ToolCall,
  type ToolContext,
  ToolError,
  type ToolResult,
  toJson,
  unavailable,
} from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { createId } from "../ids.ts";
import type { Metrics } from "../operation/metrics.ts";
import { withContents } from "../records/call-contents.ts";
import { type CallRow, findCall, finishCall, insertOnce, redactStoredInput, requestCancel } from "../records/calls.ts";
import { findTenant, type Tenant } from "../records/tenants.ts";
import type { ReleaseWatch } from "../releases/release-watch.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import { LIVE } from "../tools/tenant-tools.ts";
import { CallJournal } from "./call-journal.ts";
import { CallQueue } from "./call-queue.ts";
import { type LiveCall, LiveCalls } from "./live-calls.ts";
import { toOutcome, toStoredInput } from "./outcome.ts";

/** A call as a request describes it. */
export interface CallRequest {
  readonly toolName: string;
  readonly input: unknown;
  readonly version?: number | undefined;
  readonly alias?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
}

export interface CallCaller {
  readonly tenant: Tenant;
  readonly keyId: string;
  /** Aborts when the client disconnects. */
  readonly signal?: AbortSignal | undefined;
}

/** Events of a streamed call, from `started` to `result`. */
export type CallEvent =
  | { readonly event: "started"; readonly data: { readonly id: string } }
  | { readonly event: "log"; readonly data: LogEntry }
  | { readonly event: "progress"; readonly data: Progress }
  | { readonly event: "chunk"; readonly data: unknown }
  | { readonly event: "result"; readonly data: CallRow };

export interface CallServiceParts {
  readonly database: OpenDatabase;
  readonly box: Glovebox;
  readonly tools: TenantTools;
  readonly metrics: Metrics;
  readonly watch: ReleaseWatch;
  readonly onError: (error: unknown) => void;
}

/** Time in ms after which a synchronous call has ended in any case: its longest timeout and a margin. */
const LONGEST_CALL_MS = 330_000;

function requestHash(request: CallRequest): string {
  const { toolName, input, version, alias, sessionId, timeoutMs } = request;
  return createHash("sha256")
    .update(
      JSON.stringify([toolName, input ?? null, version ?? null, alias ?? null, sessionId ?? null, timeoutMs ?? null]),
    )
    .digest("hex");
}

const toContext = (
  { sessionId, timeoutMs }: CallRequest,
  tenantId: string,
): ToolContext & { readonly tenantId: string } => ({
  tenantId,
  timeline: true,
  logSourceLocations: true,
  ...(sessionId === undefined ? {} : { sessionId }),
  ...(timeoutMs === undefined ? {} : { timeoutMs }),
});

export class CallService implements AsyncDisposable {
  readonly #parts: CallServiceParts;
  readonly #journal: CallJournal;
  readonly #queue: CallQueue;
  readonly #live = new LiveCalls();

  constructor(parts: CallServiceParts) {
    this.#parts = parts;
    this.#journal = new CallJournal(parts.database.db, parts.onError);
    this.#queue = new CallQueue({
      ...{ db: parts.database.db, kind: parts.database.kind, onError: parts.onError },
      run: (row, signal) => this.#runQueued(row, signal),
      toOutcome: async (row, result) => {
        const tenant = await findTenant(parts.database.db, row.tenant_id);
        const retention = tenant?.policy.retention ?? { callDays: 1, keepContent: false };
        const { input } = await withContents(parts.database.db, row);
        return toOutcome(result, JSON.parse(input ?? "{}"), { retention });
      },
      isIdempotent: (row) => this.#isIdempotent(row),
    });
  }

  /** Starts to run queued calls. */
  start(): void {
    this.#queue.start();
  }

  /**
   * Runs a call and returns its record. Never rejects because of the call itself.
   * @throws {IdempotencyConflict} if the idempotency key is in use
   */
  async run(request: CallRequest, caller: CallCaller): Promise<CallRow> {
    const row = this.#newRow(request, caller, "sync");
    const known = await this.#claimKey(row);
    if (known !== undefined) return await withContents(this.#parts.database.db, known);
    const result = await this.#execute(row, request, caller);
    return await this.#ended(row, request, caller, result);
  }

  /** Runs a call that came over another protocol, and adds its record to the journal. Never rejects. */
  async runForeign(toolCall: ToolCall, context: ToolContext, { tenant, keyId }: CallCaller): Promise<ToolResult> {
    const request = { toolName: toolCall.toolName, input: toolCall.arguments ?? toolCall.argumentsText };
    const row = this.#newRow({ ...request, sessionId: context.sessionId }, { tenant, keyId }, "sync");
    const result = await this.#executeForeign(row, toolCall, context, tenant);
    await this.#ended(row, request, { tenant, keyId }, result);
    return result;
  }

  async #executeForeign(row: CallRow, toolCall: ToolCall, context: ToolContext, tenant: Tenant): Promise<ToolResult> {
    try {
      checkActive(tenant);
      await this.#parts.tools.ensureTool(tenant.id, tenant.revision, toolCall.toolName);
      return await this.#parts.box.execute(
        { ...toolCall, id: row.id },
        { ...context, tenantId: tenant.id, timeline: true, logSourceLocations: true },
      );
    } catch (thrown) {
      return this.#toResult(row, thrown);
    }
  }

  /** Returns the record of a call that waits in the queue, for a caller that stores it together with something else. */
  toQueuedRow(request: CallRequest, caller: CallCaller): CallRow {
    return {
      ...this.#newRow(request, caller, "async"),
      ...{ state: "queued", effects: "none", started_at: null, run_at: Date.now(), attempts: 0 },
      input: JSON.stringify(request.input ?? {}),
    };
  }

  /** Runs queued calls soon. Call it when a record was added. */
  notify(): void {
    this.#queue.notify();
  }

  /** Adds a call to the queue, and returns its record. */
  async enqueue(request: CallRequest, caller: CallCaller): Promise<CallRow> {
    const row = this.toQueuedRow(request, caller);
    const known = await insertOnce(this.#parts.database.db, row);
    if (known !== undefined) return checkSame(known, row);
    this.#queue.notify();
    return row;
  }

  /** Runs a call and yields its events as they occur. A consumer that stops early cancels the call. */
  async *stream(request: CallRequest, caller: CallCaller): AsyncGenerator<CallEvent, void> {
    const row = this.#newRow(request, caller, "stream");
    const events: CallEvent[] = [];
    let wake: (() => void) | undefined;
    const push = (event: CallEvent): void => {
      events.push(event);
      wake?.();
    };
    const stop = new AbortController();
    const signal = caller.signal === undefined ? stop.signal : AbortSignal.any([caller.signal, stop.signal]);
    const running = this.#streamInto(row, request, { ...caller, signal }, push);
    try {
      for (;;) {
        const event = events.shift();
        if (event !== undefined) {
          yield event;
          if (event.event === "result") return;
          continue;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (events.length > 0) resolve();
        });
      }
    } finally {
      stop.abort();
      await running;
    }
  }

  /** Returns the record of a call, also of one that has only just ended. */
  async find(tenantId: string, id: string): Promise<CallRow | undefined> {
    await this.#journal.flush();
    const { db } = this.#parts.database;
    const row = await findCall(db, tenantId, id);
    return row && (await withContents(db, row));
  }

  /** Resolves when the records of all calls that have ended are stored. */
  async flush(): Promise<void> {
    await this.#journal.flush();
  }

  /** Returns a call that runs in this process. */
  findLive(tenantId: string, id: string): LiveCall | undefined {
    return this.#live.find(tenantId, id);
  }

  /** Cancels a call. Returns the state that it had; undefined if there is no such call. */
  async cancel(tenantId: string, id: string): Promise<CallRow["state"] | undefined> {
    // A synchronous call has no row before it ends.
    if (this.#parts.box.cancelCall(id, { tenantId })) return "running";
    const { db } = this.#parts.database;
    const before = await requestCancel(db, tenantId, id);
    if (before === "running") this.#queue.cancel(id);
    // The input of a queued call is stored as it is until the call has ended.
    if (before === "queued") await redactStoredInput(db, id, toStoredInput);
    return before;
  }

  /** Stops claiming queued calls, and resolves when those that run have ended and are stored. */
  async drain(): Promise<void> {
    await this.#queue.drain();
    await this.#journal.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
    await this.#journal[Symbol.asyncDispose]();
  }

  #newRow(request: CallRequest, { tenant, keyId }: CallCaller, mode: CallRow["mode"]): CallRow {
    const now = Date.now();
    const { idempotencyKey } = request;
    return {
      ...{ id: createId("call", now), tenant_id: tenant.id, tool_name: request.toolName, tool_version: null, mode },
      ...{ alias: request.alias ?? LIVE, state: "running", effects: "possible", key_id: keyId },
      session_id: request.sessionId ?? null,
      idempotency_key: idempotencyKey ?? null,
      request_hash: idempotencyKey === undefined ? null : requestHash(request),
      timeout_ms: request.timeoutMs ?? null,
      ...{ input: null, output: null, content: 0, error: null, logs: null, usage: null, calls: null, timeline: null },
      ...{ created_at: now, started_at: now, ended_at: null, run_at: null, lease_owner: null, lease_until: null },
      ...{ fence: 0, attempts: 1, cancel_requested: 0 },
      ...(request.version === undefined ? {} : { tool_version: request.version }),
    };
  }

  /** Stores the row of a call with an idempotency key before it runs. Returns the call that has used the key before. */
  async #claimKey(row: CallRow): Promise<CallRow | undefined> {
    if (row.idempotency_key === null) return undefined;
    // With a lease, so that a call whose server has died gets a final state.
    const leased = { ...row, lease_until: row.created_at + LONGEST_CALL_MS };
    const known = await insertOnce(this.#parts.database.db, leased);
    return known === undefined ? undefined : checkSame(known, row);
  }

  async #versionOf(
    row: Pick<CallRow, "tenant_id" | "tool_name" | "alias" | "tool_version" | "session_id">,
    tenant: Tenant,
  ): Promise<{ readonly toolVersion?: string }> {
    const { tools } = this.#parts;
    await tools.ensureTool(tenant.id, tenant.revision, row.tool_name);
    const version = row.tool_version ?? undefined;
    // The alias that every call has, and no version: the Glovebox chooses.
    if (version === undefined && row.alias === LIVE) return {};
    const toolVersion = await tools.choose(tenant.id, row.tool_name, {
      ...{ alias: row.alias, version },
      ...(row.session_id === null ? {} : { sessionId: row.session_id }),
    });
    return toolVersion === undefined ? {} : { toolVersion };
  }

  async #execute(row: CallRow, request: CallRequest, { tenant, signal }: CallCaller): Promise<ToolResult> {
    const { box } = this.#parts;
    try {
      checkActive(tenant);
      const version = await this.#versionOf(row, tenant);
      const live = this.#live.begin(tenant.id, row.id);
      const onLog = (entry: LogEntry): void => live.log(entry);
      const context = {
        ...{ ...toContext(request, tenant.id), ...version, onLog },
        ...(signal === undefined ? {} : { signal }),
      };
      return await box.execute({ id: row.id, toolName: request.toolName, arguments: request.input ?? {} }, context);
    } catch (thrown) {
      return this.#toResult(row, thrown);
    } finally {
      this.#live.end(row.id);
    }
  }

  /** Returns the result of a call that failed before it reached the Glovebox. */
  #toResult({ id, tool_name: toolName }: CallRow, thrown: unknown): ToolResult {
    const error =
      thrown instanceof ToolError ? thrown : new ToolError("INTERNAL", "The server failed", { cause: thrown });
    if (error.code === "INTERNAL") this.#parts.onError(thrown);
    return {
      ...{ callId: id, toolName, durationMs: 0, usage: NO_USAGE, logs: [], success: false },
      error: error.toData(toolName),
    };
  }

  async #ended(row: CallRow, request: CallRequest, { tenant }: CallCaller, result: ToolResult): Promise<CallRow> {
    const outcome = toOutcome(result, request.input, tenant.policy);
    const version = outcome.tool_version ?? row.tool_version;
    const ended: CallRow = { ...row, ...outcome, tool_version: version };
    this.#parts.metrics.callEnded(row.mode, result.success ? "ok" : result.error.code, result.durationMs);
    this.#parts.watch.observe(ended);
    // A call with an idempotency key has a row already.
    if (row.idempotency_key === null) await this.#journal.add(ended);
    else await finishCall(this.#parts.database.db, row, { ...outcome, tool_version: version });
    // The caller receives what the tool returned; only the stored copy is redacted.
    return { ...ended, ...toShown(result, request) };
  }

  async #streamInto(
    row: CallRow,
    request: CallRequest,
    caller: CallCaller,
    push: (event: CallEvent) => void,
  ): Promise<void> {
    let result: ToolResult | undefined;
    const live = this.#live.begin(caller.tenant.id, row.id);
    push({ event: "started", data: { id: row.id } });
    try {
      checkActive(caller.tenant);
      const version = await this.#versionOf(row, caller.tenant);
      const context = {
        ...{ ...toContext(request, caller.tenant.id), ...version, signal: caller.signal },
        onLog: (data: LogEntry) => {
          live.log(data);
          push({ event: "log", data });
        },
        onProgress: (data: Progress) => push({ event: "progress", data }),
      };
      const call = { id: row.id, toolName: request.toolName, arguments: request.input ?? {} };
      for await (const item of this.#parts.box.stream(call, context) as AsyncIterable<StreamItem>) {
        if (item.type === "result") result = item;
        else push({ event: "chunk", data: toJson(item.value) });
      }
    } catch (thrown) {
      result = this.#toResult(row, thrown);
    } finally {
      this.#live.end(row.id);
    }
    push({ event: "result", data: await this.#ended(row, request, caller, result as ToolResult) });
  }

  async #runQueued(claimed: CallRow, signal: AbortSignal): Promise<ToolResult> {
    const row = await withContents(this.#parts.database.db, claimed);
    const tenant = await findTenant(this.#parts.database.db, row.tenant_id);
    if (tenant === undefined) return this.#toResult(row, unavailable("tenant_deleted", "The tenant was deleted"));
    const request: CallRequest = {
      ...{ toolName: row.tool_name, input: JSON.parse(row.input ?? "{}"), alias: row.alias },
      ...(row.session_id === null ? {} : { sessionId: row.session_id }),
      ...(row.timeout_ms === null ? {} : { timeoutMs: row.timeout_ms }),
    };
    const result = await this.#execute(row, request, { tenant, keyId: row.key_id, signal });
    this.#parts.metrics.callEnded(row.mode, result.success ? "ok" : result.error.code, result.durationMs);
    this.#parts.watch.observe({
      ...{ tenant_id: row.tenant_id, tool_name: row.tool_name, alias: row.alias },
      tool_version: result.toolVersion === undefined ? row.tool_version : Number(result.toolVersion),
      error: result.success ? null : JSON.stringify(result.error),
    });
    return result;
  }

  async #isIdempotent(row: CallRow): Promise<boolean> {
    const tenant = await findTenant(this.#parts.database.db, row.tenant_id);
    if (tenant === undefined) return false;
    await this.#parts.tools.ensureTool(tenant.id, tenant.revision, row.tool_name);
    const tools = this.#parts.box.router.getRegisteredTools({ tenantId: row.tenant_id });
    return tools.find(({ name }) => name === row.tool_name)?.annotations?.idempotentHint === true;
  }
}

/** The idempotency key of a request was used before for something else, or its call has not ended. */
export class IdempotencyConflict extends Error {
  override readonly name = "IdempotencyConflict";
  readonly isOtherRequest: boolean;

  constructor(isOtherRequest: boolean) {
    super(
      isOtherRequest
        ? "The Idempotency-Key was used before for another request. Use a new key for each request"
        : "The call with this Idempotency-Key has not ended",
    );
    this.isOtherRequest = isOtherRequest;
  }
}

/** @throws {ToolError} TOOL_UNAVAILABLE for a tenant that may not call now */
function checkActive({ state }: Tenant): void {
  if (state === "active") return;
  const reason = state === "suspended" ? "tenant_suspended" : "tenant_deleted";
  const message = state === "suspended" ? "The tenant is suspended" : "The tenant is being deleted";
  throw unavailable(reason, message);
}

function checkSame(known: CallRow, row: CallRow): CallRow {
  if (known.request_hash !== row.request_hash) throw new IdempotencyConflict(true);
  if (row.mode === "sync" && known.ended_at === null) throw new IdempotencyConflict(false);
  return known;
}

function toShown(result: ToolResult, request: CallRequest): Pick<CallRow, "input" | "output" | "error" | "logs"> {
  return {
    input: JSON.stringify(request.input ?? {}),
    output: result.success ? JSON.stringify(toJson(result.output)) : null,
    error: result.success ? null : JSON.stringify(result.error),
    logs: JSON.stringify(result.logs),
  };
}

const NO_USAGE: ToolResult["usage"] = {
  ...{ cpuMs: 0, heapBytes: 0, peakBytes: 0, queueMs: 0, bundleMs: 0, startMs: 0, executeMs: 0, logsDropped: 0 },
  ...{ inputBytes: 0, outputBytes: 0, egressBytesOut: 0, egressBytesIn: 0 },
};
