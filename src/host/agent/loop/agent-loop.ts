// AgentLoop: alternates between a model and its tool calls until the model stops. A run has one outcome, and every call has an answer.

import { toToolError } from "../../../sandbox/contract/errors.ts";
import type { CallContext } from "../../contract/tool-call.ts";
import { deferFailure } from "../../util/defer-failure.ts";
import { parseMessages } from "../check-messages.ts";
import { createEventStream } from "../event-stream.ts";
import type { Message } from "../model.ts";
import { type AgentRouter, toCallRouter } from "../tools/call-tool.ts";
import { checkTenant, mergeContexts, parseCallContext } from "./agent-context.ts";
import type { AgentEvent, AgentOutcome, AgentStream } from "./agent-events.ts";
import { type AgentLoopOptions, type AgentRunOptions, parseLoopOptions, parseRunOptions } from "./agent-options.ts";
import { AgentRun } from "./agent-run.ts";
import { runSingleTurn, type SingleCall, type SingleTurn } from "./single-turn.ts";

/** Returns whether the call of a turn has failed. Its answer is the last message. */
function isFailedTurn({ updatedMessages }: SingleTurn): boolean {
  const answer = updatedMessages.at(-1);
  return answer?.role === "tool" && !answer.result.success;
}

/**
 * Runs a model in a loop with its tools. A loop keeps no state between runs and can be reused.
 *
 * A tool starts as soon as its call is complete, while the model's stream is still being read. A failed tool does not end the run: the
 * failure becomes the answer to the call.
 * @example
 * ```typescript
 * import { createGlovebox } from "glovebox";
 * import { AgentLoop } from "glovebox/agent";
 * import { openaiResponses } from "glovebox/openai";
 * import OpenAI from "openai";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * const loop = new AgentLoop({ model: openaiResponses(new OpenAI(), { model: "gpt-5.1" }), router: glovebox });
 * const outcome = await loop.run({ messages: [{ role: "user", content: "How much is 19 + 23?" }] });
 * console.log(outcome.text);
 * ```
 */
export class AgentLoop {
  readonly #defaults: AgentLoopOptions;

  /**
   * @param options defaults for all runs
   * @throws {ToolError} PARAM_INVALID for an unknown option or a wrong value, naming its path
   */
  constructor(options: AgentLoopOptions = {}) {
    this.#defaults = parseLoopOptions(options);
  }

  /**
   * Runs one call and adds its answer to the conversation, and the call too if the last turn does not contain it. `context` is merged into
   * the loop's context. The loop's `tools` and `needsApproval` apply: a call that needs approval is not run and is answered with
   * APPROVAL_REQUIRED. Resolves even if the tool fails: the failure is the answer.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for invalid `messages`, `router` or `context`
   */
  async executeSingleTurn(
    messages: readonly Message[],
    toolCall: SingleCall,
    router: AgentRouter,
    context: CallContext = {},
  ): Promise<SingleTurn> {
    return await deferFailure(() => {
      const callRouter = toCallRouter(router, "router");
      const conversation = parseMessages(messages, "messages");
      const whole = mergeContexts(this.#defaults.context, parseCallContext(context), "context");
      checkTenant(callRouter, whole, "context");
      return runSingleTurn(conversation, toolCall, { ...this.#defaults, callRouter, context: whole });
    }, isFailedTurn);
  }

  /**
   * Runs a conversation until it ends or calls wait for approval. Resolves with its outcome, even if the model or a tool fails.
   * @throws {ToolError} as a rejection, before anything runs: PARAM_INVALID for invalid options and for a state that cannot be resumed;
   *   INTERNAL if `claim` fails; CANCELLED if the signal aborts before the state is claimed
   */
  async run(options: AgentRunOptions): Promise<AgentOutcome> {
    return await deferFailure(async () => {
      const run = await this.#open(options, undefined);
      return await run.finish(undefined);
    }, hasFailed);
  }

  /**
   * Runs a conversation and yields its events, with the outcome last. The run starts when the first event is read. A slow reader slows down
   * the model's stream, not the tools.
   * @returns a stream that never rejects: an error that {@link run} rejects with becomes an outcome with the status `failed`
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

/** Returns the outcome of a run that did not start because its options are invalid. */
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
