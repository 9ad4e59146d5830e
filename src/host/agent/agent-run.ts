// One run of an agent: its conversation, its steps, the calls of the step it is in.
import { randomUUID } from "node:crypto";
import type { ToolDefinition } from "../../sandbox/definition.ts";
import { ToolError, toToolError } from "../../sandbox/errors.ts";
import { toFailure } from "../pipeline/normalize.ts";
import type { ToolResult } from "../tool-call.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { AgentEvent, AgentOutcome } from "./agent-events.ts";
import { offeredTools, type RunOptions, type RunSettings } from "./agent-options.ts";
import { type ParsedState, parseAgentState, toAgentState } from "./agent-state.ts";
import { type ApprovalRequest, needsApproval, parseDecisions, refusal } from "./approval.ts";
import { callTool, Lanes } from "./call-tool.ts";
import { callsOf, mendConversation, textOf } from "./conversation.ts";
import type { EventQueue } from "./event-stream.ts";
import type { Message, ModelRequest, ModelToolCall, ModelUsage } from "./model.ts";
import { readTurn, type Turn } from "./model-turn.ts";
import type { AgentStep, StopState } from "./stop-conditions.ts";

/** A call of the step, and its answer: a result, or that it waits for approval. */
interface OpenCall {
  readonly call: ModelToolCall;
  readonly answer: Promise<ToolResult | ApprovalRequest>;
}

const isWaiting = (answer: ToolResult | ApprovalRequest): answer is ApprovalRequest => "definition" in answer;

const add = (a: ModelUsage, b: ModelUsage | undefined): ModelUsage => ({
  inputTokens: a.inputTokens + (b?.inputTokens ?? 0),
  outputTokens: a.outputTokens + (b?.outputTokens ?? 0),
});

interface Beginning {
  readonly messages: readonly Message[];
  readonly stepCount: number;
  readonly usage: ModelUsage;
  /** Calls that were decided about. */
  readonly decided: readonly { readonly call: ModelToolCall; readonly error: ToolError | undefined }[];
}

/** A state, once it has been read and decided about, and is this run's alone. */
async function resume(settings: RunSettings, options: RunOptions, signal: AbortSignal): Promise<Beginning> {
  const { state, decisions, claim } = options as Extract<RunOptions, { readonly claim: unknown }>;
  if (typeof claim !== "function") {
    throw new ToolError("PARAM_INVALID", "claim: expected a function that says whether a state may be resumed, once");
  }
  const parsed: ParsedState = await parseAgentState(state, settings.stateKey, signal);
  if (parsed.tenantId !== settings.context.tenantId) {
    throw new ToolError("PARAM_INVALID", "state: expected one of this tenant, got another tenant's");
  }
  const decided = parseDecisions(
    decisions,
    parsed.pending.map(({ id }) => id),
  );
  if ((await claim(parsed.id)) !== true) {
    throw new ToolError("PARAM_INVALID", "state: expected one that was not resumed before: its calls would run twice");
  }
  return {
    ...{ messages: parsed.messages, stepCount: parsed.stepCount, usage: parsed.usage },
    decided: parsed.pending.map((call) => {
      const decision = decided.get(call.id);
      return { call, error: decision?.approved === true ? undefined : refusal(call, decision?.reason) };
    }),
  };
}

const NO_USAGE: ModelUsage = { inputTokens: 0, outputTokens: 0 };

async function begin(settings: RunSettings, options: RunOptions, signal: AbortSignal): Promise<Beginning> {
  const hasState = options.state !== undefined;
  if (hasState === (options.messages !== undefined)) {
    throw new ToolError("PARAM_INVALID", `Expected one of messages and state, got ${hasState ? "both" : "neither"}`);
  }
  if (hasState) return await resume(settings, options, signal);
  if (!Array.isArray(options.messages)) throw new ToolError("PARAM_INVALID", "messages: expected an array of messages");
  return { messages: mendConversation(options.messages), stepCount: 0, usage: NO_USAGE, decided: [] };
}

export class AgentRun {
  readonly #settings: RunSettings;
  readonly #signal: AbortSignal;
  readonly #lanes: Lanes;
  readonly #executionId: string;
  readonly #decided: Beginning["decided"];
  readonly #messages: Message[];
  readonly #steps: AgentStep[] = [];
  /** Ids of all calls. */
  readonly #taken: Set<string>;
  #stepCount: number;
  #usage: ModelUsage;
  #events: EventQueue<AgentEvent> | undefined;

  private constructor(settings: RunSettings, beginning: Beginning, signal: AbortSignal) {
    this.#settings = settings;
    this.#signal = signal;
    this.#lanes = new Lanes(settings.maxParallelTools);
    this.#executionId = settings.context.executionId ?? randomUUID();
    this.#messages = [...beginning.messages];
    this.#taken = new Set(beginning.messages.flatMap((message) => callsOf(message).map(({ id }) => id)));
    this.#stepCount = beginning.stepCount;
    this.#usage = beginning.usage;
    this.#decided = beginning.decided;
  }

  /** Rejects with a ToolError, PARAM_INVALID, where there is nothing that could be run. */
  static async open(settings: RunSettings, options: RunOptions, signal: AbortSignal): Promise<AgentRun> {
    return new AgentRun(settings, await begin(settings, options, signal), signal);
  }

  /** Always resolves. Once. */
  async finish(events: EventQueue<AgentEvent> | undefined): Promise<AgentOutcome> {
    this.#events = events;
    try {
      await this.#answerDecided();
      if (this.#stepCount >= this.#settings.maxSteps)
        return { status: "finished", reason: "max-steps", ...this.#base() };
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

  #base(): Pick<AgentOutcome, "messages" | "text" | "steps" | "usage"> {
    const last = this.#steps.at(-1)?.message;
    return {
      messages: this.#messages,
      text: last === undefined ? "" : textOf(last),
      steps: this.#steps,
      usage: this.#usage,
    };
  }

  #fail(thrown: unknown): AgentOutcome {
    if (this.#signal.aborted) return { status: "cancelled", ...this.#base() };
    const error = toToolError(thrown);
    notifySafely(this.#settings.onError, error);
    return { status: "failed", ...this.#base(), error: error.toData("the model") };
  }

  /** Calls that were decided about run side by side, as those of a turn do. */
  async #answerDecided(): Promise<void> {
    const offered = this.#decided.length === 0 ? new Map<string, ToolDefinition>() : await this.#offered();
    const answers = this.#decided.map(({ call, error }) =>
      error === undefined ? this.#run(call, offered) : this.#answer(toRefused(call, error)),
    );
    for (const result of await Promise.all(answers)) this.#pushAnswer(result);
  }

  #pushAnswer(result: ToolResult): void {
    this.#messages.push({ role: "tool", callId: result.callId, toolName: result.toolName, result });
  }

  #offered(): Promise<ReadonlyMap<string, ToolDefinition>> {
    return offeredTools(this.#settings, this.#settings.context.tenantId);
  }

  async #request(offered: ReadonlyMap<string, ToolDefinition>): Promise<ModelRequest> {
    const { prepareMessages, toolChoice, responseSchema, maxParallelTools } = this.#settings;
    const messages = prepareMessages === undefined ? this.#messages : await prepareMessages(this.#messages);
    const choice = this.#stepCount === 1 || toolChoice === "none" ? toolChoice : undefined;
    return {
      // A copy: the model may keep it.
      messages: [...messages],
      tools: [...offered.values()],
      ...(choice === undefined ? {} : { toolChoice: choice }),
      ...(maxParallelTools === 1 ? { parallelToolCalls: false } : {}),
      ...(responseSchema === undefined ? {} : { responseSchema }),
      signal: this.#signal,
    };
  }

  /** One turn of the model, and its calls' answers. Undefined where the conversation goes on. */
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
      this.#taken,
    );
    if (turn.error !== undefined && turn.error.code !== "CANCELLED") {
      notifySafely(this.#settings.onError, turn.error);
      this.#emit({ type: "error", step, error: turn.error.toData("the model") });
    }
    if (turn.message.content.length > 0) this.#messages.push(turn.message);
    const waiting = await this.#close(turn, open);
    return await this.#next(turn, open, waiting);
  }

  /** Waits for the calls of a turn; those that wait for approval come back. */
  async #close(turn: Turn, open: readonly OpenCall[]): Promise<readonly ApprovalRequest[]> {
    const { message, reason, usage } = turn;
    const answers = await Promise.all(open.map(({ answer }) => answer));
    const waiting: ApprovalRequest[] = [];
    const results: ToolResult[] = [];
    for (const [index, answer] of answers.entries()) {
      if (!isWaiting(answer)) results.push(answer);
      // Nobody will decide about a run that is over.
      else if (this.#signal.aborted) results.push(this.#tellResult(cancelled(open[index]?.call ?? answer.call)));
      else waiting.push(answer);
    }
    for (const result of results) this.#pushAnswer(result);
    this.#usage = add(this.#usage, usage);
    const step: AgentStep = { message, results, reason, ...(usage === undefined ? {} : { usage }) };
    this.#steps.push(step);
    this.#emit({ type: "step-end", step: this.#stepCount, ...step });
    return waiting;
  }

  async #next(
    { reason, error }: Turn,
    open: readonly OpenCall[],
    waiting: readonly ApprovalRequest[],
  ): Promise<AgentOutcome | undefined> {
    if (this.#signal.aborted) return { status: "cancelled", ...this.#base() };
    if (waiting.length > 0) return this.#pause(waiting);
    if (open.length === 0) {
      if (error === undefined) return { status: "finished", reason, ...this.#base() };
      return { status: "failed", error: error.toData("the model"), ...this.#base() };
    }
    // What was complete before the stream broke off has been run and answered: the model can go on from there.
    if (await this.#isEnough()) return { status: "finished", reason: "stop-condition", ...this.#base() };
    if (this.#stepCount >= this.#settings.maxSteps) return { status: "finished", reason: "max-steps", ...this.#base() };
    return undefined;
  }

  async #isEnough(): Promise<boolean> {
    const { stopConditions } = this.#settings;
    if (stopConditions.length === 0) return false;
    const state: StopState = {
      ...{ steps: this.#steps, stepCount: this.#stepCount, messages: this.#messages, usage: this.#usage },
    };
    for (const condition of stopConditions) if (await condition(state)) return true;
    return false;
  }

  #pause(waiting: readonly ApprovalRequest[]): AgentOutcome {
    const state = toAgentState(
      {
        tenantId: this.#settings.context.tenantId,
        ...{ stepCount: this.#stepCount, usage: this.#usage, messages: this.#messages },
        pending: waiting.map(({ call }) => call),
      },
      this.#settings.stateKey,
    );
    return { status: "paused", approvals: waiting, state, ...this.#base() };
  }

  /** What becomes of a call that the model has just made. One that needs no approval begins within this call. */
  #admit(
    call: ModelToolCall,
    offered: ReadonlyMap<string, ToolDefinition>,
    messageCount: number,
  ): Promise<ToolResult | ApprovalRequest> {
    const step = this.#stepCount;
    this.#emit({ type: "tool-call", step, call });
    const definition = offered.get(call.toolName);
    const { needsApproval: rule, context, onError } = this.#settings;
    if (rule === undefined || definition === undefined || call.problem !== undefined) return this.#run(call, offered);
    const messages = this.#messages.slice(0, messageCount);
    const needed = needsApproval(rule, { call, definition, tenantId: context.tenantId, messages }, onError);
    const decide = (isNeeded: boolean): Promise<ToolResult | ApprovalRequest> => {
      if (!isNeeded) return this.#run(call, offered);
      this.#emit({ type: "approval-request", step, call, definition });
      return Promise.resolve({ call, definition });
    };
    return needed instanceof Promise ? needed.then(decide) : decide(needed);
  }

  /** Runs a call, or answers what cannot be run. Always resolves. */
  #run(call: ModelToolCall, offered: ReadonlyMap<string, ToolDefinition>): Promise<ToolResult> {
    const step = this.#stepCount;
    const { id: callId, toolName } = call;
    const { callRouter, context } = this.#settings;
    if (!offered.has(toolName)) return this.#answer(toRefused(call, notOffered(toolName, offered)));
    return this.#lanes.run(async () => {
      if (call.problem === undefined) this.#emit({ type: "tool-start", step, callId, toolName });
      const result = await callTool(callRouter, call, {
        ...context,
        executionId: this.#executionId,
        stepId: String(step),
        signal: this.#signal,
        onLog: (entry) => this.#emit({ type: "tool-log", step, callId, toolName, entry }),
        onProgress: (progress) => this.#emit({ type: "tool-progress", step, callId, toolName, progress }, callId),
      });
      return this.#tellResult(result);
    });
  }

  #tellResult(result: ToolResult): ToolResult {
    this.#emit({ type: "tool-result", step: this.#stepCount, result });
    return result;
  }

  async #answer(result: ToolResult): Promise<ToolResult> {
    return this.#tellResult(result);
  }
}

const toRefused = ({ id, toolName }: ModelToolCall, error: ToolError): ToolResult =>
  toFailure({ callId: id, toolName, started: performance.now() }, error);

const cancelled = (call: ModelToolCall): ToolResult =>
  toRefused(call, new ToolError("CANCELLED", "The run was cancelled before this call was approved"));

function notOffered(toolName: string, offered: ReadonlyMap<string, ToolDefinition>): ToolError {
  const known = [...offered.keys()].slice(0, 20);
  const hint = known.length === 0 ? "no tools are offered" : `offered are: ${known.join(", ")}`;
  return new ToolError("TOOL_UNAVAILABLE", `There is no tool named ${JSON.stringify(toolName)} here; ${hint}`, {
    details: { toolName, known },
  });
}
