// Trusted host functions as an Executor. They run in the host's own process: time limits are kept, memory and CPU are not.
import { type JsonValue, ToolError } from "../../sandbox/errors.ts";
import type { CallLog } from "../logs.ts";
import { NO_USAGE, type PreparedCall, type ToolContext } from "../tool-call.ts";
import type { Execution, Executor } from "./executor.ts";

/** What a host function is given besides its input. */
export interface HostFunctionContext extends ToolContext {
  readonly callId: string;
  readonly tenantId: string;
  /** Aborts at the deadline too, not only when the caller cancels: pass it on to what you await. */
  readonly signal: AbortSignal;
  log(message: string, data?: JsonValue): void;
}

/** A trusted function behind the router. A thrown ToolError keeps its code; anything else becomes TOOL_FAILED. */
export type HostFunction = (input: JsonValue, context: HostFunctionContext) => unknown;

function toJson(output: unknown, toolName: string): string {
  if (output === undefined) return "null";
  try {
    const text = JSON.stringify(output);
    if (text !== undefined) return text;
  } catch (cause) {
    throw new ToolError("OUTPUT_INVALID", `${toolName}: expected a JSON value, got one that has none`, { cause });
  }
  throw new ToolError("OUTPUT_INVALID", `${toolName}: expected a JSON value, got ${typeof output}`);
}

function toFailure(thrown: unknown): ToolError {
  // A revoked proxy throws when it is asked what it is: a proxy is no error.
  if (Error.isError(thrown) && thrown instanceof ToolError) return thrown;
  // A host function's message may hold a path or a secret of the host: it stays with the operator.
  return new ToolError("TOOL_FAILED", "The host function failed", { cause: thrown });
}

export function createHostFunctionExecutor(handler: HostFunction): Executor {
  const run = async (call: PreparedCall, log: CallLog): Promise<Execution> => {
    const { callId, tenantId, signal } = call;
    const started = performance.now();
    const usage = (): Execution["usage"] => ({ ...NO_USAGE, executeMs: performance.now() - started });
    try {
      const output = await handler(call.input ?? null, {
        ...call.context,
        callId,
        tenantId,
        signal,
        log: (message, data) => log.add("info", Date.now(), message, { data }),
      });
      return { usage: usage(), outputText: toJson(output, call.definition.name) };
    } catch (thrown) {
      return { usage: usage(), error: toFailure(thrown) };
    }
  };
  return {
    source: "host",
    wants: "value",
    execute: (call, log) => untilAborted(run(call, log), call.signal),
  };
}

/** A host function cannot be stopped, only left behind: its late result is dropped. */
function untilAborted(execution: Promise<Execution>, signal: AbortSignal): Promise<Execution> {
  const started = performance.now();
  return new Promise((resolve) => {
    const abort = (): void =>
      resolve({ usage: { ...NO_USAGE, executeMs: performance.now() - started }, error: signal.reason as ToolError });
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    void execution.then((end) => {
      signal.removeEventListener("abort", abort);
      resolve(end);
    });
  });
}
