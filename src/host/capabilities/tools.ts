// Capability tools: a tool calls other tools of its tenant. Nested calls run through the same router, within the remaining time of their
// caller.
import { createHash } from "node:crypto";
import * as z from "zod";
import { readRequestedList } from "../../sandbox/contract/capability-requests.ts";
import type { ContentPart } from "../../sandbox/contract/content.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { MAX_BYTES_VALUES } from "../../sandbox/protocol/guest-messages.ts";
import type { NestedCallStart, ToolCall, ToolResult } from "../contract/tool-call.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import { replaceBytes, restoreBytes } from "../json/binary-placeholders.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { NamedContext } from "../pipeline/read-context.ts";
import type { CallChain } from "../routing/call-chain.ts";
import { matchesName } from "../routing/name-wildcard.ts";
import { notifySafely, runCallback } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";
import { callOf, useOf } from "./call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "./capability.ts";

/** The part of the router that nested calls need. */
export interface NestedRouter {
  readonly registry: {
    get(
      toolName: string,
      tenantId: string,
    ): { readonly release?: { readonly mainVersion: string } | undefined } | undefined;
  };
  executeNested(toolCall: ToolCall, context: NamedContext, parent: CallChain): Promise<ToolResult>;
}

/**
 * Checks a name against the definition's `capabilities.tools`: names and patterns that end in `*`.
 * @throws {ToolError} CAPABILITY_DENIED
 */
function checkName(name: string, { requested, toolName }: CapabilityContext): void {
  const patterns = readRequestedList(requested, "tools");
  if (patterns === undefined) return;
  if (patterns.some((pattern) => typeof pattern === "string" && matchesName(pattern, name))) return;
  const message = `${toolName} may not call ${JSON.stringify(name)}; it may call ${JSON.stringify(patterns)}`;
  throw new ToolError("CAPABILITY_DENIED", message.slice(0, 1_000));
}

/** Longest time in ms between two timers that are due at the same time. */
const TIMER_TOLERANCE_MS = 3;

const remainingMs = ({ clock, deadlineAt }: PreparedCall): number => clock?.leftMs ?? deadlineAt - performance.now();

/**
 * Waits for the end of a call whose own timeout is due. Without this wait, the caller could receive the timeout of its nested call a moment
 * before its own timeout ends it.
 */
async function endWithTimeout(call: PreparedCall, signal: AbortSignal): Promise<void> {
  if (remainingMs(call) < TIMER_TOLERANCE_MS) await untilAborted(new Promise<never>(() => {}), signal);
}

/** Derives the seed of a nested call in a deterministic run: different for each nested call, the same in each repetition. */
const nestedSeed = (seed: string, { begun }: CallChain): string =>
  createHash("sha256").update(`${begun}\0${seed}`).digest("hex");

/** Creates the context of a nested call: same tenant and client. The caller's `onLog` receives the nested call's log lines too. */
function contextOf(
  call: PreparedCall,
  callId: string,
  { signal, traceparent, tracestate }: CapabilityContext,
): NamedContext {
  const { tenantId, context, chain } = call;
  const { deterministic, logSourceLocations, onLog, client, timeline, nestedCalls, callerQuotas } = context;
  return {
    tenantId,
    executionId: context.executionId ?? chain.root.callId,
    signal,
    timeoutMs: Math.max(1, Math.floor(remainingMs(call))),
    logSourceLocations,
    ...(timeline === undefined ? {} : { timeline }),
    ...(nestedCalls === undefined ? {} : { nestedCalls }),
    ...(callerQuotas === undefined ? {} : { callerQuotas }),
    ...(onLog === undefined ? {} : { onLog: (entry) => chain.log?.forward(entry, callId) }),
    ...(client === undefined ? {} : { client }),
    ...(context.stepId === undefined ? {} : { stepId: context.stepId }),
    ...(traceparent === undefined ? {} : { traceparent, tracestate }),
    ...(deterministic === undefined
      ? {}
      : { deterministic: { ...deterministic, seed: nestedSeed(deterministic.seed, chain) } }),
  };
}

function toNestedCall({
  callId,
  toolName,
  durationMs,
  usage,
  ...result
}: ToolResult): Parameters<CallChain["ended"]>[0] {
  const code = result.success ? "ok" : result.error.code;
  const { calls, timeline } = result;
  return {
    callId,
    toolName,
    durationMs,
    cpuMs: usage.cpuMs,
    code,
    ...(calls === undefined ? {} : { calls }),
    ...(timeline === undefined ? {} : { timeline }),
  };
}

/**
 * Lets the caller's observer decide whether a nested call may start.
 * @throws {ToolError} what the observer throws; INTERNAL for anything but a ToolError
 */
async function admitNested(call: PreparedCall, start: NestedCallStart, signal: AbortSignal): Promise<void> {
  const onStart = call.context.nestedCalls?.onStart;
  if (onStart === undefined) return;
  // The signal ends the wait. A timer of what is left of the call could fire first, and the caller would receive INTERNAL for its timeout.
  const outcome = runCallback(() => onStart(start), { timeoutMs: LIMITS.timeoutMs.max, signal });
  const settled = outcome instanceof Promise ? await outcome : outcome;
  signal.throwIfAborted();
  if (!("failed" in settled)) return;
  const { cause } = settled;
  if (Error.isError(cause) && cause instanceof ToolError) throw cause;
  throw new ToolError("INTERNAL", `The host could not decide about the call of ${start.toolName}: it was not run`, {
    cause,
  });
}

/** A nested call to make. */
export interface NestedRequest {
  readonly name: string;
  readonly args: unknown;
  /** Name by which the caller knows the tool, for messages. Default: `name` */
  readonly shownName?: string | undefined;
  /** Tool and version to which the call is pinned. */
  readonly pin?: ToolPin | undefined;
  /** Whether a person has approved the call of the pinned tool. */
  readonly isApproved?: boolean | undefined;
}

/** What a call may run. */
export interface ToolPin {
  readonly toolDigest: string;
  /** For a tool with versions: the one that has this digest. */
  readonly toolVersion?: string | undefined;
}

/** Returns what a call of a registered tool may run: the tool with this digest, in the version that most calls of a release run. */
export function pinTo(toolDigest: string, tool: ReturnType<NestedRouter["registry"]["get"]>): ToolPin {
  const toolVersion = tool?.release?.mainVersion;
  return { toolDigest, ...(toolVersion === undefined ? {} : { toolVersion }) };
}

/** Returns the content of a tool without an output, such as the files of an MCP server: a program has no other way to receive it. */
function toContentOutput(content: readonly ContentPart[] | undefined): ToolValue {
  if (content === undefined || content.length === 0) return null;
  return { content } as unknown as ToolValue;
}

/**
 * Runs a tool for a capability of the calling tool, and returns its output, or `{ content }` if it has only content parts.
 * @throws {ToolError} the error of the nested call, with the names of the tools that led to it
 */
export async function callNested(
  router: NestedRouter,
  { name, args, shownName = name, pin, isApproved }: NestedRequest,
  context: CapabilityContext,
): Promise<ToolValue> {
  const call = callOf(context);
  const toolCall = { id: call.chain.begin(name), toolName: name, arguments: args };
  useOf(context)?.describe({ target: name, callId: toolCall.id });
  const start: NestedCallStart = {
    callId: toolCall.id,
    toolName: name,
    parentCallId: call.chain.callId,
    arguments: args,
    startedAt: Date.now(),
    ...(isApproved === true && pin !== undefined ? { isApproved } : {}),
  };
  await admitNested(call, start, context.signal);
  const own = contextOf(call, toolCall.id, context);
  call.chain.started(toolCall.id, name);
  const result = await router.executeNested(toolCall, { ...own, ...pin }, call.chain);
  notifySafely(call.context.nestedCalls?.onEnd, start, result);
  call.chain.ended(toNestedCall(result));
  if (result.success) return result.output ?? toContentOutput(result.content);
  if (result.error.code === "TOOL_TIMEOUT") await endWithTimeout(call, context.signal);
  const { code, message, recoverable, details } = result.error;
  const trace = details?.trace ?? [...call.chain.trace, name];
  throw new ToolError(code, `${shownName}: ${message}`, { recoverable, details: { trace } });
}

/** Parts of a capability through which a guest calls tools. */
interface ToolCallCapability {
  readonly description: string;
  /** Longest name of a tool in UTF-16 code units. */
  readonly maxName: number;
  /** @param args the arguments as the guest sent them, with the bytes in them */
  readonly call: (name: string, args: unknown, context: CapabilityContext) => Promise<ToolValue>;
}

/** Defines the capability `tools`: reads a call with the bytes in its arguments, and returns the output with those in it. */
export function defineToolCalls({ description, maxName, call }: ToolCallCapability): Capability {
  const capability = defineCapability({
    name: "tools",
    description,
    inputSchema: z.strictObject({
      name: z.string().min(1).max(maxName),
      input: z.unknown(),
      bytes: z
        .strictObject({ mark: z.string().min(8).max(64), parts: z.array(z.base64()).max(MAX_BYTES_VALUES) })
        .optional(),
    }),
    outputSchema: z.unknown(),
    handler: async ({ name, input, bytes }, context) => {
      const args = bytes === undefined ? input : restoreBytes(input as JsonValue, bytes);
      return replaceBytes(await call(name, args, context));
    },
  });
  return { ...capability, platformModule: "tools" };
}

export const createToolsCapability = (router: NestedRouter): Capability =>
  defineToolCalls({
    description: "Calls other tools of the same tenant",
    maxName: 128,
    call: (name, args, context) => {
      checkName(name, context);
      const toolDigest = callOf(context).context.run?.approved.take(name, args);
      if (toolDigest === undefined) return callNested(router, { name, args }, context);
      const pin = pinTo(toolDigest, router.registry.get(name, context.tenantId));
      return callNested(router, { name, args, pin, isApproved: true }, context);
    },
  });
