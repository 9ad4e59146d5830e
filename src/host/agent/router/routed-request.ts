// One request of a ToolsRouterAgent: narrows the tools, lets the model choose one, runs it, and lets the model answer, with retries.
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type ToolDefinition, trustedAnnotations } from "../../../sandbox/contract/definition.ts";
import { ToolError, type ToolErrorData, toToolError } from "../../../sandbox/contract/errors.ts";
import { createToolFailureMessage } from "../../contract/failure-message.ts";
import type { CallContext, ToolResult } from "../../contract/tool-call.ts";
import { type ToolValue, toJson } from "../../contract/tool-value.ts";
import { toFailure } from "../../pipeline/normalize.ts";
import { notifySafely } from "../../util/host-callback.ts";
import { parseMessages } from "../check-messages.ts";
import { callsOf, mend, textOf } from "../conversation.ts";
import type { EventQueue } from "../event-stream.ts";
import { fallbackText } from "../fallback.ts";
import type { Message, ModelRequest, ModelToolCall, ModelUsage } from "../model.ts";
import { type ModelTurn, readTurn } from "../model-turn.ts";
import { type OfferedTool, type OfferedTools, offeredTools } from "../tools/offered-tools.ts";
import type { ToolSearch } from "../tools/tool-search.ts";
import {
  type DecisionReading,
  NO_TOOL,
  type RoutingDecision,
  readCallAsDecision,
  readDecision,
} from "./routing-decision.ts";
import { type RejectedReply, toAnswerRules, toDecisionSchema, toRoutingMessages } from "./routing-prompt.ts";
import type { ToolsRouterEvent, ToolsRouterOutcome } from "./tools-router-events.ts";
import type { FallbackStage, ToolsRequest, ToolsRouterSettings } from "./tools-router-options.ts";

/** Errors after which a failed tool is never run again, because the same call would fail again. */
const NEVER_RETRIED: ReadonlySet<string> = new Set([
  "PARAM_INVALID",
  "NAME_TAKEN",
  "CANCELLED",
  "APPROVAL_REQUIRED",
  "QUOTA_EXCEEDED",
]);
const MAX_DELAY_MS = 60_000;
/** Length of an unusable reply, in UTF-16 code units, that the model is shown again. */
const MAX_REPLY_LENGTH = 4_000;
/** Length of a tool's chunks, as JSON in UTF-16 code units, that the answer is made from. */
const MAX_CHUNKS_LENGTH = 64 * 1024;
const MAX_NAMED = 50;

/** Returns the search query: the user's last message, followed by the one before it. */
function queryOf(messages: readonly Message[]): string {
  const texts = messages.flatMap((message) => {
    if (message.role !== "user") return [];
    if (typeof message.content === "string") return [message.content];
    return [message.content.map((part) => (part.type === "text" ? part.text : "")).join(" ")];
  });
  return texts.slice(-2).toReversed().join("\n");
}

function toConversation(request: ToolsRequest): readonly Message[] {
  if (typeof request === "string") return [{ role: "user", content: request }];
  return mend(parseMessages(request, "request"));
}

/** The chosen tool, or why none was chosen. */
type Choice = { readonly tool: OfferedTool; readonly decision: RoutingDecision } | typeof NO_TOOL | ToolError;

export class RoutedRequest {
  readonly #settings: ToolsRouterSettings;
  readonly #search: ToolSearch;
  readonly #signal: AbortSignal;
  readonly #conversation: readonly Message[];
  readonly #executionId: string;
  readonly #rejectedReplies: RejectedReply[] = [];
  readonly #attempts = { routing: 0, tool: 0 };
  #usage: ModelUsage = { inputTokens: 0, outputTokens: 0 };
  #events: EventQueue<ToolsRouterEvent> | undefined;

  /** @throws {ToolError} PARAM_INVALID for an invalid request */
  constructor(request: ToolsRequest, settings: ToolsRouterSettings, search: ToolSearch, signal: AbortSignal) {
    this.#conversation = toConversation(request);
    this.#settings = settings;
    this.#search = search;
    this.#signal = signal;
    this.#executionId = settings.context.executionId ?? randomUUID();
  }

  /** Runs to the end. Always resolves. Call it once. */
  async finish(events: EventQueue<ToolsRouterEvent> | undefined): Promise<ToolsRouterOutcome> {
    this.#events = events;
    try {
      return await this.#finish();
    } catch (thrown) {
      if (this.#signal.aborted) return { status: "cancelled", ...this.#baseOutcome("") };
      const error = toToolError(thrown);
      notifySafely(this.#settings.onError, error);
      return this.#failed(error);
    }
  }

  async #finish(): Promise<ToolsRouterOutcome> {
    const offered = new Map(await offeredTools(this.#settings, this.#signal));
    offered.delete(NO_TOOL);
    const candidates = await this.#narrow(offered);
    for (;;) {
      const choice = candidates.length === 0 ? NO_TOOL : await this.#choose(offered, candidates);
      if (choice === NO_TOOL) return await this.#answerWithoutTool();
      if (choice instanceof ToolError) return this.#failed(choice);
      const { tool, decision } = choice;
      const { result, chunks } = await this.#runTool(tool, decision);
      this.#signal.throwIfAborted();
      if (result.success) return await this.#answer(tool.definition, decision, result, chunks);
      // The model can correct invalid inputs.
      const canCorrect = result.error.code === "PARAM_INVALID" && this.#routingLeft > 0;
      if (!canCorrect)
        return {
          status: "failed",
          stage: "tool",
          error: result.error,
          decision,
          result,
          ...this.#baseOutcome(this.#fallback("tool", result.error)),
        };
      this.#rejectReply(JSON.stringify(decision), createToolFailureMessage(result) ?? "");
    }
  }

  #emit(event: ToolsRouterEvent, key?: string): void {
    this.#events?.push(event, key);
  }

  #baseOutcome(text: string): Pick<ToolsRouterOutcome, "text" | "attempts" | "usage"> {
    return { text, attempts: { ...this.#attempts }, usage: this.#usage };
  }

  #fallback(stage: FallbackStage, error?: ToolErrorData): string {
    return fallbackText(this.#settings.fallback, stage, error);
  }

  #failed(thrown: ToolError): ToolsRouterOutcome {
    const error = thrown.toData("the model");
    return { status: "failed", stage: "routing", error, ...this.#baseOutcome(this.#fallback("routing", error)) };
  }

  get #routingLeft(): number {
    return 1 + this.#settings.routingRetries - this.#attempts.routing;
  }

  #rejectReply(reply: string, problem: string): void {
    this.#rejectedReplies.push({ reply: reply.slice(0, MAX_REPLY_LENGTH) || "(nothing)", problem });
  }

  /** Returns the tools that the model is shown: the search results if there are more than `maxTools`. */
  async #narrow(offered: OfferedTools): Promise<readonly ToolDefinition[]> {
    const { maxTools } = this.#settings;
    const all = [...offered.values()].map(({ definition }) => definition);
    if (all.length <= maxTools) return all;
    const found = (await this.#search.indexOf(all)).search(queryOf(this.#conversation), maxTools);
    // A request worded unlike the tools finds few of them; tools without a match fill the remaining places.
    const rest = all.filter((definition) => !found.includes(definition)).slice(0, maxTools - found.length);
    const candidates = [...found, ...rest];
    this.#emit({ type: "candidates", total: all.length, toolNames: candidates.map(({ name }) => name) });
    return candidates;
  }

  async #wait(stage: "routing" | "tool", attempt: number, problem: string, atLeastMs = 0): Promise<void> {
    const delayMs = Math.min(MAX_DELAY_MS, Math.max(atLeastMs, this.#settings.backoffMs * attempt));
    this.#emit({ type: "retry", stage, attempt, delayMs, problem });
    if (delayMs > 0) await pause(delayMs, undefined, { signal: this.#signal });
  }

  async #runModel(request: Omit<ModelRequest, "signal">, onText?: (text: string) => void): Promise<ModelTurn> {
    const turn = await readTurn(
      this.#settings.model,
      { ...request, signal: this.#signal },
      { ...(onText === undefined ? {} : { onText }), room: () => this.#events?.room() },
    );
    this.#signal.throwIfAborted();
    const { usage, error } = turn;
    this.#usage = {
      inputTokens: this.#usage.inputTokens + (usage?.inputTokens ?? 0),
      outputTokens: this.#usage.outputTokens + (usage?.outputTokens ?? 0),
    };
    if (error !== undefined) notifySafely(this.#settings.onError, error);
    return turn;
  }

  /** Requests decisions until one names a tool or no attempts are left. */
  async #choose(offered: OfferedTools, candidates: readonly ToolDefinition[]): Promise<Choice> {
    const { instructions, responseSchema } = this.#settings;
    let failure: ToolError | undefined;
    while (this.#routingLeft > 0) {
      const problem = failure?.message ?? this.#rejectedReplies.at(-1)?.problem ?? "";
      if (this.#attempts.routing > 0) await this.#wait("routing", this.#attempts.routing, problem);
      this.#attempts.routing += 1;
      const turn = await this.#runModel({
        messages: toRoutingMessages(this.#conversation, candidates, this.#rejectedReplies, instructions),
        tools: [],
        ...(responseSchema ? { responseSchema: toDecisionSchema(candidates) } : {}),
      });
      failure = turn.error;
      if (failure !== undefined && isPermanentFailure(failure)) break;
      if (failure !== undefined) continue;
      const reading = this.#read(turn, offered, candidates);
      if ("decision" in reading) {
        const { decision } = reading;
        this.#emit({ type: "decision", decision, attempt: this.#attempts.routing });
        const tool = offered.get(decision.tool);
        return tool === undefined ? NO_TOOL : { tool, decision };
      }
      this.#rejectReply(textOf(turn.message), reading.problem);
    }
    return (
      failure ??
      new ToolError("INTERNAL", "The model made no usable decision", {
        details: { problem: this.#rejectedReplies.at(-1)?.problem ?? "" },
      })
    );
  }

  #read(turn: ModelTurn, offered: OfferedTools, candidates: readonly ToolDefinition[]): DecisionReading {
    const reading = readReply(turn);
    if (!("decision" in reading)) return reading;
    const { tool } = reading.decision;
    // A tool is valid even if the search did not show it.
    if (tool === NO_TOOL || offered.has(tool)) return reading;
    const names = candidates.slice(0, MAX_NAMED).map(({ name }) => name);
    const problem = `There is no tool named ${JSON.stringify(tool.slice(0, 128))}; choose one of: ${[...names, NO_TOOL].join(", ")}`;
    return { problem };
  }

  /** Runs the tool, and retries it where that can help. */
  async #runTool({ definition, digest }: OfferedTool, decision: RoutingDecision): Promise<ToolRun> {
    for (let retry = 1; ; retry += 1) {
      this.#attempts.tool += 1;
      const run = await this.#runOnce(decision, digest);
      const { result } = run;
      this.#emit({ type: "tool-result", result });
      if (result.success || this.#signal.aborted || retry > this.#settings.toolRetries) return run;
      const { error } = result;
      if (!error.recoverable || NEVER_RETRIED.has(error.code) || !mayRunAgain(definition)) return run;
      const retryAfterMs = error.details?.retryAfterMs;
      const atLeastMs = typeof retryAfterMs === "number" ? retryAfterMs : 0;
      await this.#wait("tool", retry, createToolFailureMessage(result) ?? error.message, atLeastMs);
    }
  }

  async #runOnce({ tool: toolName, inputs }: RoutingDecision, toolDigest: string): Promise<ToolRun> {
    const { callRouter, context, streamTools } = this.#settings;
    const callId = `call_${randomUUID()}`;
    const call = { id: callId, toolName, arguments: inputs };
    const started = performance.now();
    this.#emit({ type: "tool-start", callId, toolName });
    const callContext: CallContext = {
      ...context,
      executionId: this.#executionId,
      signal: this.#signal,
      toolDigest,
      onLog: (entry) => this.#emit({ type: "tool-log", callId, entry }),
      onProgress: (progress) => this.#emit({ type: "tool-progress", callId, progress }, callId),
    };
    const chunks: ToolValue[] = [];
    try {
      if (this.#events === undefined || !streamTools)
        return { result: await callRouter.execute(call, callContext), chunks };
      let left = MAX_CHUNKS_LENGTH;
      for await (const item of callRouter.stream(call, callContext)) {
        if (item.type === "result") {
          const { type: _type, ...result } = item;
          return { result, chunks };
        }
        this.#emit({ type: "tool-chunk", callId, value: item.value });
        if (left > 0) {
          left -= JSON.stringify(toJson(item.value)).length;
          if (left >= 0) chunks.push(item.value);
        }
        await this.#events.room();
      }
      throw new ToolError("INTERNAL", "The router's stream ended without a result");
    } catch (thrown) {
      return { result: toFailure({ callId, toolName, started }, toToolError(thrown)), chunks };
    }
  }

  async #answerWithoutTool(): Promise<ToolsRouterOutcome> {
    const { answer, instructions } = this.#settings;
    if (!answer) return { status: "none", ...this.#baseOutcome(this.#fallback("none")) };
    const { text } = await this.#answerText([toAnswerRules(false, instructions), ...this.#conversation], []);
    return { status: "none", ...this.#baseOutcome(text || this.#fallback("none")) };
  }

  async #answer(
    definition: ToolDefinition,
    decision: RoutingDecision,
    result: Extract<ToolResult, { success: true }>,
    chunks: readonly ToolValue[],
  ): Promise<ToolsRouterOutcome> {
    const { answer, instructions } = this.#settings;
    if (!answer) return { status: "answered", decision, result, ...this.#baseOutcome("") };
    const call: ModelToolCall = {
      id: result.callId,
      toolName: decision.tool,
      kind: "function",
      arguments: decision.inputs,
      argumentsText: JSON.stringify(decision.inputs),
    };
    // The output of a tool that returned nothing is what it yielded.
    const shown = result.output === null && chunks.length > 0 ? { ...result, output: chunks } : result;
    const messages: readonly Message[] = [
      toAnswerRules(true, instructions),
      ...this.#conversation,
      { role: "assistant", content: [{ type: "tool-call", call }] },
      { role: "tool", callId: call.id, toolName: call.toolName, result: shown },
    ];
    const { text, error } = await this.#answerText(messages, [definition]);
    const data = error?.toData("the model");
    return {
      status: "answered",
      decision,
      result,
      ...this.#baseOutcome(text || this.#fallback("answer", data)),
      ...(data === undefined ? {} : { error: data }),
    };
  }

  /** Requests the answer's text. An answer that broke off is discarded. */
  async #answerText(
    messages: readonly Message[],
    tools: readonly ToolDefinition[],
  ): Promise<{ readonly text: string; readonly error: ToolError | undefined }> {
    const request = { messages, tools, ...(tools.length === 0 ? {} : { toolChoice: "none" as const }) };
    const { message, error } = await this.#runModel(request, (text) => this.#emit({ type: "text-delta", text }));
    return { text: error === undefined ? textOf(message) : "", error };
  }
}

interface ToolRun {
  readonly result: ToolResult;
  /** The chunks that the tool yielded, possibly truncated. */
  readonly chunks: readonly ToolValue[];
}

/**
 * Returns whether a tool can be repeated: it may have had effects before it failed. An upstream server can say that its tool is destructive, but
 * only a trusted one that it can be repeated nevertheless.
 */
const mayRunAgain = (definition: ToolDefinition): boolean =>
  definition.annotations?.destructiveHint !== true || trustedAnnotations(definition)?.idempotentHint === true;

/** Returns whether a provider would reject the request again, for example because of a wrong key or an unknown model. */
function isPermanentFailure({ details }: ToolError): boolean {
  const status = details?.status;
  return typeof status === "number" && status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status);
}

function readReply({ message }: ModelTurn): DecisionReading {
  const [call, ...others] = callsOf(message);
  if (call === undefined) return readDecision(textOf(message));
  if (others.length > 0) return { problem: `Expected exactly one tool, got ${others.length + 1} calls` };
  return readCallAsDecision(call.toolName, call.arguments, call.argumentsText);
}
