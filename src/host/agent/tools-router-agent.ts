// ToolsRouterAgent: a request in, one tool chosen by a model and run, an answer out. Always one outcome.

import { type ToolErrorData, toToolError } from "../../sandbox/contract/errors.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { createEventStream } from "./event-stream.ts";
import { fallbackText } from "./fallback.ts";
import { RoutedRequest } from "./routed-request.ts";
import { ToolSearch } from "./tool-search.ts";
import type { ToolsRouterEvent, ToolsRouterOutcome, ToolsRouterStream } from "./tools-router-events.ts";
import {
  parseToolsRouterOptions,
  type ToolsRequest,
  type ToolsRouterOptions,
  toSettings,
} from "./tools-router-options.ts";

/**
 * Answers requests with one tool each: the model chooses it and its inputs, they are checked, it runs, the model puts the result into
 * words. For tasks that take several tools there is `AgentLoop`. Reusable, and worth reusing: it keeps the index of the tools that it
 * searches.
 */
export class ToolsRouterAgent {
  readonly #defaults: ToolsRouterOptions;
  readonly #search = new ToolSearch();

  /**
   * @param options defaults of all requests
   * @throws {ToolError} PARAM_INVALID for an unknown option or a wrong value, naming its path
   */
  constructor(options: ToolsRouterOptions = {}) {
    this.#defaults = parseToolsRouterOptions(options);
  }

  /**
   * Handles one request. Resolves with its outcome, whatever model and tool do.
   * Rejects with a ToolError, PARAM_INVALID, for options that are wrong.
   */
  async run(request: ToolsRequest, overrides: ToolsRouterOptions = {}): Promise<ToolsRouterOutcome> {
    return await deferFailure(() => this.#open(request, overrides, undefined).finish(undefined), hasFailed);
  }

  /**
   * The same, told as it goes: the decision, the tool's output, the answer's text; the outcome last. It begins when the first event is
   * asked for; a slow reader slows model and tool down. Never rejects: what `run` rejects with is an outcome (`failed`) here.
   */
  stream(request: ToolsRequest, overrides: ToolsRouterOptions = {}): ToolsRouterStream {
    return createEventStream<ToolsRouterEvent>((events, stop) =>
      deferFailure(async () => {
        try {
          return { type: "outcome", ...(await this.#open(request, overrides, stop).finish(events)) };
        } catch (thrown) {
          return { type: "outcome", ...refused(toToolError(thrown).toData("the agent")) };
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

const refused = (error: ToolErrorData): ToolsRouterOutcome => ({
  ...{ status: "failed", stage: "routing", error, text: fallbackText(undefined, "routing", error) },
  ...{ attempts: { routing: 0, tool: 0 }, usage: { inputTokens: 0, outputTokens: 0 } },
});
