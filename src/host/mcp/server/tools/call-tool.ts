// Handles `tools/call`: runs the tool through the router and returns its result, its questions to the client, or a protocol error.
import { randomUUID } from "node:crypto";
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequiredResult,
  inputRequired,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { ToolDefinition } from "../../../../sandbox/contract/definition.ts";
import { ToolError } from "../../../../sandbox/contract/errors.ts";
import { TOOL_NAME_PATTERN } from "../../../../sandbox/contract/tool-name.ts";
import type { LogLevel } from "../../../../sandbox/protocol/message-fields.ts";
import type { Progress } from "../../../../sandbox/protocol/worker-messages.ts";
import type { CallContext, ToolResult } from "../../../contract/tool-call.ts";
import type { Glovebox } from "../../../glovebox/glovebox.ts";
import type { LogEntry } from "../../../observability/call-log.ts";
import { failedResultOf } from "../../../pipeline/normalize.ts";
import type { TenantScope } from "../../../routing/tenant-scope.ts";
import { type McpCaller, ownerOf } from "../authorization/caller.ts";
import { type CreatedTask, startTask } from "../tasks/start-task.ts";
import {
  declaresTasks,
  type McpTaskOwner,
  type McpTaskRuns,
  missingTasks,
  supportsTasks,
  toTask,
} from "../tasks/task-runs.ts";
import type { CallerWatch, CallsAwaitingInput, WaitingRequestState } from "./calls-awaiting-input.ts";
import { OpenToolCall, type RequestCapabilities } from "./open-call.ts";
import { toArguments } from "./tool-arguments.ts";
import { toCallToolResult } from "./tool-result.ts";

/** The part of a Glovebox that the MCP server uses. */
export type McpHost = Pick<Glovebox, "execute" | "router"> & {
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]>;
  /**
   * Returns up to `limit` tools after the one named `after`, always in the same order: a list, whose page is the last one if it has fewer, or an
   * object with the name after which the next page begins. Default: a part of what `listTools` returns
   */
  readonly listToolPage?:
    | ((page: ToolPageRequest, options?: TenantScope) => Promise<readonly ToolDefinition[] | HostToolPage>)
    | undefined;
  /** Registers a tool that the host loads when it is needed. Called before a request calls it. Default: all tools are registered. */
  readonly prepareTool?: ((toolName: string, options?: TenantScope) => Promise<void>) | undefined;
  /** Observes the caller of the current request, whose call will wait without a request. Default: it ends with its credentials' expiry only. */
  readonly watchCaller?: (() => CallerWatch | undefined) | undefined;
};

/** A page that can have fewer tools than requested although another one follows. */
export interface HostToolPage {
  readonly definitions: readonly ToolDefinition[];
  /** Name after which the next page begins; undefined on the last one. */
  readonly next: string | undefined;
}

/** Which tools a page has. */
export interface ToolPageRequest {
  readonly after: string | undefined;
  readonly limit: number;
}

/** Context that the host sets for every call. */
export type McpCallContext = Omit<CallContext, "tenantId" | "signal" | "onLog" | "onProgress" | "client">;

/** The connection or request that a call arrives on. */
export interface ServerCallDependencies {
  readonly host: McpHost;
  readonly caller: McpCaller;
  /** The waiting calls of all requests to the same endpoint. */
  readonly waiting: CallsAwaitingInput;
  readonly server: Server;
  readonly context: McpCallContext | undefined;
  /** Durable runs that serve as tasks; undefined if calls cannot become tasks. */
  readonly runs: McpTaskRuns | undefined;
}

interface ToolParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
}

const LEVELS = { debug: "debug", info: "info", warn: "warning", error: "error" } as const satisfies Record<
  LogLevel,
  string
>;

/** Ignores the outcome of a notification: its client may have disconnected. */
const ignoreFailure = (sent: Promise<unknown>): void => void sent.catch(() => {});

/** Returns listeners that send progress and log messages to the request that currently waits for the call. */
function toListeners(currentRequest: () => ServerContext): Pick<CallContext, "onLog" | "onProgress"> {
  let latest = Number.NEGATIVE_INFINITY;
  const onProgress = ({ progress, total, message }: Progress): void => {
    const { mcpReq } = currentRequest();
    const progressToken = mcpReq._meta?.progressToken;
    // The protocol requires that progress increases.
    if (progressToken === undefined || progress <= latest) return;
    latest = progress;
    const params = {
      progressToken,
      progress,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    };
    ignoreFailure(mcpReq.notify({ method: "notifications/progress", params }));
  };
  const onLog = ({ level, message, data }: LogEntry): void =>
    ignoreFailure(currentRequest().mcpReq.log(LEVELS[level], data === undefined ? message : { message, data }, "tool"));
  return { onLog, onProgress };
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

function startCall(
  { host, caller, server, context, runs }: ServerCallDependencies,
  definition: ToolDefinition | undefined,
  { name: toolName, arguments: args = {} }: ToolParams,
  ctx: ServerContext,
): OpenToolCall {
  const { _meta, envelope, inputResponses = {} } = ctx.mcpReq;
  const declared = (envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
  const capabilities = (declared ?? server.getClientCapabilities() ?? {}) as RequestCapabilities;
  const traceparent = textOf(_meta?.traceparent);
  const tracestate = textOf(_meta?.tracestate);
  if (runs !== undefined && supportsTasks(definition)) {
    if (declaresTasks(ctx)) {
      const owner = taskOwnerOf(host, caller);
      const run = { toolName, arguments: toArguments(definition?.inputSchema, args), ...owner };
      return new OpenToolCall(ctx, capabilities, inputResponses, async (client, signal) => {
        try {
          const created = await startTask(client, (starter) => runs.begin(run, starter));
          // The client has given up the request, so that it never receives the id of the task.
          if (signal.aborted) await runs.cancel(created.taskId, owner);
          return created;
        } catch (thrown) {
          return toFailedResult(toolName, thrown);
        }
      });
    }
    if (definition?.durable === true && envelope !== undefined) throw missingTasks();
  }
  return new OpenToolCall(ctx, capabilities, inputResponses, (client, signal, currentRequest): Promise<ToolResult> => {
    const toolCall = { id: randomUUID(), toolName, arguments: toArguments(definition?.inputSchema, args) };
    return host.execute(toolCall, {
      ...context,
      ...host.router.tenancy.optionOf(caller.tenantId),
      signal,
      client,
      ...toListeners(currentRequest),
      ...(traceparent === undefined ? {} : { traceparent, tracestate }),
    });
  });
}

const taskOwnerOf = (host: McpHost, caller: McpCaller): McpTaskOwner => ({
  ...host.router.tenancy.optionOf(caller.tenantId),
  owner: ownerOf(caller),
});

/** Returns the result of a call whose run could not be started. @throws anything but a ToolError */
function toFailedResult(toolName: string, thrown: unknown): ToolResult {
  if (!(thrown instanceof ToolError)) throw thrown;
  return failedResultOf({ callId: randomUUID(), toolName }, thrown);
}

/** Returns the response that says that a call has become a task. */
async function toCreatedTask(dependencies: ServerCallDependencies, { taskId }: CreatedTask): Promise<CallToolResult> {
  const run = await dependencies.runs?.get(taskId, taskOwnerOf(dependencies.host, dependencies.caller));
  if (run === undefined) throw new Error("The run of a task is not there");
  return { resultType: "task", ...toTask(run) } as unknown as CallToolResult;
}

/** Returns the waiting call that this request resumes, with the request's answers; undefined for a request that starts a call. */
function resumeCall(
  { caller, waiting }: ServerCallDependencies,
  toolName: string,
  { mcpReq }: ServerContext,
): OpenToolCall | undefined {
  const state = mcpReq.requestState<WaitingRequestState>();
  if (state === undefined) return undefined;
  const call = waiting.take(state, ownerOf(caller), toolName);
  if (call === undefined) {
    const message = "Invalid or expired requestState: send the one from the latest response, or start a new call";
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  }
  call.answer(mcpReq.inputResponses ?? {});
  return call;
}

const unknownTool = (toolName: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${toolName.slice(0, 128)}`);

/** @throws {ProtocolError} for an unknown tool, and for a client that did not declare a capability that the tool used */
function throwIfProtocolError(
  result: ToolResult,
  toolName: string,
  { missing }: OpenToolCall,
  { mcpReq }: ServerContext,
): void {
  if (result.success) return;
  const { code, details } = result.error;
  const isUnknown = details?.reason === "not_found" && details.toolName === toolName.slice(0, 128);
  if (code === "TOOL_UNAVAILABLE" && isUnknown) throw unknownTool(toolName);
  if (code === "PARAM_INVALID" && !TOOL_NAME_PATTERN.test(toolName)) throw unknownTool(toolName);
  // The revisions of 2025 have no such error: there the result is that of a failed tool.
  if (code === "CAPABILITY_DENIED" && Object.keys(missing).length > 0 && mcpReq.envelope !== undefined) {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: missing });
  }
}

/**
 * Runs a tool, or resumes a call that waited for the client's answers.
 * @throws {ProtocolError} as a rejection, for an unknown tool, an invalid `requestState`, or a missing capability of the client
 */
export async function callServerTool(
  dependencies: ServerCallDependencies,
  params: ToolParams,
  ctx: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  const { host, caller, waiting, server } = dependencies;
  const { name: toolName } = params;
  const find = (): ToolDefinition | undefined => host.router.registry.get(toolName, caller.tenantId)?.definition;
  const definition = find();
  const call = resumeCall(dependencies, toolName, ctx) ?? startCall(dependencies, definition, params, ctx);
  const round = await call.next(ctx);
  if ("inputRequests" in round) {
    const requestState = await waiting.keep(call, ownerOf(caller), toolName, ctx);
    return inputRequired({ inputRequests: round.inputRequests, requestState });
  }
  const { result } = round;
  if ("taskId" in result) return await toCreatedTask(dependencies, result);
  throwIfProtocolError(result, toolName, call, ctx);
  // The definition of an upstream server's tool may become known only during its first call.
  const { outputSchema } = definition ?? find() ?? {};
  const shown = await toCallToolResult(result, outputSchema !== undefined, ctx.mcpReq.signal);
  return server.projectCallToolResult(shown, outputSchema);
}
