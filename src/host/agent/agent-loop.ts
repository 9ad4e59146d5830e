// AgentLoop: a model and a router take turns until the model has said what it had to say. Always one outcome, never a call without an answer.

import { toToolError } from "../../sandbox/contract/errors.ts";
import type { ToolContext } from "../contract/tool-call.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { checkTenant, mergeContexts, parseCallContext } from "./agent-context.ts";
import type { AgentEvent, AgentOutcome, AgentStream } from "./agent-events.ts";
import { type AgentLoopOptions, type AgentRunOptions, parseLoopOptions, parseRunOptions } from "./agent-options.ts";
import { AgentRun } from "./agent-run.ts";
import { type AgentRouter, toCallRouter } from "./call-tool.ts";
import { parseMessages } from "./check-messages.ts";
import { createEventStream } from "./event-stream.ts";
import type { Message } from "./model.ts";
import { runSingleTurn, type SingleCall, type SingleTurn } from "./single-turn.ts";

/**
 * Turns of a model with tools. Reusable: a loop keeps nothing between runs.
 *
 * A tool starts as soon as the model has said its call, while the model's stream is still read; its failure is the call's answer, and
 * the conversation goes on.
 */
export class AgentLoop {
  readonly #defaults: AgentLoopOptions;

  /**
   * @param options defaults of all runs
   * @throws {ToolError} PARAM_INVALID for an unknown option or a wrong value, naming its path
   */
  constructor(options: AgentLoopOptions = {}) {
    this.#defaults = parseLoopOptions(options);
  }

  /**
   * Runs one call and puts its answer into the conversation; a call that is not in the last turn is added to it. The context is merged into
   * the loop's own. The loop's `tools` and `needsApproval` hold: a call that would have to wait for approval is not run, and is answered with
   * APPROVAL_REQUIRED. Resolves whatever the tool does: a failure is the call's answer.
   * Rejects with a ToolError, PARAM_INVALID, for a wrong `messages`, `router` or `context`.
   */
  async executeSingleTurn(
    messages: readonly Message[],
    toolCall: SingleCall,
    router: AgentRouter,
    context: ToolContext = {},
  ): Promise<SingleTurn> {
    return await deferFailure(() => {
      const callRouter = toCallRouter(router, "router");
      const conversation = parseMessages(messages, "messages");
      const whole = mergeContexts(this.#defaults.context, parseCallContext(context), "context");
      checkTenant(callRouter, whole, "context");
      return runSingleTurn(conversation, toolCall, { ...this.#defaults, callRouter, context: whole });
    });
  }

  /**
   * Runs a conversation to its end, or until calls wait for approval. Resolves with its outcome, whatever model and tools do.
   * Rejects with a ToolError before anything runs: PARAM_INVALID for wrong options and for a state that cannot be resumed; INTERNAL if
   * `claim` fails; CANCELLED if the signal aborts before the state is claimed.
   */
  async run(options: AgentRunOptions): Promise<AgentOutcome> {
    return await deferFailure(async () => {
      const run = await this.#open(options, undefined);
      return await run.finish(undefined);
    }, hasFailed);
  }

  /**
   * The same, told as it goes: events, and the outcome as the last one. It begins when the first is asked for; a slow reader slows the
   * model's stream down, not the tools.
   * Never rejects: what `run` rejects with is an outcome (`failed`) here.
   */
  stream(options: AgentRunOptions): AgentStream {
    return createEventStream<AgentEvent>((events, stop) =>
      deferFailure(async () => {
        try {
          const run = await this.#open(options, stop);
          return { type: "outcome", ...(await run.finish(events)) };
        } catch (thrown) {
          return { type: "outcome", ...notStarted(options, thrown) };
        }
      }, hasFailed),
    );
  }

  async #open(given: AgentRunOptions, stop: AbortSignal | undefined): Promise<AgentRun> {
    const { settings, input } = parseRunOptions(this.#defaults, given);
    const signals = [settings.signal, stop].filter((signal) => signal !== undefined);
    const signal = signals.length === 1 ? (signals[0] as AbortSignal) : AbortSignal.any(signals);
    return await AgentRun.open(settings, input, signal);
  }
}

const hasFailed = ({ status }: Pick<AgentOutcome, "status">): boolean => status === "failed" || status === "cancelled";

/** The outcome of options that are wrong: whatever was passed in their place. */
function notStarted(options: unknown, thrown: unknown): AgentOutcome {
  const error = toToolError(thrown).toData("the agent");
  const usage = { inputTokens: 0, outputTokens: 0 };
  return { status: "failed", error, messages: messagesIn(options), text: "", steps: [], usage };
}

function messagesIn(options: unknown): readonly Message[] {
  try {
    const { messages } = options as { readonly messages?: unknown };
    return Array.isArray(messages) ? messages : [];
  } catch {
    return [];
  }
}
