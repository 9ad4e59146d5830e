// One call by itself, for a host that drives its model on its own: AgentLoop.executeSingleTurn().
import { randomUUID } from "node:crypto";
import { ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { ToolContext, ToolResult } from "../contract/tool-call.ts";
import { toFailure } from "../pipeline/normalize.ts";
import { ignoreOutcome, isThenable } from "../util/host-callback.ts";
import { type ApprovalRule, needsApproval } from "./approval.ts";
import { callAgentTool } from "./call-tool.ts";
import { callsOf, findProblems } from "./conversation.ts";
import type { Message, ModelToolCall } from "./model.ts";
import { notOffered, type Offer, offeredTools } from "./offered-tools.ts";

/** A call as a host has it that drives its model on its own. */
export type SingleCall = Pick<ModelToolCall, "id" | "toolName"> & Partial<ModelToolCall>;

export interface SingleTurn {
  /** A new array: the conversation, with the call (if it was not in it) and its answer. */
  readonly updatedMessages: readonly Message[];
  /** Whether to call the model again: false if the call was cancelled, and while other calls of its turn have no answer. */
  readonly shouldContinue: boolean;
}

/** The guards of the loop, and the context of this call. */
interface SingleTurnParts extends Omit<Offer, "context"> {
  readonly context: ToolContext;
  readonly needsApproval?: ApprovalRule | undefined;
}

const FIELDS: Record<keyof ModelToolCall, true> = {
  ...{ id: true, toolName: true, argumentsText: true, arguments: true, problem: true, kind: true, itemId: true },
};

/** Returns a problem of the call that the router does not find. With `args` for `arguments` a tool would run on {}. */
function problemOf(call: SingleCall): string | undefined {
  const { argumentsText, arguments: args } = call;
  const unknown = Object.keys(call).find((key) => !Object.hasOwn(FIELDS, key));
  if (unknown !== undefined) return `The call has an unknown key ${JSON.stringify(unknown.slice(0, 50))}`;
  if (argumentsText !== undefined && typeof argumentsText !== "string") return "argumentsText: Expected text";
  if (!isThenable(args)) return undefined;
  ignoreOutcome(() => args);
  return "arguments: Expected a JSON value, got a promise: await it first";
}

/** Reads a call from anything; the router says what is wrong with the rest. */
function readSingleCall(call: SingleCall): ModelToolCall {
  try {
    const { id, toolName, argumentsText, kind = "function" } = call;
    if (isPlainObject(call) && typeof id === "string" && typeof toolName === "string") {
      const problem = problemOf(call);
      if (problem !== undefined) return { id, toolName, argumentsText: "", problem, kind: "function" };
      const text = argumentsText ?? (call.arguments === undefined ? "{}" : (JSON.stringify(call.arguments) ?? ""));
      return { ...call, id, toolName, kind, argumentsText: text };
    }
  } catch {
    // As below.
  }
  const problem = "Expected a call { id, toolName, arguments }, got something else";
  return { id: `call_${randomUUID()}`, toolName: "unknown", argumentsText: "", problem, kind: "function" };
}

/** Runs a call if the loop's guards admit it, as the tool that they saw. Always resolves. */
async function callGuarded(
  call: ModelToolCall,
  messages: readonly Message[],
  parts: SingleTurnParts,
): Promise<ToolResult> {
  const { callRouter, context, tools, needsApproval: rule, onError } = parts;
  if ((tools === undefined && rule === undefined) || call.problem !== undefined) {
    return await callAgentTool(callRouter, call, context);
  }
  const started = performance.now();
  try {
    const { tenantId, signal = new AbortController().signal } = context;
    const offered = await offeredTools(parts, signal);
    const tool = offered.get(call.toolName);
    if (tool === undefined) throw notOffered(call.toolName, offered);
    const { definition, digest: toolDigest } = tool;
    if ((context.toolDigest ?? toolDigest) !== toolDigest) {
      throw new ToolError("APPROVAL_REQUIRED", `The tool ${call.toolName} is not the one of context.toolDigest`);
    }
    const question = { call, definition, toolDigest, tenantId, messages };
    if (await needsApproval(rule, question, { onError, signal })) {
      signal.throwIfAborted();
      throw new ToolError("APPROVAL_REQUIRED", `The call of ${call.toolName} needs approval and was not run`);
    }
    return await callAgentTool(callRouter, call, { ...context, toolDigest });
  } catch (thrown) {
    const error = context.signal?.aborted === true ? new ToolError("CANCELLED", "The call was cancelled") : thrown;
    return toFailure({ callId: call.id, toolName: call.toolName, started }, toToolError(error));
  }
}

/** Runs a call and puts its answer into the conversation. Always resolves. */
export async function runSingleTurn(
  messages: readonly Message[],
  toolCall: SingleCall,
  parts: SingleTurnParts,
): Promise<SingleTurn> {
  const given = readSingleCall(toolCall);
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  const isOpen = findProblems(messages).some(
    ({ kind, messageIndex, callId }) => kind === "unanswered-call" && messageIndex === last && callId === given.id,
  );
  const said = isOpen ? callsOf(messages[last]).find(({ id }) => id === given.id) : undefined;
  const isBare =
    given.problem === undefined && toolCall.arguments === undefined && toolCall.argumentsText === undefined;
  const call = said !== undefined && isBare ? said : given;
  const result = await callGuarded(call, messages, parts);
  const answer: Message = { role: "tool", callId: call.id, toolName: call.toolName, result };
  const turn: Message = { role: "assistant", content: [{ type: "tool-call", call }] };
  const updatedMessages = [...messages, ...(said === undefined ? [turn] : []), answer];
  const isCancelled = !result.success && result.error.code === "CANCELLED";
  const isWhole = !findProblems(updatedMessages).some(({ kind }) => kind === "unanswered-call");
  return { updatedMessages, shouldContinue: !isCancelled && isWhole };
}
