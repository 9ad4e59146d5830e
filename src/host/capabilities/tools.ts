// Capability tools: a tool calls other tools of its tenant. Nested calls run through the same router, within the remaining time of their
// caller.
import { createHash } from "node:crypto";
import * as z from "zod";
import type { CapabilityRequests } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { MAX_BYTES_VALUES } from "../../sandbox/protocol/guest-messages.ts";
import type { ToolCall, ToolResult } from "../contract/tool-call.ts";
import { replaceBytes, restoreBytes } from "../json/binary-placeholders.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { NamedContext } from "../pipeline/read-context.ts";
import type { CallChain } from "../routing/call-chain.ts";
import { matchesName } from "../routing/name-pattern.ts";
import { untilAborted } from "../util/with-abort.ts";
import { callOf, useOf } from "./call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "./capability.ts";

/** The part of the router that nested calls need. */
export interface NestedRouter {
  executeNested(toolCall: ToolCall, context: NamedContext, parent: CallChain): Promise<ToolResult>;
}

/** Checks a name against the definition's `capabilities.tools`: names and patterns that end in `*`. True or absent allows every tool. */
function mayCall(requested: JsonValue | undefined, name: string): boolean {
  if (requested === undefined || requested === true) return true;
  if (!Array.isArray(requested)) return false;
  return requested.some((pattern) => typeof pattern === "string" && matchesName(pattern, name));
}

function checkName(name: string, { requested, toolName }: CapabilityContext): void {
  const own: CapabilityRequests = requested;
  if (mayCall(Object.hasOwn(own, "tools") ? own.tools : undefined, name)) return;
  const message = `${toolName} may not call ${JSON.stringify(name)}; it may call ${JSON.stringify(own.tools)}`;
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
  const { deterministic, logSourceLocations, onLog, client, timeline } = context;
  return {
    tenantId,
    executionId: context.executionId ?? chain.root.callId,
    signal,
    timeoutMs: Math.max(1, Math.floor(remainingMs(call))),
    logSourceLocations,
    ...(timeline === undefined ? {} : { timeline }),
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
    ...{ callId, toolName, durationMs, cpuMs: usage.cpuMs, code },
    ...(calls === undefined ? {} : { calls }),
    ...(timeline === undefined ? {} : { timeline }),
  };
}

export function createToolsCapability(router: NestedRouter): Capability {
  const capability = defineCapability({
    name: "tools",
    description: "Calls other tools of the same tenant",
    inputSchema: z.strictObject({
      name: z.string().min(1).max(128),
      input: z.unknown(),
      bytes: z
        .strictObject({ mark: z.string().min(8).max(64), parts: z.array(z.base64()).max(MAX_BYTES_VALUES) })
        .optional(),
    }),
    outputSchema: z.unknown(),
    handler: async ({ name, input, bytes }, context) => {
      const call = callOf(context);
      checkName(name, context);
      const args = bytes === undefined ? input : restoreBytes(input as JsonValue, bytes);
      const toolCall = { id: call.chain.begin(name), toolName: name, arguments: args };
      useOf(context)?.describe({ target: name, callId: toolCall.id });
      const nested = contextOf(call, toolCall.id, context);
      const result = await router.executeNested(toolCall, nested, call.chain);
      call.chain.ended(toNestedCall(result));
      if (result.success) return replaceBytes(result.output);
      if (result.error.code === "TOOL_TIMEOUT") await endWithTimeout(call, context.signal);
      const { code, message, recoverable, details } = result.error;
      const trace = details?.trace ?? [...call.chain.trace, name];
      throw new ToolError(code, `${name}: ${message}`, { recoverable, details: { trace } });
    },
  });
  return { ...capability, platformModule: "tools" };
}
