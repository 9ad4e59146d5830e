// The clock of one call: one signal for the three ends of it that are not its own.
import { ToolError } from "../../sandbox/errors.ts";

export interface Clock extends Disposable {
  /** Aborts with the ToolError that the call is to be answered with. */
  readonly signal: AbortSignal;
}

export interface ClockOptions {
  readonly timeoutMs: number;
  readonly toolName: string;
  /** The caller's own signal. */
  readonly caller: AbortSignal | undefined;
  /** Aborts at the router's end. */
  readonly closing: AbortSignal;
  /** When the call was admitted, by performance.now(): its time runs from there. */
  readonly admittedAt: number;
}

export function startClock({ timeoutMs, toolName, caller, closing, admittedAt }: ClockOptions): Clock {
  const controller = new AbortController();
  const cancel = (): void =>
    controller.abort(new ToolError("CANCELLED", `The call of ${toolName} was cancelled by its caller`));
  const close = (): void =>
    controller.abort(new ToolError("CANCELLED", `The call of ${toolName} was cancelled because Glovebox was closed`));
  if (caller?.aborted) cancel();
  caller?.addEventListener("abort", cancel, { once: true });
  closing.addEventListener("abort", close, { once: true });
  const remainingMs = Math.max(0, admittedAt + timeoutMs - performance.now());
  // Last, so that a signal that cannot be listened to leaves no timer behind.
  const timer = setTimeout(() => {
    controller.abort(
      new ToolError("TOOL_TIMEOUT", `${toolName} did not finish within ${timeoutMs} ms and was stopped`, {
        details: { timeoutMs },
      }),
    );
  }, remainingMs);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      caller?.removeEventListener("abort", cancel);
      closing.removeEventListener("abort", close);
    },
  };
}
