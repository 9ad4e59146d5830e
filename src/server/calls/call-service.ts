// Runs the calls of the API: at once, streamed, or later from the queue. Each accepted call gets one record with one final state.

import {
  type CallContext,
  type Glovebox,
  LIMITS,
  type ToolCall,
  ToolError,
  type ToolResult,
} from "../../host/index.ts";
import { ApprovalService } from "../approvals/approval-service.ts";
import { rootOf } from "../ids.ts";
import { withContents } from "../records/calls/call-contents.ts";
import { listTimelines, listTree, type TreeCall } from "../records/calls/call-tree.ts";
import { type CallRow, findByKey, findCall, insertOnce, type WholeCall } from "../records/calls/calls.ts";
import type { LiveLine } from "../records/calls/live-logs.ts";
import { findTenant, type TenantRecord } from "../records/tenants/tenants.ts";
import type { ReceivedCall } from "../replicas/peers/peer-server.ts";
import { ServerCallAdmission } from "./call-admission.ts";
import { type CallCaller, type CallProgressEvent, type CallRequest, checkCaller } from "./call-request.ts";
import {
  checkActive,
  checkKeyNotRevoked,
  checkSame,
  checkToolName,
  findWritten,
  tenantDeletedError,
  toFailedResult,
} from "./call-results.ts";
import { Cancellation } from "./cancellation.ts";
import { inputTextOf, parseInput } from "./input-text.ts";
import { toNewRow } from "./new-call.ts";
import { toOutcome, toStoredParts } from "./outcome.ts";
import { CallQueue } from "./queue/call-queue.ts";
import { QueueRoom } from "./queue/queue-room.ts";
import { mayBeginLater } from "./queue/retries.ts";
import { ForwardedCalls } from "./replicas/forwarded-calls.ts";
import { LostCalls } from "./replicas/lost-calls.ts";
import { ReceivedCalls } from "./replicas/received-calls.ts";
import { elsewhere, SessionHomes } from "./replicas/session-homes.ts";
import { AwaitedCalls } from "./running/awaited-calls.ts";
import { wholeCall } from "./running/direct-call.ts";
import { DirectCalls } from "./running/direct-calls.ts";
import { type CallServiceDependencies, JournaledCallRunner } from "./running/journaled-call-runner.ts";
import type { NeededHandler, NestedCalls } from "./running/nested-calls.ts";
import { StreamedCalls } from "./running/streamed-calls.ts";
import { type TimelineSoFar, WatchedCalls } from "./running/watched-calls.ts";

export class CallService implements AsyncDisposable {
  readonly #dependencies: CallServiceDependencies;
  readonly #queue: CallQueue;
  readonly #room: QueueRoom;
  readonly #runner: JournaledCallRunner;
  readonly #admission: ServerCallAdmission;
  readonly #awaited: AwaitedCalls;
  readonly #streamed: StreamedCalls;
  readonly #cancellation: Cancellation;
  readonly #watched: WatchedCalls;
  readonly #sessions: SessionHomes;
  readonly #direct: DirectCalls;
  readonly #forwarded: ForwardedCalls;
  readonly #received: ReceivedCalls;
  readonly #added: Disposable;
  readonly approvals: ApprovalService;

  constructor(dependencies: CallServiceDependencies) {
    this.#dependencies = dependencies;
    this.#room = new QueueRoom(dependencies.database.db, dependencies.callerLimits);
    this.approvals = new ApprovalService({
      database: dependencies.database,
      glovebox: dependencies.glovebox,
      onError: dependencies.onError,
      onReleased: (callId) => this.#queue.notify([callId]),
    });
    this.#runner = new JournaledCallRunner({ ...dependencies, approvals: this.approvals });
    this.#sessions = new SessionHomes(dependencies);
    this.#admission = new ServerCallAdmission({ ...dependencies, approvals: this.approvals, sessions: this.#sessions });
    this.#watched = new WatchedCalls({
      ...dependencies,
      db: dependencies.database.db,
      live: this.#runner.live,
      timelineOf: ({ tenantId, callId }) => dependencies.glovebox.getTimeline(callId, { tenantId }),
    });
    this.#awaited = new AwaitedCalls({
      database: dependencies.database,
      watched: this.#watched,
      onError: dependencies.onError,
      cancel: (tenant, id) => this.cancel(tenant, id),
    });
    this.#forwarded = new ForwardedCalls({ ...dependencies, lost: new LostCalls(dependencies) });
    this.#direct = new DirectCalls({
      database: dependencies.database,
      admission: this.#admission,
      runner: this.#runner,
      forwarded: this.#forwarded,
      onError: dependencies.onError,
    });
    this.#received = new ReceivedCalls({ ...dependencies, direct: this.#direct, starting: this.#runner.starting });
    this.#streamed = new StreamedCalls({
      direct: this.#direct,
      awaited: this.#awaited,
      clock: dependencies.database.clock,
    });
    this.#queue = new CallQueue({
      db: dependencies.database.db,
      kind: dependencies.database.kind,
      now: () => dependencies.database.clock.now(),
      onError: dependencies.onError,
      work: dependencies.work,
      // Only replicas that share a Postgres keep sessions at one of them.
      ...(dependencies.database.kind === "postgres" ? { replicaId: dependencies.bus.replicaId } : {}),
      admit: (row) => this.#admission.admitQueued(row),
      run: (row, signal) => this.#runQueued(row, signal),
      toStored: async (row, result) => {
        const tenant = await findTenant(dependencies.database.db, row.tenant_id);
        const retention = tenant?.policy.retention ?? { callDays: 1, keepContent: false };
        const { input } = await withContents(dependencies.database.db, row);
        return {
          outcome: toOutcome(result, await parseInput(input ?? "{}"), { retention }, dependencies.database.clock.now()),
          parts: toStoredParts(result, retention.keepContent),
        };
      },
      isIdempotent: (row) => this.#admission.isIdempotent(row),
      takeRecording: (id) => this.#runner.recordings.take(id),
      // An idle replica runs them before it looks for calls by itself.
      onFull: () => void dependencies.bus.publish({ type: "queue" }).catch(dependencies.onError),
    });
    this.#cancellation = new Cancellation({
      ...dependencies,
      queue: this.#queue,
      journal: this.#runner.journal,
      forwarded: this.#forwarded,
    });
    this.#added = dependencies.bus.subscribe("queue", () => this.#queue.claimSoon());
  }

  /** Chooses the version of a call, and decides whether it needs an approval. @throws {ToolError} TOOL_UNAVAILABLE */
  versionOf(...args: Parameters<ServerCallAdmission["versionOf"]>): ReturnType<ServerCallAdmission["versionOf"]> {
    return this.#admission.versionOf(...args);
  }

  /** Starts to run queued calls. */
  start(): void {
    this.#queue.start();
    this.approvals.start();
  }

  /**
   * Runs a call and returns its record. Never rejects because of the call itself. A call that needs an approval is stored, and runs later.
   * @throws {IdempotencyConflict} if the idempotency key is in use
   * @throws {ToolError} QUOTA_EXCEEDED if too many calls of the tenant wait for an approval
   */
  async run(request: CallRequest, caller: CallCaller): Promise<WholeCall> {
    const answer = await this.#direct.run({ row: toNewRow(request, this.#keysOf(caller), "sync"), request, caller });
    return "waiting" in answer ? answer.waiting : answer.ended;
  }

  /** Runs a call that another replica passes on. Never rejects. */
  async runReceived(call: ReceivedCall): Promise<void> {
    await this.#received.run(call);
  }

  #keysOf({ tenant, keyId }: CallCaller): Parameters<typeof toNewRow>[1] {
    return { tenantId: tenant.id, keyId, now: this.#dependencies.database.clock.now() };
  }

  /** Runs a call that came over MCP, and adds its record to the journal. Never rejects. */
  async runForeign(toolCall: ToolCall, context: CallContext, caller: CallCaller): Promise<ToolResult> {
    const { toolName } = toolCall;
    const request = { toolName, input: toolCall.arguments ?? toolCall.argumentsText, sessionId: context.sessionId };
    const row = toNewRow(request, this.#keysOf(caller), "sync");
    try {
      checkCaller(caller);
      checkToolName(toolName);
      const joined = await this.#admission.findUndelivered(request, caller);
      const admitted = joined ?? (await this.#admission.admit(row, request, caller, "mcp"));
      // What came over MCP has no session.
      if ("home" in admitted) throw elsewhere(row);
      if ("waiting" in admitted) return await this.#awaited.awaitResult(admitted.waiting, context, caller);
      const result =
        "failed" in admitted
          ? admitted.failed
          : await this.#runner.executeForeign(
              row,
              { toolCall: { ...toolCall, id: row.id }, context },
              caller,
              admitted,
            );
      await this.#runner.ended(row, request, caller, result);
      return result;
    } catch (thrown) {
      return toFailedResult(row, thrown, this.#dependencies.onError);
    }
  }

  /** Runs a call of a tool that the tenant has not deployed, such as those of its code mode, and adds its record. Never rejects. */
  async runOn(
    host: Pick<Glovebox, "execute">,
    toolCall: ToolCall,
    context: CallContext,
    caller: CallCaller,
  ): Promise<ToolResult> {
    const { toolName } = toolCall;
    const request = { toolName, input: toolCall.arguments ?? toolCall.argumentsText, sessionId: context.sessionId };
    const row = toNewRow(request, this.#keysOf(caller), "sync");
    try {
      checkCaller(caller);
      checkToolName(toolName);
      checkActive(caller.tenant);
      const result = await this.#runner.executeForeign(
        row,
        { toolCall: { ...toolCall, id: row.id }, context },
        caller,
        {},
        host,
      );
      await this.#runner.ended(row, request, caller, result);
      return result;
    } catch (thrown) {
      return toFailedResult(row, thrown, this.#dependencies.onError);
    }
  }

  /** Returns the record of a call that waits in the queue, for a caller that stores it together with something else. */
  toQueuedRow(request: CallRequest, caller: CallCaller): CallRow {
    const row = toNewRow(request, this.#keysOf(caller), "async");
    return {
      ...row,
      state: "queued",
      effects: "none",
      started_at: null,
      run_at: row.created_at,
      attempts: 0,
      input: inputTextOf(request.input),
    };
  }

  /** Runs queued calls soon. Call it when their records were added. */
  notify(ids: readonly string[]): void {
    this.#queue.notify(ids);
  }

  /**
   * Checks that the queue has room for calls of a tenant and a key, and that neither has used up a quota.
   * @throws {ToolError} QUOTA_EXCEEDED
   */
  async checkQueue(caller: CallCaller, calls: number): Promise<void> {
    await this.#dependencies.quotaChecks.check(caller);
    await this.#room.check(caller, calls);
  }

  /**
   * Adds a call to the queue, and returns its record.
   * @throws {ToolError} QUOTA_EXCEEDED if too many calls of the tenant or the key wait, or one of their quotas is used up
   */
  async enqueue(request: CallRequest, caller: CallCaller): Promise<CallRow> {
    const row = this.toQueuedRow(request, caller);
    const admitted = await this.#admission.admit(row, request, caller);
    if ("waiting" in admitted) return admitted.waiting;
    // A call that cannot run, such as one of an unknown tool, is queued too: its failure is its result.
    const known = (await this.#takeRoom(caller, row)) ?? (await insertOnce(this.#dependencies.database.db, row));
    if (known !== undefined) return checkSame(known, row);
    this.#queue.notify([row.id]);
    return row;
  }

  /** Returns the call that has the same idempotency key already, if no other one may be added. @throws {ToolError} QUOTA_EXCEEDED */
  async #takeRoom(caller: CallCaller, row: CallRow): Promise<CallRow | undefined> {
    try {
      await this.#dependencies.quotaChecks.check(caller);
    } catch (thrown) {
      const known = row.idempotency_key === null ? undefined : await findByKey(this.#dependencies.database.db, row);
      if (known === undefined) throw thrown;
      return known;
    }
    return await this.#room.take(caller, row);
  }

  /** Runs a call and yields its events as they occur. A consumer that stops early cancels the call. */
  stream(request: CallRequest, caller: CallCaller): AsyncGenerator<CallProgressEvent, void> {
    return this.#streamed.stream(request, caller);
  }

  /** Returns the record of a call, also of one that has only just ended. */
  async find(tenantId: string, id: string): Promise<WholeCall | undefined> {
    await this.#runner.journal.written();
    const row = await findWritten(this.#dependencies.database, tenantId, id);
    return row && (await wholeCall(this.#dependencies.database, row));
  }

  /** Returns the record of a call if it is stored. One that runs synchronously has none, so it is not looked for again. */
  async findStored(tenantId: string, id: string): Promise<WholeCall | undefined> {
    await this.#runner.journal.written();
    const row = await findCall(this.#dependencies.database.db, tenantId, id);
    return row && (await wholeCall(this.#dependencies.database, row));
  }

  /** Resolves when the records of all calls that have ended are stored. @throws {ToolError} OVERLOADED if the database does not take them */
  async flush(): Promise<void> {
    await this.#runner.journal.written();
  }

  /** Returns whether a call runs in any replica of the server. */
  async isRunning(tenantId: string, id: string): Promise<boolean> {
    return await this.#watched.isRunning({ tenantId, callId: id });
  }

  /** Returns whether a call runs in any replica, and what it has done so far. */
  async timelineSoFar(tenantId: string, id: string): Promise<TimelineSoFar> {
    return await this.#watched.timeline({ tenantId, callId: id });
  }

  /**
   * Yields the log lines of a call that runs in any replica, until it has ended or the signal aborts.
   * @param from number of the first line, unless it is no longer kept
   */
  linesOf(tenantId: string, id: string, signal: AbortSignal, from?: number): AsyncGenerator<LiveLine, void> {
    return this.#watched.lines({ tenantId, callId: id }, signal, from);
  }

  /** Returns the timelines of nested calls that have ended, in the given order, as many as have 16 MiB together. */
  async findTimelines(tenantId: string, ids: readonly string[]): ReturnType<typeof listTimelines> {
    await this.#runner.journal.written();
    return await listTimelines(this.#dependencies.database, tenantId, ids);
  }

  /** Returns a call of a client and those below it, as far as they have rows. @param id of any call in the tree */
  async findTree(tenantId: string, id: string): Promise<readonly TreeCall[]> {
    await this.#runner.journal.written();
    return await listTree(this.#dependencies.database, { tenantId, rootId: rootOf(id) }, LIMITS.nestedCalls.max);
  }

  /** Cancels a call of a tenant. Returns the state that it had; undefined if there is no such call. */
  async cancel(tenant: Pick<TenantRecord, "id" | "policy">, id: string): Promise<CallRow["state"] | undefined> {
    return await this.#cancellation.cancel(tenant, id);
  }

  /** Lets other replicas start the sessions of this one anew. Called when this one accepts no further calls. */
  async releaseSessions(): Promise<void> {
    await this.#sessions.release();
  }

  /** Resolves when the calls that were accepted have begun to run. Called when no further ones are accepted. @param maxMs longest wait */
  async begun(maxMs: number): Promise<void> {
    await this.#runner.starting.settled(maxMs);
  }

  /**
   * Stops claiming queued calls, and resolves when those that run have ended and are stored.
   * @param drainMs longest time in ms for which calls may go on that were passed on to other replicas
   */
  async drain(drainMs: number): Promise<void> {
    await Promise.all([this.#queue.drain(), this.#forwarded.drain(drainMs)]);
    await this.#runner.journal.flush();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#added[Symbol.dispose]();
    this.#cancellation[Symbol.dispose]();
    this.#sessions[Symbol.dispose]();
    await this.#forwarded[Symbol.asyncDispose]();
    await this.#watched[Symbol.asyncDispose]();
    await this.approvals[Symbol.asyncDispose]();
    await this.#queue[Symbol.asyncDispose]();
    await this.#runner.journal[Symbol.asyncDispose]();
  }

  /**
   * Observes the calls that a call makes, so that each gets a record.
   * @param onNeeded as in {@link JournaledCallRunner.nestedCallsOf}
   */
  nestedCallsOf(tenant: TenantRecord, keyId: string, onNeeded?: NeededHandler): NestedCalls {
    return this.#runner.nestedCallsOf(tenant, keyId, onNeeded);
  }

  /** Runs a claimed call. Rejects if the database fails before the call begins. */
  async #runQueued(claimed: CallRow, signal: AbortSignal): Promise<ToolResult> {
    const row = await withContents(this.#dependencies.database.db, claimed);
    const tenant = await findTenant(this.#dependencies.database.db, row.tenant_id);
    if (tenant === undefined) return toFailedResult(row, tenantDeletedError(), this.#dependencies.onError);
    const request: CallRequest = {
      toolName: row.tool_name,
      input: await parseInput(row.input ?? "{}"),
      alias: row.alias,
      ...(row.session_id === null ? {} : { sessionId: row.session_id }),
      ...(row.timeout_ms === null ? {} : { timeoutMs: row.timeout_ms }),
    };
    const result = await this.#runClaimed(row, request, { tenant, keyId: row.key_id, signal });
    // A call that could not begin runs later, and counts then.
    if (!mayBeginLater(result, signal.aborted)) await this.#reportQueued(row, result);
    return result;
  }

  /** Tells the parts that follow calls about one from the queue. Never rejects, because the call has run. */
  async #reportQueued(row: CallRow, result: ToolResult): Promise<void> {
    try {
      // The calls that it made are stored before its own end.
      if (result.calls !== undefined) await this.#runner.journal.flush();
      this.#dependencies.metrics.callEnded(row.mode, result.success ? "ok" : result.error.code, result.durationMs);
      this.#dependencies.watch.observe({
        tenant_id: row.tenant_id,
        tool_name: row.tool_name,
        alias: row.alias,
        tool_version: result.toolVersion === undefined ? row.tool_version : Number(result.toolVersion),
        error: result.success ? null : JSON.stringify(result.error),
      });
      this.#awaited.settle(row.id, result);
    } catch (thrown) {
      this.#dependencies.onError(thrown);
    }
  }

  async #runClaimed(row: CallRow, request: CallRequest, caller: CallCaller): Promise<ToolResult> {
    const { tenant } = caller;
    try {
      checkActive(tenant);
      await checkKeyNotRevoked(this.#dependencies.database.db, row);
      const approved = row.approval_id === null ? undefined : await this.approvals.pinsOf(row);
      const { needed, ...admission } = await this.#admission.versionOf(row, tenant);
      // The policy may have changed since the call was admitted.
      if (approved === undefined && needed !== undefined)
        throw new ToolError("APPROVAL_REQUIRED", `The call of "${row.tool_name}" needs an approval and was not run`);
      await this.#sessions.check(row);
      return await this.#runner.execute(row, request, caller, approved ?? admission);
    } catch (thrown) {
      if (!(thrown instanceof ToolError)) throw thrown;
      return toFailedResult(row, thrown, this.#dependencies.onError);
    }
  }
}
