// AgentLoop.executeSingleTurn(): runs one call for a host that drives its model itself.
import { randomUUID } from "node:crypto";
import { ToolError, toToolError } from "../../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../../sandbox/contract/plain-object.ts";
import type { CallContext, ToolResult } from "../../contract/tool-call.ts";
import { toFailure } from "../../pipeline/normalize.ts";
import { ignoreOutcome, isThenable } from "../../util/host-callback.ts";
import { callsOf, findProblems } from "../conversation.ts";
import type { Message, ModelToolCall } from "../model.ts";
import { callAgentTool } from "../tools/call-tool.ts";
import { notOffered, type Offer, offeredTools } from "../tools/offered-tools.ts";
import { type ApprovalRule, needsApproval } from "./agent-approval-rule.ts";

/** A call of a host that drives its model itself. Only `id` and `toolName` are required. */
export type SingleCall = Pick<ModelToolCall, "id" | "toolName"> & Partial<ModelToolCall>;

/** Result of {@link AgentLoop.executeSingleTurn}. */
export interface SingleTurn {
  /** A new array: the conversation, the call if it was not in it, and the answer. */
  readonly updatedMessages: readonly Message[];
  /** Whether to call the model again: false if the call was cancelled, and while other calls of its turn have no answer. */
  readonly shouldContinue: boolean;
}

/** The loop's guards, and the context of this call. */
interface SingleTurnSettings extends Omit<Offer, "context"> {
  readonly context: CallContext;
  readonly needsApproval?: ApprovalRule | undefined;
}

const FIELDS: Record<keyof ModelToolCall, true> = {
  id: true,
  toolName: true,
  argumentsText: true,
  arguments: true,
  problem: true,
  kind: true,
  itemId: true,
};

/** Returns a problem that the router would not find. With `args` instead of `arguments`, a tool would run on {}. */
function findCallProblem(call: SingleCall): string | undefined {
  const { argumentsText, arguments: args } = call;
  const unknown = Object.keys(call).find((key) => !Object.hasOwn(FIELDS, key));
  if (unknown !== undefined) return `The call has an unknown key ${JSON.stringify(unknown.slice(0, 50))}`;
  if (argumentsText !== undefined && typeof argumentsText !== "string") return "argumentsText: Expected text";
  if (!isThenable(args)) return undefined;
  ignoreOutcome(() => args);
  return "arguments: Expected a JSON value, got a promise: await it first";
}

/** Reads a call from any value. The router reports all other problems. */
function readSingleCall(call: SingleCall): ModelToolCall {
  try {
    const { id, toolName, argumentsText, kind = "function" } = call;
    if (isPlainObject(call) && typeof id === "string" && typeof toolName === "string") {
      const problem = findCallProblem(call);
      if (problem !== undefined) return { id, toolName, argumentsText: "", problem, kind: "function" };
      const text = argumentsText ?? (call.arguments === undefined ? "{}" : (JSON.stringify(call.arguments) ?? ""));
      return { ...call, id, toolName, kind, argumentsText: text };
    }
  } catch {
    // Not a readable call.
  }
  const problem = "Expected a call { id, toolName, arguments }";
  return { id: `call_${randomUUID()}`, toolName: "unknown", argumentsText: "", problem, kind: "function" };
}

/** Runs a call if the loop's guards admit it, bound to the tool that they checked. Always resolves. */
async function callGuarded(
  call: ModelToolCall,
  messages: readonly Message[],
  settings: SingleTurnSettings,
): Promise<ToolResult> {
  const { callRouter, context, tools, needsApproval: rule, onError } = settings;
  if ((tools === undefined && rule === undefined) || call.problem !== undefined) {
    return await callAgentTool(callRouter, call, context);
  }
  const started = performance.now();
  try {
    const { tenantId, signal = new AbortController().signal } = context;
    const offered = await offeredTools(settings, signal);
    const tool = offered.get(call.toolName);
    if (tool === undefined) throw notOffered(call.toolName, offered);
    const { definition, digest: toolDigest } = tool;
    if ((context.toolDigest ?? toolDigest) !== toolDigest) {
      throw new ToolError(
        "APPROVAL_REQUIRED",
        `The digest of the tool "${call.toolName}" differs from context.toolDigest`,
      );
    }
    const question = { call, definition, toolDigest, tenantId, messages };
    if (await needsApproval(rule, question, { onError, signal })) {
      signal.throwIfAborted();
      throw new ToolError("APPROVAL_REQUIRED", `The call of "${call.toolName}" needs approval and was not run`);
    }
    return await callAgentTool(callRouter, call, { ...context, toolDigest });
  } catch (thrown) {
    const error = context.signal?.aborted === true ? new ToolError("CANCELLED", "The call was cancelled") : thrown;
    return toFailure({ callId: call.id, toolName: call.toolName, started }, toToolError(error));
  }
}

/** Runs a call and adds its answer to the conversation. Always resolves. */
export async function runSingleTurn(
  messages: readonly Message[],
  toolCall: SingleCall,
  settings: SingleTurnSettings,
): Promise<SingleTurn> {
  const given = readSingleCall(toolCall);
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  const isOpen = findProblems(messages).some(
    ({ kind, messageIndex, callId }) => kind === "unanswered-call" && messageIndex === last && callId === given.id,
  );
  const existing = isOpen ? callsOf(messages[last]).find(({ id }) => id === given.id) : undefined;
  const isIdOnly =
    given.problem === undefined && toolCall.arguments === undefined && toolCall.argumentsText === undefined;
  const call = existing !== undefined && isIdOnly ? existing : given;
  const result = await callGuarded(call, messages, settings);
  const answer: Message = { role: "tool", callId: call.id, toolName: call.toolName, result };
  const turn: Message = { role: "assistant", content: [{ type: "tool-call", call }] };
  const updatedMessages = [...messages, ...(existing === undefined ? [turn] : []), answer];
  const isCancelled = !result.success && result.error.code === "CANCELLED";
  const isComplete = !findProblems(updatedMessages).some(({ kind }) => kind === "unanswered-call");
  return { updatedMessages, shouldContinue: !isCancelled && isComplete };
}
