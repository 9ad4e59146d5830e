// Calls OpenTelemetry providers, which the host supplies. A provider that throws or returns a promise loses a span but never fails a call.
import { ignoreOutcome, isThenable } from "../../util/host-callback.ts";
import type { SpanScope } from "./otel-types.ts";

/**
 * Calls a method that must return synchronously.
 * @throws {unknown} the method's exception; TypeError for a promise, whose rejection is ignored
 */
export function callNow<Value>(run: () => Value): Value {
  const value = run();
  if (!isThenable(value)) return value;
  ignoreOutcome(() => value);
  throw new TypeError("Expected a synchronous telemetry provider, got a promise");
}

type Outcome<Value> = { readonly value: Value } | { readonly thrown: unknown };

function attempt<Value>(run: () => Value): Outcome<Value> {
  try {
    return { value: run() };
  } catch (thrown) {
    return { thrown };
  }
}

/** The part of OpenTelemetry's API that activates a context. */
export interface ContextManager {
  with<Value>(context: SpanScope, run: () => Value): Value;
}

/** Runs code exactly once and returns its result: within the context, or without it if the context manager fails. */
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
