// The methods of the client that concern one tenant, each of which is one route of the HTTP API.
import { isNetworkError, isTemporary, networkError, noResult } from "./requests/api-error.ts";
import { checkKind, checkOptions, numberSegment, segment } from "./requests/check-arguments.ts";
import type { ApiTransport } from "./requests/transport.ts";
import type {
  ApiKey,
  ApiKeyWithUse,
  Approval,
  AuditEntry,
  Call,
  CallApproval,
  CallEvent,
  CallInput,
  CallListFilter,
  CallTimeline,
  CreatedApiKey,
  CreatedTrigger,
  CreatedWebhook,
  Delivery,
  Deployed,
  NewKey,
  NewSchedule,
  NewTrigger,
  Problem,
  Quotas,
  Rehearsal,
  RejectedCall,
  Release,
  Replay,
  Run,
  RunAnswer,
  RunEntry,
  RunInput,
  RunListFilter,
  RunningCall,
  RunSummary,
  Schedule,
  Secret,
  StartRunOptions,
  StoredValue,
  Tenant,
  ToolSummary,
  ToolVersion,
  TreeCall,
  Trigger,
  Usage,
  Webhook,
} from "./types.ts";

const FILTERS = {
  callApprovals: { state: "a string" },
  calls: { tool: "a string", state: "a string", limit: "a number" },
  runs: { kind: "a string", tool: "a string", state: "a string", wait: "a string" },
  values: { prefix: "a string" },
  usage: { from: "a number", until: "a number", tool: "a string", by: "a string" },
} as const;
const CALL_FIELDS = { idempotencyKey: "a string that is not empty", signal: "an AbortSignal" } as const;
const RUN_FIELDS = { ...CALL_FIELDS, wait: "true or false" } as const;
const CHANGE_FIELDS = { ifMatch: "a string that is not empty" } as const;
const RELEASE_FIELDS = { ...CHANGE_FIELDS, rollback: "an object, or null" } as const;
const DELETE_FIELDS = { rewrite: "true or false" } as const;
const VALUE_FIELDS = { expiresAt: "a number", ifVersion: "a string, or null" } as const;
const SIGNAL_FIELDS = { signal: "an AbortSignal" } as const;

/** Options of a change. */
export interface ChangeOptions {
  /**
   * The `etag` of what was read. If it has changed since, the method rejects with the code PRECONDITION_FAILED, and nothing has changed. After a
   * network error, the request is then not repeated. Default: the change is made in any case
   */
  readonly ifMatch?: string | undefined;
}

/** Options of a value that is set. */
export interface SetValueOptions {
  /** Time in ms since 1970 after which the value no longer exists. Default: it does not expire */
  readonly expiresAt?: number | undefined;
  /**
   * The `version` that the stored value must have; null: there must be none. Otherwise the method rejects with the code CONFLICT, and nothing has
   * changed. After a network error, the request is then not repeated. Default: the value is set in any case
   */
  readonly ifVersion?: string | null | undefined;
}

/** Returns the options of a request that changes something. One with a condition is not repeated: the first one can have made the change. */
function toChange(
  options: ChangeOptions,
  isSafe: boolean,
): { readonly isSafe: boolean; readonly headers: { readonly [name: string]: string } } {
  checkOptions(options, "options", CHANGE_FIELDS);
  const { ifMatch } = options;
  return ifMatch === undefined ? { isSafe, headers: {} } : { isSafe: false, headers: { "if-match": ifMatch } };
}

function toReason(reason: string | undefined): { readonly reason?: string | undefined } {
  if (reason !== undefined) checkKind(reason, "reason", "a string");
  return { reason };
}

/** A call that failed has a status of its own, but its body is the call. */
const isCall = (_status: number, body: unknown): boolean =>
  typeof body === "object" && body !== null && String((body as { readonly id?: unknown }).id).startsWith("call_");

/**
 * The methods that concern one tenant.
 *
 * Every method rejects with an {@link ApiError} if the server answers with an error, and with the code NETWORK if there
 * is no complete response, TIMEOUT if it takes too long, INVALID_RESPONSE if it is not one of the API, or
 * RESPONSE_TOO_LARGE. Common codes are UNAUTHENTICATED and FORBIDDEN for the key, NOT_FOUND for a name or an id,
 * INVALID for a field, and RATE_LIMITED. An invalid argument is a `TypeError` whose `code` is PARAM_INVALID. A method
 * that yields a list throws these errors while the list is read. `@throws` names only what a method has in addition.
 * @example
 * ```typescript
 * import { createClient } from "glovebox/client";
 *
 * const client = createClient({ url: "http://127.0.0.1:7070", key: process.env.GLOVEBOX_API_KEY ?? "" });
 * const tenant = client.tenant("acme");
 * await tenant.deploy({ name: "shout", source: "export default ({ text }) => text.toUpperCase()" });
 * const call = await tenant.call("shout", { input: { text: "hello" } });
 * console.log(call.state, call.output);
 * for await (const { id, tool } of tenant.calls({ state: "failed" })) console.log(id, tool);
 * ```
 */
export class TenantClient {
  readonly #client: ApiTransport;
  readonly #path: string;

  /** @internal use `client.tenant(id)` */
  constructor(client: ApiTransport, path: string) {
    this.#client = client;
    this.#path = path;
  }

  /** Returns the tenant with its state and its policy. */
  async get(): Promise<Tenant> {
    return await this.#client.request("GET", this.#path);
  }

  /**
   * Changes the tenant. `policy` replaces the one before as a whole: with `ifMatch`, it does not undo the change of another client. A suspended
   * tenant's calls are denied, and those that run are cancelled.
   * @throws {ApiError} PRECONDITION_FAILED if the tenant has changed since it was read
   */
  async update(
    changes: { readonly name?: string; readonly state?: "active" | "suspended"; readonly policy?: object },
    options: ChangeOptions = {},
  ): Promise<Tenant> {
    return await this.#client.request("PATCH", this.#path, { body: changes, ...toChange(options, false) });
  }

  /**
   * Deletes the tenant with everything that it owns.
   * @param options `rewrite`: whether Postgres rewrites its tables, so that none of the tenant's bytes remain in their files. Each table is
   *   locked meanwhile. SQLite does so always. Default: the option `vacuumFull` of the server
   */
  async delete(options: { readonly rewrite?: boolean } = {}): Promise<{ readonly receipt: object }> {
    checkOptions(options, "options", DELETE_FIELDS);
    const { rewrite } = options;
    const query = rewrite === undefined ? {} : { rewrite: String(rewrite) };
    return await this.#client.request("DELETE", this.#path, { query });
  }

  /** Creates an API key of the tenant, which is shown only in this response. */
  async createKey(key: NewKey): Promise<CreatedApiKey> {
    return await this.#client.request("POST", `${this.#path}/keys`, { body: key });
  }

  /** Yields the API keys of the tenant, without the keys themselves. */
  keys(): AsyncGenerator<ApiKey, void> {
    return this.#client.list(`${this.#path}/keys`);
  }

  /** Returns an API key of the tenant, with what it uses of its limits now. */
  async key(id: string): Promise<ApiKeyWithUse> {
    return await this.#client.request("GET", `${this.#path}/keys/${segment(id)}`);
  }

  /**
   * Changes the limits of an API key: each member replaces the one before as a whole, null removes it, and what is left out stays.
   * @throws {ApiError} CONFLICT for a key that was revoked or has expired; FORBIDDEN for limits that are higher than those of the key that sends the
   *   change; PRECONDITION_FAILED if the limits have changed since the key was read
   */
  async updateKey(
    id: string,
    changes: Partial<Pick<ApiKey, "rateLimit" | "limits" | "quotas" | "maxAsyncCalls">>,
    options: ChangeOptions = {},
  ): Promise<ApiKey> {
    return await this.#client.request("PATCH", `${this.#path}/keys/${segment(id)}`, {
      body: changes,
      ...toChange(options, true),
    });
  }

  /** Revokes an API key. Requests with it are denied. */
  async revokeKey(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/keys/${segment(id)}`);
  }

  /**
   * Deploys a tool: `{ source }` or `{ files, entry }`, with the options of the API.
   * @throws {ApiError} BUNDLE_FAILED for code that cannot be built; PARAM_INVALID for an invalid tool;
   *   CAPABILITY_DENIED for a capability or a package that the policy does not allow; QUOTA_EXCEEDED for too many tools
   *   or versions, or too much stored data
   */
  async deploy(upload: object): Promise<Deployed> {
    return await this.#client.request("POST", `${this.#path}/tools`, { body: upload });
  }

  /** Yields the tools that were deployed. */
  tools(): AsyncGenerator<ToolSummary, void> {
    return this.#client.list(`${this.#path}/tools`);
  }

  /**
   * Deletes a tool with all its versions and releases.
   * @throws {ApiError} CONFLICT while runs of it have not ended
   */
  async deleteTool(tool: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/tools/${segment(tool)}`);
  }

  /** Yields the versions of a tool. */
  versions(tool: string): AsyncGenerator<ToolVersion, void> {
    return this.#client.list(`${this.#path}/tools/${segment(tool)}/versions`);
  }

  /** Returns a version of a tool. */
  async version(tool: string, version: number): Promise<ToolVersion> {
    return await this.#client.request("GET", this.#versionPath(tool, version));
  }

  /** Lists the versions that wait for approval. */
  approvals(): AsyncGenerator<Approval, void> {
    return this.#client.list(`${this.#path}/approvals`, { kind: "version" });
  }

  /**
   * Approves what a version requests, so that it can run.
   * @throws {ApiError} CONFLICT for a version that does not wait for approval
   */
  async approve(tool: string, version: number): Promise<ToolVersion> {
    return await this.#client.request("POST", `${this.#versionPath(tool, version)}/approve`);
  }

  /**
   * Denies what a version requests, so that it never runs.
   * @throws {ApiError} CONFLICT for a version that does not wait for approval
   */
  async deny(tool: string, version: number): Promise<ToolVersion> {
    return await this.#client.request("POST", `${this.#versionPath(tool, version)}/deny`);
  }

  /** Returns the code of a version as it runs: the bundle of a JavaScript tool, or the files of a Python tool. */
  async bundle(tool: string, version: number): Promise<object> {
    return await this.#client.request("GET", `${this.#versionPath(tool, version)}/bundle`);
  }

  /**
   * Deletes a version that nothing needs any more, with its code.
   * @throws {ApiError} CONFLICT for the latest version, and while an alias runs it or calls or runs of it have not ended
   */
  async deleteVersion(tool: string, version: number): Promise<void> {
    await this.#client.request("DELETE", this.#versionPath(tool, version));
  }

  #versionPath(tool: string, version: number): string {
    return `${this.#path}/tools/${segment(tool)}/versions/${numberSegment(version)}`;
  }

  /**
   * Sets which versions an alias runs, and their shares.
   * @param options `rollback`: when the release goes back by itself; null for never. Default: as before
   * @throws {ApiError} CONFLICT for a version that is not approved; PRECONDITION_FAILED if the release has changed since it was read
   */
  async setRelease(
    tool: string,
    alias: string,
    versions: readonly { readonly version: number; readonly weight: number }[],
    options: ChangeOptions & { readonly rollback?: Release["rollback"] | undefined } = {},
  ): Promise<Release> {
    checkOptions(options, "options", RELEASE_FIELDS);
    const { rollback, ifMatch } = options;
    return await this.#client.request("PUT", this.#releasePath(tool, alias), {
      body: { versions, ...(rollback === undefined ? {} : { rollback }) },
      ...toChange({ ifMatch }, true),
    });
  }

  /**
   * Sets an alias to what it ran before its latest change.
   * @throws {ApiError} CONFLICT if there is nothing to go back to, or its version was deleted; PRECONDITION_FAILED if
   *   the release has changed since it was read
   */
  async rollback(tool: string, alias: string, options: ChangeOptions = {}): Promise<Release> {
    return await this.#client.request("POST", `${this.#releasePath(tool, alias)}/rollback`, toChange(options, false));
  }

  /** Deletes an alias with its history. Calls that name it fail from now on. */
  async deleteRelease(tool: string, alias: string): Promise<void> {
    await this.#client.request("DELETE", this.#releasePath(tool, alias));
  }

  #releasePath(tool: string, alias: string): string {
    return `${this.#path}/tools/${segment(tool)}/releases/${segment(alias)}`;
  }

  /**
   * Calls a tool, and returns the call when it has ended, also if it failed.
   * @param options `idempotencyKey`: with it, the request is repeated after a network error, and the tool still runs at most once
   * @throws {ApiError} CONFLICT if the first request with this key has not ended, or was another request. The error of a call that failed is in
   *   the returned call
   */
  async call(
    tool: string,
    call: CallInput = {},
    options: { readonly idempotencyKey?: string | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Call> {
    checkOptions(options, "options", CALL_FIELDS);
    const { idempotencyKey, signal } = options;
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/calls`, {
      body: call,
      accept: isCall,
      signal,
      ...(idempotencyKey === undefined ? {} : { headers: { "idempotency-key": idempotencyKey }, isSafe: true }),
    });
  }

  /**
   * Adds a call to the queue, and returns it at once. The request is safe to repeat, because it has an idempotency key.
   * @throws {ApiError} CONFLICT for a key that another request has used; QUOTA_EXCEEDED if too many calls wait; INVALID for an invalid call
   */
  async enqueue(tool: string, call: CallInput = {}, idempotencyKey: string = crypto.randomUUID()): Promise<Call> {
    checkKind(idempotencyKey, "idempotencyKey", "a string that is not empty");
    const headers = { prefer: "respond-async", "idempotency-key": idempotencyKey };
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/calls`, {
      body: call,
      headers,
      isSafe: true,
    });
  }

  /**
   * Makes up to 100 calls at once, and returns them in the same order when all have ended, also those that failed, and those that were rejected
   * with the state `rejected`.
   */
  async batch(
    calls: readonly (CallInput & { readonly tool: string; readonly idempotencyKey?: string })[],
    options: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<readonly (Call | RejectedCall)[]> {
    checkKind(calls, "calls", "a list");
    checkOptions(options, "options", SIGNAL_FIELDS);
    const { signal } = options;
    const isSafe = calls.every((call) => call?.idempotencyKey !== undefined);
    return await this.#client.items("POST", `${this.#path}/calls`, { body: { calls }, isSafe, signal });
  }

  /**
   * Calls a tool, and yields its log lines, chunks and result as they arrive. The last event is always the result. A call whose connection is
   * lost is cancelled, unless it waits for an approval or was approved: then its events go on over another connection.
   * @throws {ApiError} NETWORK if the connection is lost; NO_RESULT if the stream ends before the result. `details.callId` of both is the call, if
   *   it had begun. INTERNAL if the server fails while the call runs
   */
  async *stream(tool: string, call: CallInput = {}, signal?: AbortSignal): AsyncGenerator<CallEvent, void> {
    let callId: string | undefined;
    let waiting: string | undefined;
    let lines = 0;
    const path = `${this.#path}/tools/${segment(tool)}/calls`;
    try {
      for await (const { id: _id, ...event } of this.#client.events("POST", path, { body: call, signal })) {
        if (event.event === "started") callId = event.data.id;
        if (event.event === "approval") waiting = event.data.callId;
        if (event.event === "log") lines += 1;
        yield event;
        if (event.event === "result") return;
      }
    } catch (thrown) {
      if (waiting === undefined && isNetworkError(thrown)) throw networkError(thrown.message, thrown.cause, { callId });
      if (waiting === undefined || !isTemporary(thrown)) throw thrown;
    }
    // The server does not keep a stream open as long as a person may take to approve the call.
    if (waiting === undefined) throw noResult("The stream of the call ended without its result", { callId });
    yield* this.#client.follow(`${this.#path}/calls/${segment(waiting)}/events`, {
      signal,
      from: lines,
      isKnown: true,
    });
  }

  /** Yields calls, the newest first. */
  calls(filter: CallListFilter = {}): AsyncGenerator<Call, void> {
    checkOptions(filter, "filter", FILTERS.calls);
    return this.#client.list(`${this.#path}/calls`, { ...filter });
  }

  /** Returns the calls that run in the process that answers. Those that a client waits for have no record before they end. */
  async runningCalls(): Promise<readonly RunningCall[]> {
    const path = `${this.#path}/running-calls`;
    return await this.#client.items("GET", path);
  }

  /** Returns a call with its logs. */
  async getCall(id: string): Promise<Call> {
    return await this.#client.request("GET", `${this.#path}/calls/${segment(id)}`);
  }

  /**
   * Yields the log lines of a call while it runs, and its result, which is always the last event. After a stream that has ended or whose
   * connection was lost, another one goes on with the next line, at growing intervals of up to about 10 s, until the signal aborts.
   * @throws {ApiError} NETWORK only if the first stream cannot be opened; NO_RESULT if the server loses the call: the process that ran it has
   *   ended, and left no record
   */
  watch(id: string, signal?: AbortSignal): AsyncGenerator<CallEvent, void> {
    return this.#client.follow(`${this.#path}/calls/${segment(id)}/events`, { signal });
  }

  /**
   * Returns what a call did and when: its stages, each use of a capability, and its nested calls. While it runs (`isOver` is false), what it has
   * done so far and what is under way, with `isOpen`.
   */
  async timeline(id: string): Promise<CallTimeline> {
    return await this.#client.request("GET", `${this.#path}/calls/${segment(id)}/timeline`);
  }

  /** Returns a call and all calls below it, each before those that it made. */
  async callTree(id: string): Promise<readonly TreeCall[]> {
    const path = `${this.#path}/calls/${segment(id)}/tree`;
    return await this.#client.items("GET", path);
  }

  /**
   * Cancels a call that waits or runs.
   * @throws {ApiError} CONFLICT for a call that has ended
   */
  async cancelCall(id: string): Promise<void> {
    await this.#client.request("POST", `${this.#path}/calls/${segment(id)}/cancel`);
  }

  /** Lists calls that need an approval. @param filter `state`: default: `pending` */
  callApprovals(
    filter: { readonly state?: CallApproval["state"] | undefined } = {},
  ): AsyncGenerator<CallApproval, void> {
    checkOptions(filter, "filter", FILTERS.callApprovals);
    return this.#client.list(`${this.#path}/approvals`, { kind: "call", state: filter.state });
  }

  /** Returns the approval of a call. @param id of the approval */
  async callApproval(id: string): Promise<CallApproval> {
    return await this.#client.request("GET", `${this.#path}/approvals/${segment(id)}`);
  }

  /**
   * Approves a call, which then runs once.
   * @param reason for the audit log
   * @throws {ApiError} CONFLICT for a call that was decided before
   */
  async approveCall(id: string, reason?: string): Promise<CallApproval> {
    return await this.#client.request("POST", `${this.#path}/approvals/${segment(id)}/approve`, {
      body: toReason(reason),
    });
  }

  /**
   * Denies a call.
   * @param reason for its caller and the audit log
   * @throws {ApiError} CONFLICT for a call that was decided before
   */
  async denyCall(id: string, reason?: string): Promise<CallApproval> {
    return await this.#client.request("POST", `${this.#path}/approvals/${segment(id)}/deny`, {
      body: toReason(reason),
    });
  }

  /**
   * Returns the recording of a call, which `glovebox.replay()` runs again.
   * @throws {ApiError} NOT_FOUND also for a call without a recording
   */
  async recording(id: string): Promise<{ readonly format: string; readonly [field: string]: unknown }> {
    return await this.#client.request("GET", `${this.#path}/calls/${segment(id)}/recording`);
  }

  /** Runs a recorded call again without its capabilities. Default: the recorded version and input. */
  async replay(id: string, changes: { readonly version?: number; readonly input?: unknown } = {}): Promise<Replay> {
    return await this.#client.request("POST", `${this.#path}/calls/${segment(id)}/replays`, { body: changes });
  }

  /** Replays recorded calls of a tool on another version. Default: the newest 500 of the last 7 days. */
  async rehearse(
    tool: string,
    rehearsal: { readonly version: number; readonly since?: number; readonly sample?: number },
  ): Promise<Rehearsal> {
    return await this.#client.request("POST", `${this.#path}/tools/${segment(tool)}/rehearsals`, { body: rehearsal });
  }

  /**
   * Starts a durable run of a tool, and returns it when it waits or has ended.
   * @throws {ApiError} CONFLICT for a key that another request has used; QUOTA_EXCEEDED if too many runs are open; UNAVAILABLE while the
   *   server shuts down
   */
  async startRun(tool: string, run: RunInput = {}, options: StartRunOptions = {}): Promise<Run> {
    // Copying a promise below would leave out what it resolves with.
    checkKind(tool, "tool", "a string that is not empty");
    checkKind(run, "run", "a plain object");
    checkOptions(options, "options", RUN_FIELDS);
    const { idempotencyKey, wait, signal } = options;
    const headers = {
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      ...(wait === false ? { prefer: "respond-async" } : {}),
    };
    const isSafe = idempotencyKey !== undefined;
    return await this.#client.request("POST", `${this.#path}/runs`, {
      body: { tool, ...run },
      headers,
      isSafe,
      signal,
    });
  }

  /** Yields durable runs, without their inputs and outputs. */
  runs(filter: RunListFilter = {}): AsyncGenerator<RunSummary, void> {
    checkOptions(filter, "filter", FILTERS.runs);
    return this.#client.list(`${this.#path}/runs`, { ...filter });
  }

  /** Returns a durable run. */
  async getRun(id: string): Promise<Run> {
    return await this.#client.request("GET", `${this.#path}/runs/${segment(id)}`);
  }

  /** Yields the journal of a run, in order. */
  runJournal(id: string): AsyncGenerator<RunEntry, void> {
    return this.#client.list(`${this.#path}/runs/${segment(id)}/journal`);
  }

  /**
   * Approves what a run waits for, and returns the run when it waits again or has ended.
   * @param wait id of the wait
   * @throws {ApiError} CONFLICT if the run has ended or does not wait for this
   */
  async approveRun(id: string, wait: number, reason?: string): Promise<Run> {
    const path = `${this.#path}/runs/${segment(id)}/waits/${numberSegment(wait)}/approve`;
    return await this.#client.request("POST", path, { body: toReason(reason) });
  }

  /**
   * Denies what a run waits for.
   * @param reason for the tool and the audit log
   * @throws {ApiError} CONFLICT if the run has ended or does not wait for this
   */
  async denyRun(id: string, wait: number, reason?: string): Promise<Run> {
    const path = `${this.#path}/runs/${segment(id)}/waits/${numberSegment(wait)}/deny`;
    return await this.#client.request("POST", path, { body: toReason(reason) });
  }

  /**
   * Answers an elicitation that a run waits for.
   * @throws {ApiError} CONFLICT if the run has ended or does not wait for this
   */
  async answerRun(id: string, wait: number, answer: RunAnswer): Promise<Run> {
    const path = `${this.#path}/runs/${segment(id)}/waits/${numberSegment(wait)}/answer`;
    return await this.#client.request("POST", path, { body: answer });
  }

  /**
   * Gives a run an event. One that no wait needs yet is kept.
   * @throws {ApiError} CONFLICT for a run that has ended
   */
  async sendRunEvent(id: string, name: string, value?: unknown): Promise<Run> {
    checkKind(name, "name", "a string that is not empty");
    return await this.#client.request("POST", `${this.#path}/runs/${segment(id)}/events`, { body: { name, value } });
  }

  /**
   * Cancels a durable run. What it has registered with `ctx.onRollback` is undone.
   * @throws {ApiError} CONFLICT for a run that has ended
   */
  async cancelRun(id: string): Promise<Run> {
    return await this.#client.request("POST", `${this.#path}/runs/${segment(id)}/cancel`);
  }

  /** Yields the secrets, without their values. */
  secrets(): AsyncGenerator<Secret, void> {
    return this.#client.list(`${this.#path}/secrets`);
  }

  /** Sets a secret. Its value is sent only to these hosts. */
  async setSecret(
    name: string,
    secret: { readonly value: string; readonly hosts: readonly string[] },
  ): Promise<Secret> {
    return await this.#client.request("PUT", `${this.#path}/secrets/${segment(name)}`, { body: secret, isSafe: true });
  }

  /** Deletes a secret. */
  async deleteSecret(name: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/secrets/${segment(name)}`);
  }

  /** Yields the schedules. */
  schedules(): AsyncGenerator<Schedule, void> {
    return this.#client.list(`${this.#path}/schedules`);
  }

  /**
   * Creates a schedule.
   * @throws {ApiError} NAME_TAKEN for a name that another schedule has; QUOTA_EXCEEDED for an input that the tenant may not store
   */
  async createSchedule(schedule: NewSchedule): Promise<Schedule> {
    return await this.#client.request("POST", `${this.#path}/schedules`, { body: schedule });
  }

  /**
   * Changes a schedule, or pauses or resumes it.
   * @throws {ApiError} PRECONDITION_FAILED if the schedule has changed since it was read
   */
  async updateSchedule(
    id: string,
    changes: Partial<Pick<Schedule, "cron" | "timeZone" | "input" | "alias" | "overlap" | "catchUp" | "state">>,
    options: ChangeOptions = {},
  ): Promise<Schedule> {
    return await this.#client.request("PATCH", `${this.#path}/schedules/${segment(id)}`, {
      body: changes,
      ...toChange(options, true),
    });
  }

  /** Deletes a schedule. Its calls remain. */
  async deleteSchedule(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/schedules/${segment(id)}`);
  }

  /** Yields the webhooks, without their signing secrets. */
  webhooks(): AsyncGenerator<Webhook, void> {
    return this.#client.list(`${this.#path}/webhooks`);
  }

  /** Creates a webhook, and returns it with its signing secret, which is shown only now. */
  async createWebhook(webhook: { readonly url: string; readonly events: Webhook["events"] }): Promise<CreatedWebhook> {
    return await this.#client.request("POST", `${this.#path}/webhooks`, { body: webhook });
  }

  /**
   * Changes a webhook, or disables or enables it.
   * @throws {ApiError} PRECONDITION_FAILED if the webhook has changed since it was read
   */
  async updateWebhook(
    id: string,
    changes: Partial<Pick<Webhook, "url" | "events" | "state">>,
    options: ChangeOptions = {},
  ): Promise<Webhook> {
    return await this.#client.request("PATCH", `${this.#path}/webhooks/${segment(id)}`, {
      body: changes,
      ...toChange(options, true),
    });
  }

  /** Sends a test event to a webhook, and returns its delivery. */
  async testWebhook(id: string): Promise<Delivery> {
    return await this.#client.request("POST", `${this.#path}/webhooks/${segment(id)}/test`);
  }

  /** Deletes a webhook with its deliveries. */
  async deleteWebhook(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/webhooks/${segment(id)}`);
  }

  /** Yields the deliveries of a webhook, the newest first. */
  deliveries(webhookId: string): AsyncGenerator<Delivery, void> {
    return this.#client.list(`${this.#path}/webhooks/${segment(webhookId)}/deliveries`);
  }

  /**
   * Sends a delivery that has ended once more.
   * @throws {ApiError} CONFLICT for a delivery that has not ended
   */
  async redeliver(webhookId: string, id: string): Promise<void> {
    const path = `${this.#path}/webhooks/${segment(webhookId)}/deliveries/${segment(id)}/redeliver`;
    await this.#client.request("POST", path);
  }

  /** Yields the triggers, without their signing secrets. */
  triggers(): AsyncGenerator<Trigger, void> {
    return this.#client.list(`${this.#path}/triggers`);
  }

  /**
   * Creates a trigger, and returns it with its signing secret, which is shown only now.
   * @throws {ApiError} NAME_TAKEN for a name that another trigger has
   */
  async createTrigger(trigger: NewTrigger): Promise<CreatedTrigger> {
    return await this.#client.request("POST", `${this.#path}/triggers`, { body: trigger });
  }

  /**
   * Pauses or resumes a trigger, or chooses another release.
   * @throws {ApiError} PRECONDITION_FAILED if the trigger has changed since it was read
   */
  async updateTrigger(
    id: string,
    changes: Partial<Pick<Trigger, "state" | "alias">>,
    options: ChangeOptions = {},
  ): Promise<Trigger> {
    return await this.#client.request("PATCH", `${this.#path}/triggers/${segment(id)}`, {
      body: changes,
      ...toChange(options, true),
    });
  }

  /** Deletes a trigger: its URL stops working. */
  async deleteTrigger(id: string): Promise<void> {
    await this.#client.request("DELETE", `${this.#path}/triggers/${segment(id)}`);
  }

  /** Yields the values of a tool by key. */
  values(tool: string, filter: { readonly prefix?: string } = {}): AsyncGenerator<StoredValue, void> {
    checkOptions(filter, "filter", FILTERS.values);
    return this.#client.list(`${this.#path}/kv/${segment(tool)}`, { prefix: filter.prefix });
  }

  /**
   * Returns an export of all values of a tool, with its body unread: a line of JSON for each value (`{ "type": "value", … }`), and at last
   * `{ "type": "end", "keys": N }`. An export without the last line is incomplete.
   */
  async exportValues(tool: string, options: { readonly signal?: AbortSignal } = {}): Promise<Response> {
    checkOptions(options, "options", SIGNAL_FIELDS);
    return await this.#client.open(`${this.#path}/kv/${segment(tool)}/export`, options);
  }

  /** Sets a JSON value in the key-value store of a tool. */
  async setValue(tool: string, key: string, value: unknown, options: SetValueOptions = {}): Promise<StoredValue> {
    checkOptions(options, "options", VALUE_FIELDS);
    const isSafe = options.ifVersion === undefined;
    return await this.#client.request("PUT", this.#pathOfValue(tool, key), { body: { value, ...options }, isSafe });
  }

  /** Deletes a value from the key-value store of a tool. */
  async deleteValue(tool: string, key: string): Promise<void> {
    await this.#client.request("DELETE", this.#pathOfValue(tool, key));
  }

  /** The keys "." and ".." cannot be part of a path, so the query has them. */
  #pathOfValue(tool: string, key: string): string {
    const values = `${this.#path}/kv/${segment(tool)}/values`;
    return key === "." || key === ".." ? `${values}/-?key=${key}` : `${values}/${segment(key)}`;
  }

  /** Returns the usage by hour and outcome, or the sums of the time (`by: "total"`). Default: the last 30 days, by hour. */
  async usage(
    filter: {
      readonly from?: number;
      readonly until?: number;
      readonly tool?: string;
      readonly by?: "hour" | "total";
    } = {},
  ): Promise<readonly Usage[]> {
    checkOptions(filter, "filter", FILTERS.usage);
    return await this.#client.items("GET", `${this.#path}/usage`, { query: filter });
  }

  /** Returns the limits of the tenant, and what is left of them. */
  async quotas(): Promise<Quotas> {
    return await this.#client.request("GET", `${this.#path}/quotas`);
  }

  /** Returns what is wrong now. */
  async problems(): Promise<readonly Problem[]> {
    const path = `${this.#path}/problems`;
    return await this.#client.items("GET", path);
  }

  /** Yields the entries of the audit log, the newest first. */
  audit(): AsyncGenerator<AuditEntry, void> {
    return this.#client.list(`${this.#path}/audit`);
  }
}
