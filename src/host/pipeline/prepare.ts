// Stage 2: what the call may spend, and its clock. Of all limits stated, the lowest wins.
import { ToolError } from "../../sandbox/errors.ts";
import type { PartialLimits } from "../../sandbox/limits.ts";
import { resolveLimits } from "../resolve-limits.ts";
import type { TenantPolicies } from "../tenants.ts";
import type { PreparedCall } from "../tool-call.ts";
import type { ValidatedCall } from "./validate.ts";

/** A prepared call and its clock. Dispose it when the call has its result. */
export interface Preparation extends Disposable {
  readonly call: PreparedCall;
}

/** What the router states for every call. */
export interface PrepareOptions {
  readonly limits: PartialLimits;
  readonly tenants: TenantPolicies;
  /** Aborts when the router is disposed. */
  readonly closing: AbortSignal;
}

export function prepareCall(
  validated: ValidatedCall,
  options: PrepareOptions,
  timeoutMs: number | undefined,
): Preparation {
  const { tool, context } = validated;
  const tenant = options.tenants.of(validated.tenantId);
  const limits = resolveLimits(
    [options.limits, tenant.stated, tool.hostLimits, { timeoutMs: context.timeoutMs }, { timeoutMs }],
    tool.authorLimits,
  );
  const clock = startClock(limits.timeoutMs, tool.definition.name, context.signal, options.closing);
  const { callId, tenantId, inputText, input } = validated;
  return {
    call: {
      callId,
      tenantId,
      tenant,
      definition: tool.definition,
      inputText,
      input,
      limits,
      signal: clock.signal,
      context,
    },
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
