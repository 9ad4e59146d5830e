// Waits for a task of an upstream server (extension io.modelcontextprotocol/tasks, SEP-2663): polls it within limits, answers its requests for
// input, and ends it when the call ends first.
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import { ToolError } from "../../../../sandbox/contract/errors.ts";
import { fromProtocol, toCallError } from "../call-error.ts";
import type { McpServerConfig } from "../mcp-options.ts";
import type { JsonObject } from "../reading/json-size.ts";
import { type RequestAnswers, toAnswers } from "../requests.ts";
import { MAX_REQUESTS, type UpstreamCall } from "../upstream-call.ts";
import type { TaskParams, UpstreamConnection } from "../upstream-connection.ts";
import { invalidTask, parseTask, type TaskInputs, type UpstreamTask } from "./upstream-task.ts";

/** Largest number of polls. At the shortest interval they take longer than the longest call, unless people answer in between. */
const MAX_POLLS = 5_000;
/**
 * Largest number of consecutive polls, and of consecutive deliveries of answers, that fail because the server cannot be
 * reached. A task outlives its connection.
 */
const MAX_FAILURES = 3;

/** A server whose call has become a task. */
export interface TaskServer {
  readonly server: string;
  readonly config: McpServerConfig;
  /** Aborts when the server was removed, so that no request will succeed. */
  readonly closed: AbortSignal;
  /** Runs a request on the current connection, which may be another one than that of the call. */
  readonly use: <Answer>(request: (connection: UpstreamConnection) => Promise<Answer>) => Promise<Answer>;
}

/** Returns whether a later poll may succeed: the server was not reached, or its connection was lost. */
const isOutage = (thrown: unknown): boolean =>
  thrown instanceof ToolError && thrown.details?.reason === "upstream_unavailable" && thrown.details.code === undefined;

class TaskPoller {
  readonly #call: UpstreamCall;
  readonly #server: TaskServer;
  readonly #answers: RequestAnswers;
  readonly #answered = new Set<string>();
  /** Answers that the server may not have received, by the keys of their requests. */
  readonly #undelivered = new Map<string, object>();
  #failedDeliveries = 0;
  #task: UpstreamTask;
  readonly #begunAt = performance.now();

  constructor(call: UpstreamCall, server: TaskServer, created: UpstreamTask) {
    this.#call = call;
    this.#server = server;
    this.#answers = toAnswers(server.server, server.config);
    this.#task = created;
  }

  get hasEnded(): boolean {
    const { status } = this.#task;
    return status !== "working" && status !== "input_required";
  }

  /** @throws {ToolError} as a rejection. If the call's signal aborts, rejects with its reason. */
  async wait(): Promise<JsonObject> {
    const { toolName } = this.#call;
    const { server } = this.#server;
    // The state with which a task is created has no content.
    let waitMs = this.#task.status === "working" ? this.#task.intervalMs : 0;
    for (let polls = 0, failures = 0; polls < MAX_POLLS; polls += 1) {
      await this.#call.sleep(waitMs, this.#server.closed);
      const polled = await this.#poll().catch((thrown: unknown) => {
        failures += 1;
        if (!isOutage(thrown) || failures > MAX_FAILURES) throw thrown;
        return undefined;
      });
      waitMs = this.#task.intervalMs;
      if (polled === undefined) continue;
      failures = 0;
      this.#report(polled);
      this.#task = polled;
      waitMs = polled.intervalMs;
      if (polled.result !== undefined) return polled.result;
      if (polled.error !== undefined) throw toTaskError(polled.error, server, toolName);
      if (polled.status === "cancelled") throw this.#cancelled(polled);
      if (performance.now() - this.#begunAt > (polled.ttlMs ?? Number.POSITIVE_INFINITY))
        throw new ToolError("TOOL_TIMEOUT", `The task of "${toolName}" did not end in its time to live`, {
          details: { server, ttlMs: polled.ttlMs ?? null },
        });
      await this.#answer(polled.inputs);
    }
    throw new ToolError("TOOL_TIMEOUT", `The task of "${toolName}" did not end within ${MAX_POLLS} polls`, {
      details: { server },
    });
  }

  async #poll(): Promise<UpstreamTask> {
    const { taskId } = this.#task;
    const { server } = this.#server;
    const { toolName } = this.#call;
    return parseTask(await this.#request("tasks/get", { taskId }), taskId, { server, toolName });
  }

  #report({ status, statusMessage, lastUpdatedAt }: UpstreamTask): void {
    const before = this.#task;
    // The server has answered, although the task goes on.
    this.#call.touch();
    const isChanged =
      status !== before.status || statusMessage !== before.statusMessage || lastUpdatedAt !== before.lastUpdatedAt;
    if (isChanged && status === "working") this.#call.step(statusMessage);
  }

  #cancelled({ statusMessage = "" }: UpstreamTask): ToolError {
    const { server } = this.#server;
    const why = statusMessage === "" ? "" : `: ${statusMessage}`;
    const message = `The MCP server "${server}" cancelled the task of "${this.#call.toolName}"${why}`;
    return new ToolError("TOOL_FAILED", message, { details: { server } });
  }

  /**
   * Answers the requests that were not answered before. A server may show them again until it has processed the answers. Answers that an outage
   * kept from the server are sent again, without asking for them again, as long as the server shows their requests: it processes the answer to
   * a key once.
   */
  async #answer(inputs: TaskInputs): Promise<void> {
    const open = [...inputs].filter(([key]) => !this.#answered.has(key));
    for (const key of this.#undelivered.keys()) if (!inputs.has(key)) this.#undelivered.delete(key);
    const { server } = this.#server;
    if (this.#answered.size + open.length > MAX_REQUESTS)
      throw invalidTask(server, this.#call.toolName, `Expected at most ${MAX_REQUESTS} requests for input`);
    for (const [key] of open) this.#answered.add(key);
    const answered = await Promise.all(open.map(async ([key, input]) => [key, await this.#answerOne(input)] as const));
    for (const [key, answer] of answered) this.#undelivered.set(key, answer);
    if (this.#undelivered.size > 0) await this.#deliver();
  }

  async #deliver(): Promise<void> {
    // A null prototype, because the keys are the server's.
    const inputResponses = Object.assign(Object.create(null), Object.fromEntries(this.#undelivered)) as JsonObject;
    const { taskId } = this.#task;
    try {
      await this.#request("tasks/update", { taskId, inputResponses });
    } catch (thrown) {
      this.#failedDeliveries += 1;
      if (!isOutage(thrown) || this.#failedDeliveries > MAX_FAILURES) throw thrown;
      return;
    }
    this.#failedDeliveries = 0;
    this.#undelivered.clear();
  }

  #request(method: string, params: TaskParams): Promise<JsonObject> {
    return this.#server.use((connection) => connection.requestTask(this.#call, method, params));
  }

  async #answerOne({ method, params }: JsonObject): Promise<object> {
    const { server } = this.#server;
    const answers = this.#answers;
    const { toolName, signal } = this.#call;
    const isKnown = typeof method === "string" && Object.hasOwn(answers, method);
    const answer = isKnown ? answers[method as keyof RequestAnswers] : undefined;
    if (answer === undefined) {
      const message = `"${toolName}" requires a client capability that the host does not allow`;
      throw new ToolError("CAPABILITY_DENIED", message, { details: { server } });
    }
    try {
      return await answer(params, signal, this.#call);
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof ProtocolError)) throw thrown;
      if (thrown.code !== ProtocolErrorCode.InternalError) throw invalidTask(server, toolName, thrown.message);
      const message = `"${toolName}" was cancelled, because its request to the client could not be answered`;
      throw new ToolError("TOOL_FAILED", message, { details: { server } });
    }
  }
}

/** Returns the error for a task that has failed with an error of the protocol. */
function toTaskError(
  { code, message }: NonNullable<UpstreamTask["error"]>,
  server: string,
  toolName: string,
): ToolError {
  return fromProtocol(new ProtocolError(code, message), server, toolName);
}

/**
 * Waits until a task has ended, and returns the result of its call as the server sent it.
 * @param created the response that created the task
 * @throws {ToolError} as a rejection. If the call's signal aborts, rejects with its reason, and a request to end the task is sent to the server.
 */
export async function awaitTask(call: UpstreamCall, created: JsonObject, server: TaskServer): Promise<JsonObject> {
  const task = parseTask(created, undefined, { server: server.server, toolName: call.toolName });
  const poller = new TaskPoller(call, server, task);
  try {
    return await poller.wait();
  } catch (thrown) {
    // The caller does not wait for it.
    if (!poller.hasEnded) server.use((connection) => connection.cancelTask(task.taskId)).catch(() => {});
    const { timeoutMs } = server.config;
    if (!call.signal.aborted) throw thrown;
    throw toCallError(thrown, call, { server: server.server, timeoutMs, toOutage: (cause) => cause });
  }
}
