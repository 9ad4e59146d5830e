// Stage 2: what the call may spend, and its clock. Of all limits stated, the lowest wins.
import { ToolError } from "../../sandbox/errors.ts";
import {
  DEFAULT_LIMITS,
  LIMITS,
  type LimitName,
  type Limits,
  lowestLimits,
  type PartialLimits,
} from "../../sandbox/limits.ts";
import type { PreparedCall } from "../tool-call.ts";
import type { ValidatedCall } from "./validate.ts";

/** Within the hard bounds; a number that is none counts as not stated. */
function withinBounds(name: LimitName, value: number | undefined): number {
  if (value === undefined || Number.isNaN(value)) return Number.POSITIVE_INFINITY;
  return Math.max(LIMITS[name].min, Math.min(value, LIMITS[name].max));
}

/**
 * The limits of one call. What the host states (for all tools, for this one, for this call) replaces the defaults; the
 * lowest of several wins. What a tool's author states can only lower the outcome. Nothing passes the hard bounds.
 */
export function resolveLimits(
  stated: readonly (PartialLimits | undefined)[],
  author: PartialLimits | undefined,
): Limits {
  const limits: Record<LimitName, number> = { ...DEFAULT_LIMITS };
  for (const name of Object.keys(limits) as LimitName[]) {
    let lowest = Number.POSITIVE_INFINITY;
    for (const some of stated) lowest = Math.min(lowest, withinBounds(name, some?.[name]));
    if (lowest !== Number.POSITIVE_INFINITY) limits[name] = Math.ceil(lowest);
  }
  return lowestLimits(limits, author);
}

/** A prepared call and its clock. Dispose it when the call has its result. */
export interface Preparation extends Disposable {
  readonly call: PreparedCall;
}

/** What the router states for every call. */
export interface PrepareOptions {
  readonly limits: PartialLimits;
  /** Aborts when the router is disposed. */
  readonly closing: AbortSignal;
}

export function prepareCall(
  validated: ValidatedCall,
  options: PrepareOptions,
  timeoutMs: number | undefined,
): Preparation {
  const { tool, context } = validated;
  const limits = resolveLimits(
    [options.limits, tool.hostLimits, { timeoutMs: context.timeoutMs }, { timeoutMs }],
    tool.authorLimits,
  );
  const clock = startClock(limits.timeoutMs, tool.definition.name, context.signal, options.closing);
  const { callId, tenantId, inputText, input } = validated;
  return {
    call: { callId, tenantId, definition: tool.definition, inputText, input, limits, signal: clock.signal, context },
    [Symbol.dispose]: () => clock[Symbol.dispose](),
  };
}

interface Clock extends Disposable {
  readonly signal: AbortSignal;
}

/** One signal for the three ends of a call that are not its own: the deadline, the caller, the router's end. */
function startClock(timeoutMs: number, toolName: string, caller: AbortSignal | undefined, closing: AbortSignal): Clock {
  const controller = new AbortController();
  const cancel = (): void =>
    controller.abort(new ToolError("CANCELLED", `The call of ${toolName} was cancelled by its caller`));
  const close = (): void =>
    controller.abort(new ToolError("CANCELLED", `The call of ${toolName} was cancelled because Glovebox was closed`));
  if (caller?.aborted) cancel();
  caller?.addEventListener("abort", cancel, { once: true });
  closing.addEventListener("abort", close, { once: true });
  // Last, so that a signal that cannot be listened to leaves no timer behind.
  const timer = setTimeout(() => {
    controller.abort(
      new ToolError("TOOL_TIMEOUT", `${toolName} did not finish within ${timeoutMs} ms and was stopped`, {
        details: { timeoutMs },
      }),
    );
  }, timeoutMs);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      caller?.removeEventListener("abort", cancel);
      closing.removeEventListener("abort", close);
    },
  };
}
