// One run of an AgentLoop: its conversation, its steps, and the calls of the current step.
import { randomUUID } from "node:crypto";
import { ToolError, toToolError } from "../../../sandbox/contract/errors.ts";
import type { ToolResult } from "../../contract/tool-call.ts";
import { failedResultOf } from "../../pipeline/normalize.ts";
import { notifySafely, runCallback } from "../../util/host-callback.ts";
import { PREPARE_TIMEOUT_MS } from "../callback-bounds.ts";
import { parseMessages } from "../check-messages.ts";
import { callsOf, textOf } from "../conversation.ts";
import type { EventQueue } from "../event-stream.ts";
import type { Message, ModelRequest, ModelToolCall, ModelUsage } from "../model.ts";
import { type ModelTurn, readTurn } from "../model-turn.ts";
import { ConcurrencyLimiter, callAgentTool } from "../tools/call-tool.ts";
import { notOffered, type OfferedTool, type OfferedTools, offeredTools } from "../tools/offered-tools.ts";
import { type ApprovalRequest, needsApproval } from "./agent-approval-rule.ts";
import type { AgentEvent, AgentOutcome } from "./agent-events.ts";
import type { AgentRunInput, RunSettings } from "./agent-options.ts";
import { toAgentState } from "./agent-state.ts";
import { type AgentRunStart, type DecidedCall, startRun } from "./run-start.ts";
import { type AgentStep, checkCondition, type StopState } from "./stop-conditions.ts";

/** A call of the current step. Its answer is a result, or a request for approval. */
interface OpenCall {
  readonly call: ModelToolCall;
  readonly answer: Promise<ToolResult | ApprovalRequest>;
}

const isWaiting = (answer: ToolResult | ApprovalRequest): answer is ApprovalRequest => "definition" in answer;

const add = (a: ModelUsage, b: ModelUsage | undefined): ModelUsage => ({
  inputTokens: a.inputTokens + (b?.inputTokens ?? 0),
  outputTokens: a.outputTokens + (b?.outputTokens ?? 0),
});

export class AgentRun {
  readonly #settings: RunSettings;
  readonly #signal: AbortSignal;
  readonly #limiter: ConcurrencyLimiter;
  readonly #executionId: string;
  readonly #decidedCalls: readonly DecidedCall[];
  readonly #messages: Message[];
  readonly #steps: AgentStep[] = [];
  /** Ids of all calls in the conversation. */
  readonly #callIds: Set<string>;
  #stepCount: number;
  #usage: ModelUsage;
  #events: EventQueue<AgentEvent> | undefined;

  private constructor(settings: RunSettings, start: AgentRunStart, signal: AbortSignal) {
    this.#settings = settings;
    this.#signal = signal;
    this.#limiter = new ConcurrencyLimiter(settings.maxParallelTools);
    this.#executionId = settings.context.executionId ?? randomUUID();
    this.#messages = [...start.messages];
    this.#callIds = new Set(start.messages.flatMap((message) => callsOf(message).map(({ id }) => id)));
    this.#stepCount = start.stepCount;
    this.#usage = start.usage;
    this.#decidedCalls = start.decided;
  }

  /** Opens a run. Rejects as {@link startRun} does. */
  static async open(settings: RunSettings, input: AgentRunInput, signal: AbortSignal): Promise<AgentRun> {
    return new AgentRun(settings, await startRun(settings, input, signal), signal);
  }

  /** Runs to the end. Always resolves. Call it once. */
  async finish(events: EventQueue<AgentEvent> | undefined): Promise<AgentOutcome> {
    this.#events = events;
    try {
      const waiting = await this.#answerDecided();
      if (this.#signal.aborted) return { status: "cancelled", ...this.#baseOutcome() };
      if (waiting.length > 0) return this.#pause(waiting);
      if (this.#stepCount >= this.#settings.maxSteps)
        return { status: "finished", reason: "max-steps", ...this.#baseOutcome() };
      for (;;) {
        const outcome = await this.#step();
        if (outcome !== undefined) return outcome;
      }
    } catch (thrown) {
      return this.#fail(thrown);
    }
  }

  #emit(event: AgentEvent, key?: string): void {
    this.#events?.push(event, key);
  }

  #baseOutcome(): Pick<AgentOutcome, "messages" | "text" | "steps" | "usage"> {
    const last = this.#steps.at(-1)?.message;
    return {
      messages: this.#messages,
      text: last === undefined ? "" : textOf(last),
      steps: this.#steps,
      usage: this.#usage,
    };
  }

  #fail(thrown: unknown): AgentOutcome {
    if (this.#signal.aborted) return { status: "cancelled", ...this.#baseOutcome() };
    const error = toToolError(thrown);
    notifySafely(this.#settings.onError, error);
    return { status: "failed", ...this.#baseOutcome(), error: error.toData("the model") };
  }

  /**
   * Answers the calls that were decided about; approved calls run in parallel, like those of a turn. Returns the calls whose tool is no
   * longer the one that was approved: they wait for approval again.
   */
  async #answerDecided(): Promise<readonly ApprovalRequest[]> {
    if (this.#decidedCalls.length === 0) return [];
    let offered: OfferedTools;
    try {
      offered = await this.#offered();
    } catch (thrown) {
      // The state was claimed and cannot be resumed again, so its calls must have an answer here.
      const failed = this.#signal.aborted ? createCancelledError() : toToolError(thrown);
      for (const { call, error } of this.#decidedCalls)
        this.#pushAnswer(this.#emitResult(toFailedResult(call, error ?? failed)));
      throw thrown;
    }
    const open = this.#decidedCalls.map((decided) => ({
      call: decided.call,
      answer: this.#answerDecision(decided, offered),
    }));
    const { results, waiting } = await this.#settle(open);
    for (const result of results) this.#pushAnswer(result);
    return waiting;
  }

  #answerDecision(
    { call, toolDigest, error }: DecidedCall,
    offered: OfferedTools,
  ): Promise<ToolResult | ApprovalRequest> {
    if (error !== undefined) return this.#answer(toFailedResult(call, error));
    const tool = offered.get(call.toolName);
    return tool === undefined || tool.digest === toolDigest
      ? this.#run(call, offered)
      : this.#requestApproval(call, tool);
  }

  /** Requests approval of a call. */
  async #requestApproval(
    call: ModelToolCall,
    { definition, digest: toolDigest }: OfferedTool,
  ): Promise<ApprovalRequest> {
    this.#emit({ type: "approval-request", step: this.#stepCount, call, definition, toolDigest });
    return { call, definition, toolDigest };
  }

  #pushAnswer(result: ToolResult): void {
    this.#messages.push({ role: "tool", callId: result.callId, toolName: result.toolName, result });
  }

  #offered(): Promise<OfferedTools> {
    return offeredTools(this.#settings, this.#signal);
  }

  /** Returns the messages that the model is shown. Rejects if the host's function fails. */
  async #shownMessages(): Promise<readonly Message[]> {
    const { prepareMessages } = this.#settings;
    if (prepareMessages === undefined) return this.#messages;
    const bounds = { timeoutMs: PREPARE_TIMEOUT_MS, signal: this.#signal };
    const outcome = await runCallback(() => prepareMessages(this.#messages), bounds);
    this.#signal.throwIfAborted();
    if ("answer" in outcome) return parseMessages(outcome.answer, "The return value of prepareMessages");
    throw new ToolError("INTERNAL", `prepareMessages ${outcome.failed}`, { cause: outcome.cause });
  }

  async #request(offered: OfferedTools): Promise<ModelRequest> {
    const { toolChoice, responseSchema, maxParallelTools } = this.#settings;
    const messages = await this.#shownMessages();
    const choice = this.#stepCount === 1 || toolChoice === "none" ? toolChoice : undefined;
    return {
      // The model may modify or keep the array.
      messages: [...messages],
      tools: [...offered.values()].map(({ definition }) => definition),
      ...(choice === undefined ? {} : { toolChoice: choice }),
      ...(maxParallelTools === 1 ? { parallelToolCalls: false } : {}),
      ...(responseSchema === undefined ? {} : { responseSchema }),
      signal: this.#signal,
    };
  }

  /** Runs one turn of the model and its calls. Returns undefined if the conversation goes on. */
  async #step(): Promise<AgentOutcome | undefined> {
    this.#signal.throwIfAborted();
    this.#stepCount += 1;
    const step = this.#stepCount;
    this.#emit({ type: "step-start", step });
    const offered = await this.#offered();
    const request = await this.#request(offered);
    const before = this.#messages.length;
    const open: OpenCall[] = [];
    const turn = await readTurn(
      this.#settings.model,
      request,
      {
        onText: (text) => this.#emit({ type: "text-delta", step, text }),
        onCall: (call) => open.push({ call, answer: this.#admit(call, offered, before) }),
        room: () => this.#events?.room(),
      },
      this.#callIds,
    );
    if (turn.error !== undefined && turn.error.code !== "CANCELLED") {
      notifySafely(this.#settings.onError, turn.error);
      this.#emit({ type: "error", step, error: turn.error.toData("the model") });
    }
    if (turn.message.content.length > 0) this.#messages.push(turn.message);
    const waiting = await this.#endStep(turn, open);
    return await this.#nextOutcome(turn, open, waiting);
  }

  /** Waits for calls, and separates results from requests for approval. */
  async #settle(
    open: readonly OpenCall[],
  ): Promise<{ results: readonly ToolResult[]; waiting: readonly ApprovalRequest[] }> {
    const answers = await Promise.all(open.map(({ answer }) => answer));
    const waiting: ApprovalRequest[] = [];
    const results: ToolResult[] = [];
    for (const answer of answers) {
      if (!isWaiting(answer)) results.push(answer);
      // No decision can follow for a run that has ended.
      else if (this.#signal.aborted)
        results.push(this.#emitResult(toFailedResult(answer.call, createCancelledError())));
      else waiting.push(answer);
    }
    return { results, waiting };
  }

  /** Ends a turn: waits for its calls, and returns those that wait for approval. */
  async #endStep(turn: ModelTurn, open: readonly OpenCall[]): Promise<readonly ApprovalRequest[]> {
    const { message, reason, usage } = turn;
    const { results, waiting } = await this.#settle(open);
    for (const result of results) this.#pushAnswer(result);
    this.#usage = add(this.#usage, usage);
    const step: AgentStep = { message, results, reason, ...(usage === undefined ? {} : { usage }) };
    this.#steps.push(step);
    this.#emit({ type: "step-end", step: this.#stepCount, ...step });
    return waiting;
  }

  async #nextOutcome(
    { reason, error }: ModelTurn,
    open: readonly OpenCall[],
    waiting: readonly ApprovalRequest[],
  ): Promise<AgentOutcome | undefined> {
    if (this.#signal.aborted) return { status: "cancelled", ...this.#baseOutcome() };
    if (waiting.length > 0) return this.#pause(waiting);
    if (open.length === 0) {
      if (error === undefined) return { status: "finished", reason, ...this.#baseOutcome() };
      return { status: "failed", error: error.toData("the model"), ...this.#baseOutcome() };
    }
    // Calls that were complete before the stream broke off have run and have answers, so the model can go on from there.
    if (await this.#shouldStop()) return { status: "finished", reason: "stop-condition", ...this.#baseOutcome() };
    if (this.#stepCount >= this.#settings.maxSteps)
      return { status: "finished", reason: "max-steps", ...this.#baseOutcome() };
    return undefined;
  }

  async #shouldStop(): Promise<boolean> {
    const { stopConditions } = this.#settings;
    if (stopConditions.length === 0) return false;
    const state: StopState = {
      steps: this.#steps,
      stepCount: this.#stepCount,
      messages: this.#messages,
      usage: this.#usage,
    };
    for (const condition of stopConditions) if (await checkCondition(condition, state, this.#signal)) return true;
    return false;
  }

  #pause(waiting: readonly ApprovalRequest[]): AgentOutcome {
    const state = toAgentState(
      {
        tenantId: this.#settings.context.tenantId,
        stepCount: this.#stepCount,
        usage: this.#usage,
        messages: this.#messages,
        pending: waiting,
      },
      // parseRunOptions requires a key where a run can pause.
      this.#settings.signingKey ?? "unsigned",
    );
    return { status: "paused", approvalRequests: waiting, state, ...this.#baseOutcome() };
  }

  /** Starts a call that the model has just made, or requests approval. A call that needs no approval starts synchronously. */
  #admit(call: ModelToolCall, offered: OfferedTools, messageCount: number): Promise<ToolResult | ApprovalRequest> {
    this.#emit({ type: "tool-call", step: this.#stepCount, call });
    const tool = offered.get(call.toolName);
    const { needsApproval: rule, context } = this.#settings;
    if (rule === undefined || tool === undefined || call.problem !== undefined) return this.#run(call, offered);
    const { definition, digest: toolDigest } = tool;
    const messages = this.#messages.slice(0, messageCount);
    const question = { call, definition, toolDigest, tenantId: context.tenantId, messages };
    const checkOptions = { onError: this.#settings.onError, signal: this.#signal };
    const needed = needsApproval(rule, question, checkOptions);
    const decide = (isNeeded: boolean): Promise<ToolResult | ApprovalRequest> =>
      isNeeded ? this.#requestApproval(call, tool) : this.#run(call, offered);
    return needed instanceof Promise ? needed.then(decide) : decide(needed);
  }

  /** Runs a call of an offered tool, or answers why it cannot run. Always resolves. */
  #run(call: ModelToolCall, offered: OfferedTools): Promise<ToolResult> {
    const step = this.#stepCount;
    const { id: callId, toolName } = call;
    const { callRouter, context } = this.#settings;
    const tool = offered.get(toolName);
    if (tool === undefined) return this.#answer(toFailedResult(call, notOffered(toolName, offered)));
    return this.#limiter.run(async () => {
      if (call.problem === undefined) this.#emit({ type: "tool-start", step, callId, toolName });
      const result = await callAgentTool(callRouter, call, {
        ...context,
        executionId: this.#executionId,
        stepId: String(step),
        signal: this.#signal,
        toolDigest: tool.digest,
        onLog: (entry) => this.#emit({ type: "tool-log", step, callId, toolName, entry }),
        onProgress: (progress) => this.#emit({ type: "tool-progress", step, callId, toolName, progress }, callId),
      });
      return this.#emitResult(result);
    });
  }

  #emitResult(result: ToolResult): ToolResult {
    this.#emit({ type: "tool-result", step: this.#stepCount, result });
    return result;
  }

  async #answer(result: ToolResult): Promise<ToolResult> {
    return this.#emitResult(result);
  }
}

const toFailedResult = ({ id, toolName }: ModelToolCall, error: ToolError): ToolResult =>
  failedResultOf({ callId: id, toolName }, error);

const createCancelledError = (): ToolError =>
  new ToolError("CANCELLED", "The run was cancelled before this call started");
