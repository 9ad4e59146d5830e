// Calls of OpenTelemetry providers, which the host supplies: what they throw, or answer late, costs a span and never a call.
import { ignoreOutcome, isThenable } from "../../util/host-callback.ts";
import type { SpanScope } from "./otel-types.ts";

/**
 * Calls a method that must answer at once.
 * @throws {unknown} what the method throws; TypeError for a promise, whose rejection is handled
 */
export function callNow<Value>(run: () => Value): Value {
  const value = run();
  if (!isThenable(value)) return value;
  ignoreOutcome(() => value);
  throw new TypeError("Expected a telemetry provider to answer at once, got a promise");
}

type Outcome<Value> = { readonly value: Value } | { readonly thrown: unknown };

function attempt<Value>(run: () => Value): Outcome<Value> {
  try {
    return { value: run() };
  } catch (thrown) {
    return { thrown };
  }
}

/** The part of OpenTelemetry's API that makes a context the active one. */
export interface ContextManager {
  with<Value>(context: SpanScope, run: () => Value): Value;
}

/** Runs code exactly once and returns what it returns: within the context, or without it where the context manager fails. */
export function runWithin<Value>(manager: ContextManager, context: SpanScope, run: () => Value): Value {
  let outcome: Outcome<Value> | undefined;
  ignoreOutcome(() =>
    manager.with(context, () => {
      outcome ??= attempt(run);
    }),
  );
  outcome ??= attempt(run);
  if ("thrown" in outcome) throw outcome.thrown;
  return outcome.value;
}
