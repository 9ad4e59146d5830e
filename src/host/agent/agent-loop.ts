// AgentLoop: a model and a router take turns until the model has said what it had to say. Always one outcome, never a call without an answer.
import { randomUUID } from "node:crypto";
import { ToolError, toToolError } from "../../sandbox/errors.ts";
import type { ToolContext } from "../tool-call.ts";
import type { AgentEvent, AgentOutcome, AgentStream } from "./agent-events.ts";
import { type AgentLoopOptions, parseRunOptions, type RunOptions } from "./agent-options.ts";
import { AgentRun } from "./agent-run.ts";
import { type AgentRouter, callTool, toCallRouter } from "./call-tool.ts";
import { callsOf, checkConversation } from "./conversation.ts";
import { createEventStream } from "./event-stream.ts";
import type { Message, ModelToolCall } from "./model.ts";

/** A call by itself, as a host has it that drives its model on its own. */
export type SingleCall = Pick<ModelToolCall, "id" | "toolName"> & Partial<ModelToolCall>;

export interface SingleTurn {
  /** A new array: the conversation, with the call (where it was not in it) and its answer. */
  readonly updatedMessages: readonly Message[];
  /** Whether the model is to be asked again: not when the call was cancelled, nor while other calls of its turn have no answer. */
  readonly shouldContinue: boolean;
}

function toModelCall(call: SingleCall): ModelToolCall {
  const { id, toolName, argumentsText, kind = "function" } = call;
  const text = argumentsText ?? (call.arguments === undefined ? "{}" : (JSON.stringify(call.arguments) ?? ""));
  return { ...call, id, toolName, kind, argumentsText: text };
}

/** What can be read of anything as a call; the router says what is wrong with the rest. */
function readSingleCall(call: SingleCall): ModelToolCall {
  try {
    const read = toModelCall(call);
    if (typeof read.id === "string" && typeof read.toolName === "string") return read;
  } catch {
    // As below.
  }
  const problem = "Expected a call { id, toolName, arguments }, got something else";
  return { id: `call_${randomUUID()}`, toolName: "unknown", argumentsText: "", problem, kind: "function" };
}

/**
 * Turns of a model with tools. Reusable: a loop keeps nothing between runs.
 *
 * A tool starts as soon as the model has said its call, while the model's stream is still read; its failure is the call's answer, and
 * the conversation goes on.
 */
export class AgentLoop {
  readonly #defaults: AgentLoopOptions;

  /** @param options what all runs share; each may state it otherwise */
  constructor(options: AgentLoopOptions = {}) {
    this.#defaults = options;
  }

  /**
   * Runs one call and puts its answer into the conversation; a call that is not in the last turn is added to it. Never throws and never
   * rejects for what a tool or a model has done: a failure is the call's answer. Nobody is asked for approval.
   * Rejects with a ToolError, PARAM_INVALID, where `router` or `messages` is none.
   */
  async executeSingleTurn(
    messages: readonly Message[],
    toolCall: SingleCall,
    router: AgentRouter,
    context: ToolContext = {},
  ): Promise<SingleTurn> {
    const own = toCallRouter(router);
    if (!Array.isArray(messages)) throw new ToolError("PARAM_INVALID", "messages: expected an array of messages");
    const given = readSingleCall(toolCall);
    const last = messages.findLastIndex(({ role }) => role === "assistant");
    const isOpen = checkConversation(messages).some(
      ({ kind, messageIndex, callId }) => kind === "unanswered-call" && messageIndex === last && callId === given.id,
    );
    const said = isOpen ? callsOf(messages[last]).find(({ id }) => id === given.id) : undefined;
    const isBare = toolCall?.arguments === undefined && toolCall?.argumentsText === undefined;
    const call = said !== undefined && isBare ? said : given;
    const result = await callTool(own, call, context);
    const answer: Message = { role: "tool", callId: call.id, toolName: call.toolName, result };
    const turn: Message = { role: "assistant", content: [{ type: "tool-call", call }] };
    const updatedMessages = [...messages, ...(said === undefined ? [turn] : []), answer];
    const isCancelled = !result.success && result.error.code === "CANCELLED";
    const isWhole = !checkConversation(updatedMessages).some(({ kind }) => kind === "unanswered-call");
    return { updatedMessages, shouldContinue: !isCancelled && isWhole };
  }

  /**
   * Runs a conversation to its end, or until calls wait for approval. Resolves with its outcome, whatever model and tools do.
   * Rejects with a ToolError, PARAM_INVALID, for options that are wrong, and for a state that cannot be resumed.
   */
  async run(options: RunOptions): Promise<AgentOutcome> {
    const run = await this.#open(options, undefined);
    return await run.finish(undefined);
  }

  /**
   * The same, told as it goes: events, and the outcome as the last one. It begins when the first is asked for; a slow reader slows the
   * model's stream down, not the tools.
   * Never rejects: what `run` rejects with is an outcome (`failed`) here.
   */
  stream(options: RunOptions): AgentStream {
    return createEventStream<AgentEvent>(async (events, stop) => {
      try {
        const run = await this.#open(options, stop);
        return { type: "outcome", ...(await run.finish(events)) };
      } catch (thrown) {
        return { type: "outcome", ...refused(options, thrown) };
      }
    });
  }

  async #open(given: RunOptions, stop: AbortSignal | undefined): Promise<AgentRun> {
    const options = { ...this.#defaults, ...given };
    const settings = parseRunOptions(options);
    const signals = [settings.signal, stop].filter((signal) => signal !== undefined);
    const signal = signals.length === 1 ? (signals[0] as AbortSignal) : AbortSignal.any(signals);
    return await AgentRun.open(settings, given, signal);
  }
}

function refused({ messages }: RunOptions, thrown: unknown): AgentOutcome {
  const error = toToolError(thrown).toData("the agent");
  const usage = { inputTokens: 0, outputTokens: 0 };
  return { status: "failed", error, messages: Array.isArray(messages) ? messages : [], text: "", steps: [], usage };
}
