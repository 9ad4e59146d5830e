// tools/call: goes down to the router as any call does, and comes back as a result, as what its tool asks first, or as the protocol's error.
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
import { TOOL_NAME_PATTERN, type ToolDefinition } from "../../../sandbox/contract/definition.ts";
import type { LogLevel, Progress } from "../../../sandbox/protocol/messages.ts";
import type { ToolContext, ToolResult } from "../../contract/tool-call.ts";
import type { Glovebox } from "../../glovebox/glovebox.ts";
import type { LogEntry } from "../../observability/call-log.ts";
import type { TenantScope } from "../../routing/tenant-scope.ts";
import { type McpCaller, ownerOf } from "./caller.ts";
import { type AskableClient, OpenToolCall } from "./open-call.ts";
import { toArguments } from "./tool-arguments.ts";
import { toCallToolResult } from "./tool-result.ts";
import type { RequestState, WaitingCalls } from "./waiting-calls.ts";

/** Of a Glovebox, what is needed here. */
export type McpHost = Pick<Glovebox, "execute" | "router"> & {
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]>;
};

/** What a host states of every call. */
export type McpCallContext = Omit<ToolContext, "tenantId" | "signal" | "onLog" | "onProgress" | "client">;

/** The connection, or the request, that calls come by. */
export interface CallParts {
  readonly host: McpHost;
  readonly caller: McpCaller;
  /** Of all requests of the same endpoint. */
  readonly waiting: WaitingCalls;
  readonly server: Server;
  readonly context: McpCallContext | undefined;
}

interface ToolParams {
  readonly name: string;
  readonly arguments?: Record<string, unknown> | undefined;
}

const LEVELS = { debug: "debug", info: "info", warn: "warning", error: "error" } as const satisfies Record<
  LogLevel,
  string
>;

/** Nobody waits for it, and whoever has gone hears nothing. */
const forget = (sent: Promise<unknown>): void => void sent.catch(() => {});

/** To whoever waits for the call's present round. */
function toListeners(hearer: () => ServerContext): Pick<ToolContext, "onLog" | "onProgress"> {
  let latest = Number.NEGATIVE_INFINITY;
  const onProgress = ({ progress, total, message }: Progress): void => {
    const { mcpReq } = hearer();
    const progressToken = mcpReq._meta?.progressToken;
    // It only ever grows, says the protocol.
    if (progressToken === undefined || progress <= latest) return;
    latest = progress;
    const params = {
      progressToken,
      progress,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    };
    forget(mcpReq.notify({ method: "notifications/progress", params }));
  };
  const onLog = ({ level, message, data }: LogEntry): void =>
    forget(hearer().mcpReq.log(LEVELS[level], data === undefined ? message : { message, data }, "tool"));
  return { onLog, onProgress };
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

function begin(
  { host, caller, server, context }: CallParts,
  definition: ToolDefinition | undefined,
  { name: toolName, arguments: args = {} }: ToolParams,
  ctx: ServerContext,
): OpenToolCall {
  const { _meta, envelope, inputResponses = {} } = ctx.mcpReq;
  const declared = (envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
  const askable = (declared ?? server.getClientCapabilities() ?? {}) as AskableClient;
  const traceparent = textOf(_meta?.traceparent);
  const tracestate = textOf(_meta?.tracestate);
  return new OpenToolCall(ctx, askable, inputResponses, (client, signal, hearer): Promise<ToolResult> => {
    const toolCall = { id: randomUUID(), toolName, arguments: toArguments(definition?.inputSchema, args) };
    return host.execute(toolCall, {
      ...context,
      ...host.router.tenancy.optionOf(caller.tenantId),
      signal,
      client,
      ...toListeners(hearer),
      ...(traceparent === undefined ? {} : { traceparent, tracestate }),
    });
  });
}

/** The call that has been waiting for what this request brings; undefined for a request that begins one. */
function goOn({ caller, waiting }: CallParts, toolName: string, { mcpReq }: ServerContext): OpenToolCall | undefined {
  const state = mcpReq.requestState<RequestState>();
  if (state === undefined) return undefined;
  const call = waiting.take(state, ownerOf(caller), toolName);
  if (call === undefined) {
    const message = "Invalid or expired requestState: expected that of the latest round of a call that is still open";
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  }
  call.answer(mcpReq.inputResponses ?? {});
  return call;
}

const unknownTool = (toolName: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${toolName.slice(0, 128)}`);

/** Throws what is no result of a tool's: there is no such tool, or its caller would have had to say that it can be asked. */
function refuse(result: ToolResult, toolName: string, { missing }: OpenToolCall, { mcpReq }: ServerContext): void {
  if (result.success) return;
  const { code, details } = result.error;
  const isUnknown = details?.reason === "not_found" && details.toolName === toolName.slice(0, 128);
  if (code === "TOOL_UNAVAILABLE" && isUnknown) throw unknownTool(toolName);
  if (code === "PARAM_INVALID" && !TOOL_NAME_PATTERN.test(toolName)) throw unknownTool(toolName);
  // Older revisions know no such error: there it is the tool's, as any other.
  if (code === "CAPABILITY_DENIED" && Object.keys(missing).length > 0 && mcpReq.envelope !== undefined) {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: missing });
  }
}

/** @throws {ProtocolError} as a rejection, for what is no call of a tool there is */
export async function callServerTool(
  parts: CallParts,
  params: ToolParams,
  ctx: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  const { host, caller, waiting, server } = parts;
  const { name: toolName } = params;
  const find = (): ToolDefinition | undefined => host.router.registry.get(toolName, caller.tenantId)?.definition;
  const definition = find();
  const call = goOn(parts, toolName, ctx) ?? begin(parts, definition, params, ctx);
  const round = await call.next(ctx);
  if ("questions" in round) {
    const requestState = await waiting.keep(call, ownerOf(caller), toolName, ctx);
    return inputRequired({ inputRequests: round.questions, requestState });
  }
  const { result } = round;
  refuse(result, toolName, call, ctx);
  // That of an upstream server's tool may be known only since it was called.
  const { outputSchema } = definition ?? find() ?? {};
  return server.projectCallToolResult(toCallToolResult(result, outputSchema !== undefined), outputSchema);
}
