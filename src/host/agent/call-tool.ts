// A model's call as a call of the router: the same answer whatever is wrong with it, and at most so many at one time.
import type { ToolDefinition } from "../../sandbox/definition.ts";
import { type JsonValue, ToolError, toToolError } from "../../sandbox/errors.ts";
import { holdsInfinity } from "../finite.ts";
import { toFailure } from "../pipeline/normalize.ts";
import type { ToolRouter } from "../router.ts";
import type { Glovebox } from "../runtime.ts";
import type { ToolCall, ToolContext, ToolResult } from "../tool-call.ts";
import type { ModelToolCall } from "./model.ts";

/** What a loop needs of a router. */
export type CallRouter = Pick<ToolRouter, "execute" | "stream" | "getRegisteredTools"> &
  Partial<Pick<ToolRouter, "listTools">>;

/** Those that are on at present, where the router can say: feature flags may have to be waited for. */
export async function toolsOf(router: CallRouter, tenantId: string | undefined): Promise<readonly ToolDefinition[]> {
  const whose = tenantId === undefined ? {} : { tenantId };
  return router.listTools === undefined ? router.getRegisteredTools(whose) : await router.listTools(whose);
}

/** A ToolRouter, or a Glovebox: then its router. */
export type AgentRouter = CallRouter | Pick<Glovebox, "router">;

/** @throws {ToolError} PARAM_INVALID for what is neither */
export function toCallRouter(router: AgentRouter | undefined): CallRouter {
  const own = typeof router === "object" && router !== null && "router" in router ? router.router : router;
  if (typeof own?.execute === "function" && typeof own.getRegisteredTools === "function") return own;
  throw new ToolError("PARAM_INVALID", `router: expected a ToolRouter or a Glovebox, got ${typeof router}`);
}

function toToolCall({ id, toolName, argumentsText, arguments: args, kind }: ModelToolCall): ToolCall {
  // A number that no double holds would leave a value as `null`: of the text the router says what is wrong.
  const isLossy = kind === "function" && holdsInfinity(args as JsonValue, argumentsText);
  if (args !== undefined && !isLossy) return { id, toolName, arguments: args };
  // Free text has one place to go.
  return kind === "custom" ? { id, toolName, arguments: { input: argumentsText } } : { id, toolName, argumentsText };
}

/** Runs a model's call; what cannot be run is answered with what is wrong. Always resolves. */
export async function callTool(router: CallRouter, call: ModelToolCall, context: ToolContext): Promise<ToolResult> {
  const started = performance.now();
  const fail = (error: ToolError): ToolResult =>
    toFailure({ callId: call.id, toolName: call.toolName, started }, error);
  if (call.problem !== undefined) return fail(new ToolError("PARAM_INVALID", call.problem));
  try {
    return await router.execute(toToolCall(call), context);
  } catch (thrown) {
    // A ToolRouter does not throw; what a host has put around it may.
    return fail(toToolError(thrown));
  }
}

/** So many things run at one time; the others in the order in which they came. The first begin at once, within the call of `run`. */
export class Lanes {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(lanes: number) {
    this.#free = lanes;
  }

  run<Value>(task: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) return this.#start(task);
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => void this.#start(task).then(resolve, reject));
    });
  }

  async #start<Value>(task: () => Promise<Value>): Promise<Value> {
    this.#free -= 1;
    try {
      return await task();
    } finally {
      this.#free += 1;
      this.#waiting.shift()?.();
    }
  }
}
