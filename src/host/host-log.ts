// The operator's log, by pino: a line for each call that failed, each hook that did, each circuit that opens or closes. Ids and
// codes; messages are redacted.
import type pinoTypes from "pino";
import { ToolError } from "../sandbox/errors.ts";
import type { CircuitChange } from "./health/source-health.ts";
import type { HookCall, HookFailure } from "./hooks.ts";
import { TenantRedactors } from "./redaction/tenant-redactors.ts";
import type { TenantPolicy } from "./tenants.ts";
import type { ToolResult } from "./tool-call.ts";

/** A pino of the host's own, pino's options, or a level: `"warn"`. */
export type LoggerOption = Logger | pinoTypes.LoggerOptions | string | true;
type Logger = pinoTypes.Logger;

const isLogger = (option: object): option is Logger => typeof (option as Partial<Logger>).child === "function";

/** pino is loaded only here. @throws {ToolError} PARAM_INVALID for options that pino does not take */
export async function createHostLog(option: LoggerOption): Promise<HostLog> {
  if (typeof option === "object" && isLogger(option)) return new HostLog(option.child({ component: "glovebox" }));
  const { pino } = await import("pino");
  const options = option === true ? {} : typeof option === "string" ? { level: option } : option;
  try {
    return new HostLog(pino({ name: "glovebox", ...options }));
  } catch (cause) {
    const message = Error.isError(cause) ? cause.message : "it was refused";
    throw new ToolError("PARAM_INVALID", `options.logger: ${message.slice(0, 500)}`, { cause });
  }
}

/** What is said of a failure that is the host's own business. */
interface ErrorFacts {
  readonly code?: string;
  readonly message: unknown;
  readonly cause?: unknown;
}

export class HostLog {
  readonly #pino: Logger;
  readonly #redactors = new TenantRedactors({ maxTextUnits: 2_048, maxValues: 500, maxDepth: 8 });

  constructor(pino: Logger) {
    this.#pino = pino;
  }

  /** One line for a call that failed; none for one that did not. */
  ended(call: HookCall, result: ToolResult, error: ToolError | undefined, tenant?: TenantPolicy): void {
    if (result.success) return;
    const { code, message } = result.error;
    const { durationMs, usage } = result;
    const isOurs = code === "INTERNAL" || code === "SANDBOX_CRASHED";
    const line = {
      event: code === "SANDBOX_CRASHED" ? "crash" : "call.failed",
      ...call,
      code,
      durationMs: Math.round(durationMs),
      ...{ queueMs: Math.round(usage.queueMs), cpuMs: Math.round(usage.cpuMs) },
      error: this.#error({ message, cause: error?.cause }, tenant),
    };
    this.#write(isOurs ? "error" : "warn", line, `${call.toolName} failed: ${code}`);
  }

  hookFailed({ hook, stage, reason, call, cause }: HookFailure): void {
    const line = { event: "hook.failed", ...call, hook, stage, reason, error: this.#error({ message: reason, cause }) };
    this.#write("warn", line, `The hook ${hook} ${reason} at ${stage}`);
  }

  /** A source that is left alone, is tried again, or is there again. */
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
    this.#write(state === "open" ? "warn" : "info", line, `The circuit of ${sourceId} is ${state}`);
  }

  #error({ message, cause }: ErrorFacts, tenant?: TenantPolicy): unknown {
    return this.#redactors.of(tenant).value({ message, ...(cause === undefined ? {} : { cause }) });
  }

  /** A logger that throws is the host's own affair: the call goes on. */
  #write(level: "info" | "warn" | "error", line: object, message: string): void {
    try {
      this.#pino[level](line, message);
    } catch {
      // As above.
    }
  }
}
