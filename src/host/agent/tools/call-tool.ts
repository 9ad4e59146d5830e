// Runs a model's call on the router. Every failure becomes a result, and the number of concurrent calls is limited.

import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError, toToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind } from "../../../sandbox/contract/plain-object.ts";
import type { CallContext, ToolCall, ToolResult } from "../../contract/tool-call.ts";
import type { Glovebox } from "../../glovebox/glovebox.ts";
import { containsNonFinite } from "../../json/non-finite.ts";
import { toFailure } from "../../pipeline/normalize.ts";
import type { ToolRouter } from "../../routing/tool-router.ts";
import type { ModelToolCall } from "../model.ts";

/** The methods of a router that an agent calls. */
export type CallRouter = Pick<ToolRouter, "execute" | "stream" | "getRegisteredTools" | "digestOf"> &
  Partial<Pick<ToolRouter, "listTools">>;

/** Returns the tools that are currently enabled. A router with `listTools` may wait for feature flags. */
export async function toolsOf(router: CallRouter, tenantId: string | undefined): Promise<readonly ToolDefinition[]> {
  const options = tenantId === undefined ? {} : { tenantId };
  return router.listTools === undefined ? router.getRegisteredTools(options) : await router.listTools(options);
}

/** A ToolRouter, or a Glovebox, whose router is used. */
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
    // A proxy may throw from any trap.
    return undefined;
  }
}

export const isAgentRouter = (value: unknown): boolean => findRouter(value) !== undefined;

/** @throws {ToolError} PARAM_INVALID, naming `where`, unless the value is a ToolRouter, a Glovebox, or an object with a router's methods */
export function toCallRouter(router: unknown, where = "router"): CallRouter {
  const found = findRouter(router);
  if (found !== undefined) return found;
  throw new ToolError(
    "PARAM_INVALID",
    `${where}: Expected a ToolRouter, a Glovebox or an object with ${METHODS.join(", ")}, got ${describeKind(router)}`,
  );
}

function toToolCall({ id, toolName, argumentsText, arguments: args, kind }: ModelToolCall): ToolCall {
  // JSON.stringify turns a number beyond a double's range into `null`. The text is passed instead, so that the router reports the number.
  const isLossy = kind === "function" && containsNonFinite(args as JsonValue, argumentsText);
  if (args !== undefined && !isLossy) return { id, toolName, arguments: args };
  // The input of a custom tool is free text, passed as its only property.
  return kind === "custom" ? { id, toolName, arguments: { input: argumentsText } } : { id, toolName, argumentsText };
}

/** Runs a model's call. A call that cannot run is answered with the reason. Always resolves. */
export async function callAgentTool(
  router: CallRouter,
  call: ModelToolCall,
  context: CallContext,
): Promise<ToolResult> {
  const started = performance.now();
  const fail = (error: ToolError): ToolResult =>
    toFailure({ callId: call.id, toolName: call.toolName, started }, error);
  if (call.problem !== undefined) return fail(new ToolError("PARAM_INVALID", call.problem));
  try {
    return await router.execute(toToolCall(call), context);
  } catch (thrown) {
    // A ToolRouter does not throw, but a host's wrapper around it may.
    return fail(toToolError(thrown));
  }
}

/** Limits the number of concurrent tasks. Further tasks wait in order of arrival; a task with a free slot starts synchronously. */
export class ConcurrencyLimiter {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#free = limit;
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
