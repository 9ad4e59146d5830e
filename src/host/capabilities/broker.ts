// Answers the capability requests of one call: checks the grant, the quota and the input, runs the handler, and returns an envelope.
import { ERROR_CODES, type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityEnvelope } from "../../sandbox/protocol/guest-messages.ts";
import { toBoundedJson } from "../contract/tool-value.ts";
import { isValueTooLarge, type ValueLimits } from "../contract/value-size.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { RunningCallObserver } from "../pipeline/prepared-call.ts";
import { isThenable, notifySafely } from "../util/host-callback.ts";
import { type CpuAccount, runTimeSliced } from "../util/time-slicing.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { Capability, CapabilityContext } from "./capability.ts";

/** Bytes that every answer may have, even where `limits.outputBytes` is lower: a part of a response body has up to 256 KiB. */
const MIN_ANSWER_BYTES = 1024 * 1024;
/** UTF-16 code units of an answer that has its turn of the event loop for itself. A part of a response body is smaller. */
const LARGE_ANSWER_LENGTH = 512 * 1024;
const INPUT_CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;

/** Whether a large answer was serialized in this turn of the event loop. Others then wait for a later one. */
let isTurnUsed = false;

function noteLength(text: string): string {
  if (text.length > LARGE_ANSWER_LENGTH && !isTurnUsed) {
    isTurnUsed = true;
    setImmediate(() => {
      isTurnUsed = false;
    });
  }
  return text;
}

/**
 * Converts a thrown value to an envelope for the tool. The tool receives the code and message of a ToolError. For errors that are meant for
 * the operator, and for all other values, the message only says that the capability failed.
 */
function toEnvelope(thrown: unknown, name: string): Extract<CapabilityEnvelope, { ok: false }> {
  const message = `The capability "${name}" failed`;
  if (!isToolError(thrown)) return { ok: false, code: "TOOL_FAILED", message };
  const { code, details } = thrown;
  const networkCode = name === "fetch" && code === "TOOL_FAILED" ? details?.networkCode : undefined;
  return {
    ok: false,
    code,
    message: isForOperator(thrown) ? message : thrown.message,
    ...(typeof networkCode === "string" ? { networkCode } : {}),
  };
}

const isForOperator = ({ code }: ToolError): boolean => ERROR_CODES[code].audience === "operator";

interface ReportedFailure {
  readonly message: string;
  readonly trace: readonly JsonValue[] | undefined;
}

/** A handler may throw anything. `instanceof` would throw for a revoked proxy, so `Error.isError` is checked first. */
const isToolError = (thrown: unknown): thrown is ToolError => Error.isError(thrown) && thrown instanceof ToolError;

export interface BrokerOptions {
  readonly granted: ReadonlyMap<string, Capability>;
  readonly limits: Limits;
  readonly context: CapabilityContext;
  /** CPU account that is charged for parsing a large input on the host. */
  readonly cpuAccount?: CpuAccount;
  /** Observer of the call: hooks and telemetry. */
  readonly observer?: RunningCallObserver | undefined;
  /** Receives errors that are hidden from the tool: those meant for the operator, and thrown values that are not ToolErrors. */
  readonly onHandlerError?: ((error: unknown, capability: string) => void) | undefined;
}

/** The host's side of one call's bridge. Counts requests again, since the counts of the guest and of the worker are not trusted. */
export class CapabilityBroker {
  readonly #options: BrokerOptions;
  /** The last failure sent to this call, by code. Only these codes can be the cause of the guest's own failure. */
  readonly #failures = new Map<string, ReportedFailure>();
  #calls = 0;
  #pending = 0;
  /** Pending requests that wait for a WebSocket server to send a message. */
  #listening = 0;

  constructor(options: BrokerOptions) {
    this.#options = options;
  }

  /** Number of requests that wait for their answers, without log lines and without WebSockets that wait for messages. */
  get pending(): number {
    return this.#pending - this.#listening;
  }

  /** Tells whether a request of this call has failed with the code. */
  wasDeniedWith(code: string): boolean {
    return this.#failures.has(code);
  }

  /** Returns the names of the nested tools that led to a failure, outermost first; undefined if no nested tool caused it. */
  traceOf(code: string, message: string): readonly JsonValue[] | undefined {
    const failure = this.#failures.get(code);
    return failure?.message === message ? failure.trace : undefined;
  }

  /** Returns the envelope for one request, as JSON text. Never rejects. */
  async answer(name: string, inputText: string): Promise<string> {
    // Log lines have their own quota, which CallLog enforces.
    const counts = name !== "log";
    if (counts) this.#pending += 1;
    try {
      return await this.#run(name, inputText);
    } catch (thrown) {
      const envelope = toEnvelope(thrown, name);
      const trace = isToolError(thrown) ? thrown.details?.trace : undefined;
      this.#failures.set(envelope.code, { message: envelope.message, trace: Array.isArray(trace) ? trace : undefined });
      const isHidden = !isToolError(thrown) || isForOperator(thrown);
      if (isHidden) notifySafely((error) => this.#options.onHandlerError?.(error, name), thrown);
      return JSON.stringify(envelope);
    } finally {
      if (counts) this.#pending -= 1;
    }
  }

  /** Restores the state that a request had left which an earlier attempt of a durable run has made. Never rejects. */
  async restore(name: string, inputText: string, envelope: string): Promise<void> {
    const { granted, context, onHandlerError } = this.#options;
    const capability = granted.get(name);
    if (capability?.restore === undefined) return;
    try {
      const answer = JSON.parse(envelope) as CapabilityEnvelope;
      const input = await capability.checkInput(JSON.parse(inputText), context.signal);
      if (answer.ok && "value" in input) await capability.restore(input.value as never, answer.value, context);
    } catch (thrown) {
      notifySafely((error) => onHandlerError?.(error, name), thrown);
    }
  }

  async #run(name: string, inputText: string): Promise<string> {
    const { granted, limits, context, cpuAccount, observer } = this.#options;
    const capability = granted.get(name);
    if (capability === undefined) {
      throw new ToolError("CAPABILITY_DENIED", `The capability "${name}" was not granted to this tool`);
    }
    const { uncounted } = capability;
    if (uncounted.length === 0) this.#count(name);
    const bounds = { bytes: limits.inputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
    const what = `The input of capability ${name}`;
    // Small inputs are parsed without `await`, so that a log line is stored before the next message is read.
    const raw = isSmallJson(inputText)
      ? parseSmallJson(inputText, bounds, INPUT_CODES, what)
      : await parseLargeText(inputText, bounds, INPUT_CODES, what, context.signal, cpuAccount);
    const op = opOf(raw);
    const isFurther = uncounted.length > 0 && uncounted.includes(op);
    if (uncounted.length > 0) this.#count(name, isFurther);
    if (isFurther && name === "fetch" && op === "receive") return await this.#listen(capability, raw);
    if (observer === undefined || name === "log" || isFurther)
      return await this.#call(capability, raw, context, undefined);
    return await observer.capability(name, raw, context, (input, own, modify) =>
      this.#call(capability, input, own, modify),
    );
  }

  async #listen(capability: Capability, raw: unknown): Promise<string> {
    this.#listening += 1;
    try {
      return await this.#call(capability, raw, this.#options.context, undefined);
    } finally {
      this.#listening -= 1;
    }
  }

  async #call(
    capability: Capability,
    raw: unknown,
    context: CapabilityContext,
    modify: ((output: unknown) => Promise<unknown>) | undefined,
  ): Promise<string> {
    const { name } = capability;
    const { limits } = this.#options;
    const checked = this.#bounded(capability.checkInput(raw, context.signal));
    const input = checked instanceof Promise ? await checked : checked;
    if ("issue" in input) throw new ToolError("PARAM_INVALID", `The input of capability ${name}: ${input.issue}`);
    // The call may have ended while hooks and schemas ran.
    context.signal.throwIfAborted();
    const answer = await this.#bounded(capability.handler(input.value as never, context));
    const returned = modify === undefined ? answer : await modify(answer ?? null);
    const output = await this.#bounded(capability.checkOutput(returned ?? null, context.signal));
    if ("issue" in output) {
      throw new ToolError(
        "OUTPUT_INVALID",
        `Capability "${name}" returned a value that does not match its output schema`,
        {
          cause: output.issue,
        },
      );
    }
    const bounds = { bytes: Math.max(limits.outputBytes, MIN_ANSWER_BYTES), values: limits.jsonValues };
    const serialize = (): string => noteLength(toEnvelopeText(output.value, name, bounds));
    return isTurnUsed ? await this.#inLaterTurn(serialize) : serialize();
  }

  /** Serializes an answer in a turn that tenants share: a tool may wait for a hundred large answers, which then arrive together. */
  async #inLaterTurn(serialize: () => string): Promise<string> {
    const { context, cpuAccount } = this.#options;
    let text = "";
    await runTimeSliced(
      () => {
        text = serialize();
        return true;
      },
      context.signal,
      cpuAccount,
    );
    return text;
  }

  /** Waits for a function of the host until the call ends, so that a promise that never settles does not keep the request alive. */
  #bounded<Value>(value: Value | PromiseLike<Value>): Value | Promise<Value> {
    return isThenable(value) ? untilAborted(Promise.resolve(value), this.#options.context.signal) : value;
  }

  #count(name: string, isFree = false): void {
    const { maxCapabilityCalls, maxPendingCapabilityCalls } = this.#options.limits;
    if (name === "log") return;
    if (!isFree) this.#calls += 1;
    if (this.#calls > maxCapabilityCalls)
      throw new ToolError(
        "QUOTA_EXCEEDED",
        `This call may make ${maxCapabilityCalls} capability calls (limits.maxCapabilityCalls)`,
      );
    if (this.#pending > maxPendingCapabilityCalls) {
      throw new ToolError(
        "QUOTA_EXCEEDED",
        `${maxPendingCapabilityCalls} capability calls are waiting already (limits.maxPendingCapabilityCalls)`,
      );
    }
  }
}

/** Returns the `op` of a capability's input; empty if the input has none. */
function opOf(input: JsonValue): string {
  if (typeof input !== "object" || input === null || !("op" in input)) return "";
  return typeof input.op === "string" ? input.op : "";
}

/** Converts a handler's answer to JSON text. Stops at the limit, since a handler may return a value of any size. */
function toText(value: unknown, bounds: ValueLimits, tooLarge: (limit: keyof ValueLimits) => ToolError): string {
  try {
    return toBoundedJson(value, bounds) ?? "null";
  } catch (thrown) {
    // A value that exceeds the depth may contain itself. That is a fault of the handler, not a large answer.
    if (isValueTooLarge(thrown) && !thrown.isDeep) throw tooLarge(thrown.limit);
    throw thrown;
  }
}

function toEnvelopeText(value: unknown, name: string, bounds: ValueLimits): string {
  const tooLarge = (limit: keyof ValueLimits): ToolError => {
    const what = limit === "bytes" ? `${bounds.bytes} bytes` : `${bounds.values} JSON values (limit jsonValues)`;
    return new ToolError("OUTPUT_TOO_LARGE", `The capability ${name} answered with more than ${what}`);
  };
  const text = toText(value, bounds, tooLarge);
  if (Buffer.byteLength(text) > bounds.bytes) throw tooLarge("bytes");
  return `{"ok":true,"value":${text}}`;
}
