// ToolsRouterAgent: handles a request by letting a model choose one tool, running it, and returning exactly one outcome.

import { type ToolErrorData, toToolError } from "../../../sandbox/contract/errors.ts";
import { deferFailure } from "../../util/defer-failure.ts";
import { createEventStream } from "../event-stream.ts";
import { fallbackText } from "../fallback.ts";
import { ToolSearch } from "../tools/tool-search.ts";
import { RoutedRequest } from "./routed-request.ts";
import type { ToolsRouterEvent, ToolsRouterOutcome, ToolsRouterStream } from "./tools-router-events.ts";
import {
  parseToolsRouterOptions,
  type ToolsRequest,
  type ToolsRouterOptions,
  toSettings,
} from "./tools-router-options.ts";

/**
 * Answers each request with one tool: the model chooses the tool and its inputs, the router checks and runs the call, and the model words
 * the answer. For tasks that take several tools, use `AgentLoop`. Reuse an agent across requests: it keeps the search index of its tools.
 * @example
 * ```typescript
 * import { createGlovebox } from "glovebox";
 * import { ToolsRouterAgent } from "glovebox/agent";
 * import { openaiResponses } from "glovebox/openai";
 * import OpenAI from "openai";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * const agent = new ToolsRouterAgent({ model: openaiResponses(new OpenAI(), { model: "gpt-5.1" }), router: glovebox });
 * const outcome = await agent.run("How much is 19 + 23?");
 * console.log(outcome.text);
 * ```
 */
export class ToolsRouterAgent {
  readonly #defaults: ToolsRouterOptions;
  readonly #search = new ToolSearch();

  /**
   * @param options defaults for all requests
   * @throws {ToolError} PARAM_INVALID for an unknown option or a wrong value, naming its path
   */
  constructor(options: ToolsRouterOptions = {}) {
    this.#defaults = parseToolsRouterOptions(options);
  }

  /**
   * Handles one request. Resolves with its outcome, even if the model or the tool fails.
   * Rejects with a ToolError (PARAM_INVALID) for invalid options.
   */
  async run(request: ToolsRequest, overrides: ToolsRouterOptions = {}): Promise<ToolsRouterOutcome> {
    return await deferFailure(() => this.#open(request, overrides, undefined).finish(undefined), hasFailed);
  }

  /**
   * Handles one request and yields events as it runs: the decision, the tool's output, the text of the answer, and the outcome last. The
   * request starts when the first event is read. A slow reader slows down the model and the tool. The stream never rejects: an error that
   * `run` rejects with becomes an outcome with the status `failed`.
   */
  stream(request: ToolsRequest, overrides: ToolsRouterOptions = {}): ToolsRouterStream {
    return createEventStream<ToolsRouterEvent>((events, stop) =>
      deferFailure(async () => {
        try {
          return { type: "outcome", ...(await this.#open(request, overrides, stop).finish(events)) };
        } catch (thrown) {
          return { type: "outcome", ...failedToStart(toToolError(thrown).toData("the agent")) };
        }
      }, hasFailed),
    );
  }

  #open(request: ToolsRequest, overrides: ToolsRouterOptions, stop: AbortSignal | undefined): RoutedRequest {
    const settings = toSettings(this.#defaults, overrides);
    const signals = [settings.signal, stop].filter((signal) => signal !== undefined);
    return new RoutedRequest(request, settings, this.#search, AbortSignal.any(signals));
  }
}

const hasFailed = ({ status }: Pick<ToolsRouterOutcome, "status">): boolean =>
  status === "failed" || status === "cancelled";

const failedToStart = (error: ToolErrorData): ToolsRouterOutcome => ({
  status: "failed",
  stage: "routing",
  error,
  text: fallbackText(undefined, "routing", error),
  attempts: { routing: 0, tool: 0 },
  usage: { inputTokens: 0, outputTokens: 0 },
});
