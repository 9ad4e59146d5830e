// The operator's log, written with pino: one line for each failed call, each failed hook, and each circuit that changes its state. Lines
// contain ids and codes; messages are redacted.
import type pinoTypes from "pino";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import type { FleetEvent } from "../fleet/fleet-events.ts";
import type { CircuitChange } from "../routing/health/source-health.ts";
import type { TenantPolicy } from "../tenants/tenant-policies.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { definedFields } from "../util/merge-defined.ts";
import type { HookCall } from "./hooks/hook-events.ts";
import type { HookFailure } from "./hooks/hooks.ts";
import { LoggerOptionsSchema } from "./logger-options.ts";
import { TenantRedactors } from "./redaction/tenant-redactors.ts";

/** A pino logger of the host, pino's options, a level (`"warn"`), or true for pino's defaults. */
export type LoggerOption = Logger | pinoTypes.LoggerOptions | string | true;
type Logger = pinoTypes.Logger;
type LogMethods = Pick<Logger, "info" | "warn" | "error">;

const WHERE = "options.logger";
const METHODS = ["info", "warn", "error"] as const;

/**
 * Creates the operator's log. Pino is loaded only by this function.
 * @throws {ToolError} PARAM_INVALID, naming the path, for options that pino does not support, and for a logger whose `child()` fails
 */
export async function createHostLog(option: LoggerOption): Promise<HostLog> {
  if (isLogger(option)) return new HostLog(createChild(option));
  const options = option === true ? {} : typeof option === "string" ? { level: option } : option;
  if (isComplete(options)) {
    const got = (options as object) === console ? "console" : "a logger without child()";
    throw invalid(`Expected a pino logger, pino's options, a level or true, got ${got}`, undefined);
  }
  const parsed = definedFields(parseOptions<object>(LoggerOptionsSchema, options, WHERE));
  const { pino } = await import("pino");
  try {
    return new HostLog(pino({ name: "glovebox", ...parsed }));
  } catch (cause) {
    throw invalid(Error.isError(cause) ? cause.message.slice(0, 500) : "pino rejected the options", cause);
  }
}

function isLogger(option: LoggerOption): option is Logger {
  try {
    return typeof option === "object" && typeof (option as Partial<Logger>).child === "function";
  } catch (cause) {
    throw invalid("The logger cannot be read", cause);
  }
}

/** @throws {ToolError} PARAM_INVALID */
function createChild(logger: Logger): LogMethods {
  let child: unknown;
  try {
    child = logger.child({ component: "glovebox" });
    if (isComplete(child)) return child;
  } catch (cause) {
    throw invalid("child() of the logger threw", cause);
  }
  // An unhandled rejection would end the process.
  ignoreOutcome(() => child);
  throw invalid(
    `Expected child() to return a logger with ${METHODS.join(", ")}, got ${describeKind(child)}`,
    undefined,
  );
}

const isComplete = (child: unknown): child is LogMethods =>
  typeof child === "object" &&
  child !== null &&
  METHODS.every((method) => typeof (child as Partial<LogMethods>)[method] === "function");

const invalid = (message: string, cause: unknown): ToolError =>
  new ToolError("PARAM_INVALID", `${WHERE}: ${message}`, { cause });

/** Internal details of a failure. */
interface ErrorDetail {
  readonly code?: string;
  readonly message: unknown;
  readonly cause?: unknown;
}

export class HostLog {
  readonly #pino: LogMethods;
  readonly #redactors = new TenantRedactors({ maxTextUnits: 2_048, maxValues: 500, maxDepth: 8 });

  constructor(pino: LogMethods) {
    this.#pino = pino;
  }

  /** Writes one line for a failed call. Successful calls are not logged. */
  ended(call: HookCall, result: ToolResult, error: ToolError | undefined, tenant?: TenantPolicy): void {
    if (result.success) return;
    const { code, message } = result.error;
    const { durationMs, usage } = result;
    const isHostFault = code === "INTERNAL" || code === "SANDBOX_CRASHED";
    const line = {
      event: code === "SANDBOX_CRASHED" ? "crash" : "call.failed",
      ...call,
      code,
      durationMs: Math.round(durationMs),
      queueMs: Math.round(usage.queueMs),
      cpuMs: Math.round(usage.cpuMs),
      inputBytes: usage.inputBytes,
      outputBytes: usage.outputBytes,
      egressBytesOut: usage.egressBytesOut,
      egressBytesIn: usage.egressBytesIn,
      error: this.#error({ message, cause: error?.cause }, tenant),
    };
    this.#write(isHostFault ? "error" : "warn", line, `${call.toolName} failed: ${code}`);
  }

  /** Logs the failure of an optional part of the host, which continues without it. */
  warned(event: string, error: ToolError): void {
    const { code, message, cause } = error;
    this.#write("warn", { event, code, error: this.#error({ message, cause }) }, message);
  }

  hookFailed({ hook, stage, reason, call, cause }: HookFailure): void {
    const line = { event: "hook.failed", ...call, hook, stage, reason, error: this.#error({ message: reason, cause }) };
    this.#write("warn", line, `Hook "${hook}" ${reason} at stage "${stage}"`);
  }

  /** Logs a probable mistake in a tool. */
  toolWarned(toolName: string, message: string): void {
    this.#write("warn", { event: "tool.warning", toolName }, `${toolName}: ${message}`);
  }

  /** Logs a source's circuit that opens, closes, or allows a trial call. */
  circuitChanged({ sourceId, tenantId, from, state, failures, code }: CircuitChange): void {
    const line = {
      event: "circuit",
      sourceId,
      tenantId,
      from,
      state,
      failures,
      ...(code === undefined ? {} : { code }),
    };
    this.#write(state === "open" ? "warn" : "info", line, `The circuit of "${sourceId}" is ${state}`);
  }

  /** Logs a change of the connection to NATS, or of an executor. */
  fleetChanged({ type, message, executor }: FleetEvent): void {
    const level = type === "nats-connected" || type === "executor-returned" ? "info" : "warn";
    this.#write(level, { event: type, ...(executor === undefined ? {} : { executor }) }, message);
  }

  #error({ message, cause }: ErrorDetail, tenant?: TenantPolicy): unknown {
    return this.#redactors.of(tenant).value({ message, ...(cause === undefined ? {} : { cause }) });
  }

  /** Writes a line. A logger that throws or rejects loses the line, but does not fail the call. */
  #write(level: (typeof METHODS)[number], line: object, message: string): void {
    ignoreOutcome(() => this.#pino[level](line, message));
  }
}
