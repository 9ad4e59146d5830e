// A model's call as a call of the router: the same answer whatever is wrong with it, and at most so many at one time.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import type { ToolCall, ToolContext, ToolResult } from "../contract/tool-call.ts";
import type { Glovebox } from "../glovebox/glovebox.ts";
import { containsNonFinite } from "../json/non-finite.ts";
import { toFailure } from "../pipeline/normalize.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { ModelToolCall } from "./model.ts";

/** The methods of a router that an agent calls. */
export type CallRouter = Pick<ToolRouter, "execute" | "stream" | "getRegisteredTools" | "digestOf"> &
  Partial<Pick<ToolRouter, "listTools">>;

/** Those that are on at present, where the router can say: feature flags may have to be waited for. */
export async function toolsOf(router: CallRouter, tenantId: string | undefined): Promise<readonly ToolDefinition[]> {
  const whose = tenantId === undefined ? {} : { tenantId };
  return router.listTools === undefined ? router.getRegisteredTools(whose) : await router.listTools(whose);
}

/** A ToolRouter, or a Glovebox: then its router. */
export type AgentRouter = CallRouter | Pick<Glovebox, "router">;

const METHODS = [
  "execute",
  "stream",
  "getRegisteredTools",
  "digestOf",
] as const satisfies readonly (keyof CallRouter)[];

function findRouter(value: unknown): CallRouter | undefined {
  try {
    if (typeof value !== "object" || value === null) return undefined;
    const own = ("router" in value ? value.router : value) as Partial<CallRouter> | null | undefined;
    return METHODS.every((method) => typeof own?.[method] === "function") ? (own as CallRouter) : undefined;
  } catch {
    // A proxy that throws.
    return undefined;
  }
}

export const isAgentRouter = (value: unknown): boolean => findRouter(value) !== undefined;

/** @throws {ToolError} PARAM_INVALID, naming `where`, unless it is a ToolRouter, a Glovebox, or an object with the methods of a router */
export function toCallRouter(router: unknown, where = "router"): CallRouter {
  const found = findRouter(router);
  if (found !== undefined) return found;
  throw new ToolError(
    "PARAM_INVALID",
    `${where}: Expected a ToolRouter, a Glovebox or an object with ${METHODS.join(", ")}, got ${describeKind(router)}`,
  );
}

function toToolCall({ id, toolName, argumentsText, arguments: args, kind }: ModelToolCall): ToolCall {
  // A number that no double holds would leave a value as `null`: of the text the router says what is wrong.
  const isLossy = kind === "function" && containsNonFinite(args as JsonValue, argumentsText);
  if (args !== undefined && !isLossy) return { id, toolName, arguments: args };
  // Free text has one place to go.
  return kind === "custom" ? { id, toolName, arguments: { input: argumentsText } } : { id, toolName, argumentsText };
}

/** Runs a model's call; what cannot be run is answered with what is wrong. Always resolves. */
export async function callAgentTool(
  router: CallRouter,
  call: ModelToolCall,
  context: ToolContext,
): Promise<ToolResult> {
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
