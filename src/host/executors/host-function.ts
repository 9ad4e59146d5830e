// Runs calls of trusted host functions in the host's own process. Time limits apply; memory and CPU limits do not.
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { type JsonValue, ToolError, unavailable, withReason } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import type { LogLevel } from "../../sandbox/protocol/message-fields.ts";
import { type CallContext, NO_USAGE } from "../contract/tool-call.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import { formatIssues } from "../json/format-issues.ts";
import { checkStandard } from "../json-schema/standard-schema.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { TraceContext } from "../observability/telemetry/trace-context.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { Execution } from "./execution.ts";
import type { ToolExecutor } from "./executor.ts";
import { CONTENT, hasContent, isStream, readStream, toOutput } from "./host-function-output.ts";

/** Context that a host function receives in addition to its input. */
export interface HostFunctionContext extends CallContext {
  readonly callId: string;
  readonly tenantId: string;
  /** Aborts at the deadline as well, not only when the caller cancels. Pass it on to everything you await. */
  readonly signal: AbortSignal;
  /** The call's own span if the host has telemetry, for requests that should join its trace. */
  readonly traceContext?: TraceContext | undefined;
  /**
   * Pauses the clock of this call and of the calls that it is nested in, for example while a person decides. Disposing
   * the returned object resumes it, and so does the end of the call.
   */
  holdClock(): Disposable;
  /**
   * Adds an entry to the call's log.
   * @param level Default: `info`
   */
  log(message: string, data?: JsonValue, level?: LogLevel): void;
}

/**
 * A trusted function behind the router. A thrown {@link ToolError} keeps its code; any other error becomes TOOL_FAILED.
 * An async generator, or any other async iterable, streams. `Input` is the output type of a Standard Schema, or {@link
 * ToolValue} with JSON Schema.
 */
export type HostFunction<Input = ToolValue> = (input: Input, context: HostFunctionContext) => unknown;

type Failure = Pick<Extract<Execution, { error: unknown }>, "error" | "isSourceFailure">;

function toFailure(thrown: unknown, { isRemote, sourceId }: HostSource): Failure {
  // Error.isError is false for a proxy, and a revoked proxy would throw in `instanceof`.
  if (Error.isError(thrown) && thrown instanceof ToolError) {
    const { code } = thrown;
    return {
      error: withReason(thrown, "upstream_unavailable"),
      isSourceFailure: code === "TOOL_UNAVAILABLE" || (isRemote === true && code === "TOOL_TIMEOUT"),
    };
  }
  // The message may contain a path or secret of the host, so only the operator sees it.
  const options = { cause: thrown, recoverable: true };
  if (isRemote !== true) return { error: new ToolError("TOOL_FAILED", "The host function failed", options) };
  const error = unavailable("upstream_unavailable", `The request to ${sourceId} failed`, { cause: thrown });
  return { error, isSourceFailure: true };
}

/** Wraps the caller's listeners, so that a throwing listener does not fail the function. */
function toSafeListeners({ onLog, onProgress }: CallContext): Pick<CallContext, "onLog" | "onProgress"> {
  return {
    ...(onLog === undefined ? {} : { onLog: (entry) => notifySafely(onLog, entry) }),
    ...(onProgress === undefined ? {} : { onProgress: (progress) => notifySafely(onProgress, progress) }),
  };
}

/** Schemas of a validation library, which validate and transform on the host. */
export interface HostFunctionSchemas {
  readonly input?: StandardSchemaV1 | undefined;
  readonly output?: StandardSchemaV1 | undefined;
}

/**
 * @throws {ToolError} PARAM_INVALID or OUTPUT_INVALID for an invalid value; TOOL_FAILED if the library returns an
 * unusable result
 */
async function checkValue(
  schema: StandardSchemaV1,
  value: unknown,
  code: "PARAM_INVALID" | "OUTPUT_INVALID",
  { definition, signal }: PreparedCall,
): Promise<unknown> {
  const outcome = await checkStandard(schema, value, { timeoutMs: LIMITS.timeoutMs.max, signal });
  if ("value" in outcome) return outcome.value;
  const { name } = definition;
  if ("issues" in outcome) {
    const { issues } = outcome;
    const what = code === "PARAM_INVALID" ? `The arguments of ${name}` : `The output of ${name}`;
    throw new ToolError(code, `${what}: ${formatIssues(issues)}`, {
      details: { problems: issues.map((issue) => ({ ...issue })) },
    });
  }
  signal.throwIfAborted();
  const field = code === "PARAM_INVALID" ? "inputSchema" : "outputSchema";
  const cause = new TypeError(`${field}: ${outcome.failed}`, { cause: outcome.cause });
  throw new ToolError("TOOL_FAILED", `The ${field} of ${name} could not validate the value`, { cause });
}

/**
 * Validates the returned output. Content is not changed.
 * @throws {ToolError} see {@link checkValue}
 */
async function checkOutput(schema: StandardSchemaV1, returned: unknown, call: PreparedCall): Promise<unknown> {
  if (!hasContent(returned)) return await checkValue(schema, returned, "OUTPUT_INVALID", call);
  const output = await checkValue(schema, returned.output, "OUTPUT_INVALID", call);
  return { [CONTENT]: returned[CONTENT], output };
}

/** The source of a host function, and its schemas. */
export interface HostSource extends Pick<ToolExecutor, "source" | "sourceId"> {
  readonly schemas?: HostFunctionSchemas | undefined;
  /** Whether the function forwards calls to a remote source. An error that it throws is then a failure of that source. */
  readonly isRemote?: boolean;
}

/** Creates the executor of one host function. */
export function createHostFunctionExecutor(handler: HostFunction, host: HostSource): ToolExecutor {
  const run = async (call: PreparedCall, log: CallLog, holds: DisposableStack): Promise<Execution> => {
    const { callId, tenantId, signal } = call;
    const started = performance.now();
    const usage = (): Execution["usage"] => ({ ...NO_USAGE, executeMs: performance.now() - started });
    try {
      const span = call.observer?.span;
      const context: HostFunctionContext = {
        ...call.context,
        ...toSafeListeners(call.context),
        ...span?.traceContext,
        ...(span === undefined ? {} : { traceContext: span.traceContext }),
        callId,
        tenantId,
        signal,
        holdClock: () => {
          const waiter = { [Symbol.dispose]: () => call.chain.setWaiting(false, waiter) };
          // The function may go on after its call has ended.
          if (holds.disposed) return waiter;
          call.chain.setWaiting(true, waiter);
          return holds.use(waiter);
        },
        log: (message, data, level = "info") => log.add(level, Date.now(), message, { data }),
      };
      const { input: inputSchema, output: outputSchema } = host.schemas ?? {};
      const given = call.input ?? null;
      const input = inputSchema === undefined ? given : await checkValue(inputSchema, given, "PARAM_INVALID", call);
      const returned = await (span === undefined
        ? handler(input as ToolValue, context)
        : span.within(() => handler(input as ToolValue, context)));
      const { output, isStreamed } = isStream(returned)
        ? await readStream(returned, call)
        : { output: returned, isStreamed: false };
      // Chunks of a stream have been sent already, and the schema does not describe them.
      const isChecked = outputSchema !== undefined && !isStreamed;
      const checked = isChecked ? await checkOutput(outputSchema, output, call) : output;
      return { usage: usage(), ...toOutput(checked, call.definition.name, call.limits), isStreamed };
    } catch (thrown) {
      return { usage: usage(), ...toFailure(thrown, host) };
    }
  };
  return {
    source: host.source,
    sourceId: host.sourceId,
    wants: "value",
    execute: async (call, log) => {
      // A pause that outlived the call would let the calls around it run without a time limit.
      using holds = new DisposableStack();
      return await untilAborted(run(call, log, holds), call.signal);
    },
  };
}

/** Settles when the call is aborted. A host function cannot be stopped, so its late result is dropped. */
function untilAborted(execution: Promise<Execution>, signal: AbortSignal): Promise<Execution> {
  const started = performance.now();
  return new Promise((resolve) => {
    const abort = (): void => {
      const error = signal.reason as ToolError;
      const usage = { ...NO_USAGE, executeMs: performance.now() - started };
      resolve({ usage, error, isSourceFailure: error.code === "TOOL_TIMEOUT" });
    };
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    void execution.then((end) => {
      signal.removeEventListener("abort", abort);
      resolve(end);
    });
  });
}
