// Answers the capability requests of one call: is it granted, is there allowance left, does the input fit, what came of it.
import { ERROR_CODES, type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityEnvelope } from "../../sandbox/protocol/guest-messages.ts";
import { toBoundedJson } from "../contract/tool-value.ts";
import { isValueTooLarge, type ValueLimits } from "../contract/value-size.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import type { RunningCallObserver } from "../pipeline/prepared-call.ts";
import { isThenable, notifySafely } from "../util/host-callback.ts";
import type { CpuAccount } from "../util/time-slicing.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { Capability, CapabilityContext } from "./capability.ts";

/** An answer may be as large as this though the tool's own output may not: a part of a body, say. */
const MIN_ANSWER_BYTES = 1024 * 1024;
const INPUT_CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;

/** Gives the tool a ToolError's code and message; of a message for the operator, and of any other value, only that there was a failure. */
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

interface Refusal {
  readonly message: string;
  readonly trace: readonly JsonValue[] | undefined;
}

/** A handler may throw anything; a revoked proxy throws when it is asked what it is. */
const isToolError = (thrown: unknown): thrown is ToolError => Error.isError(thrown) && thrown instanceof ToolError;

export interface BrokerOptions {
  readonly granted: ReadonlyMap<string, Capability>;
  readonly limits: Limits;
  readonly context: CapabilityContext;
  /** Whose host time it is that reading a large input takes. */
  readonly payer?: CpuAccount;
  /** Who looks at the call from outside. */
  readonly watch?: RunningCallObserver | undefined;
  /** Hears what the tool may not: failures of a handler that are not ToolErrors. */
  readonly onHandlerError?: ((error: unknown, capability: string) => void) | undefined;
}

/** One call's side of the bridge, on the host. Counts what the guest and the worker have counted before: neither is believed. */
export class CapabilityBroker {
  readonly #options: BrokerOptions;
  /** By code, the last failure that this call was really answered with: what a guest may claim as the cause of its own. */
  readonly #refusals = new Map<string, Refusal>();
  #calls = 0;
  #pending = 0;
  /** Of these, the ones that wait for a server to say something by itself. */
  #listening = 0;

  constructor(options: BrokerOptions) {
    this.#options = options;
  }

  /** Requests that wait for their answers; left out are lines of the log, and WebSockets that wait for messages: they are at nothing. */
  get pending(): number {
    return this.#pending - this.#listening;
  }

  wasRefusedWith(code: string): boolean {
    return this.#refusals.has(code);
  }

  /** The calls that led to a failure, outermost first, if it was one of another tool. */
  traceOf(code: string, message: string): readonly JsonValue[] | undefined {
    const refusal = this.#refusals.get(code);
    return refusal?.message === message ? refusal.trace : undefined;
  }

  /** The envelope for one request, as JSON text. Never rejects. */
  async answer(name: string, inputText: string): Promise<string> {
    // Lines of the log have an allowance of their own, which CallLog keeps.
    const counts = name !== "log";
    if (counts) this.#pending += 1;
    try {
      return await this.#run(name, inputText);
    } catch (thrown) {
      const envelope = toEnvelope(thrown, name);
      const trace = isToolError(thrown) ? thrown.details?.trace : undefined;
      this.#refusals.set(envelope.code, { message: envelope.message, trace: Array.isArray(trace) ? trace : undefined });
      const isHidden = !isToolError(thrown) || isForOperator(thrown);
      if (isHidden) notifySafely((error) => this.#options.onHandlerError?.(error, name), thrown);
      return JSON.stringify(envelope);
    } finally {
      if (counts) this.#pending -= 1;
    }
  }

  async #run(name: string, inputText: string): Promise<string> {
    const { granted, limits, context, payer, watch } = this.#options;
    const capability = granted.get(name);
    if (capability === undefined) {
      throw new ToolError("CAPABILITY_DENIED", `The capability "${name}" was not granted to this tool`);
    }
    const { uncounted } = capability;
    if (uncounted.length === 0) this.#count(name);
    const bounds = { bytes: limits.inputBytes, depth: limits.jsonDepth, values: limits.jsonValues };
    const what = `The input of capability ${name}`;
    // Without an `await` where nothing is awaited, a line of log is in its place before the next message is read.
    const raw = isSmallJson(inputText)
      ? parseSmallJson(inputText, bounds, INPUT_CODES, what)
      : await parseLargeText(inputText, bounds, INPUT_CODES, what, context.signal, payer);
    const op = opOf(raw);
    const isFurther = uncounted.length > 0 && uncounted.includes(op);
    if (uncounted.length > 0) this.#count(name, isFurther);
    if (isFurther && name === "fetch" && op === "receive") return await this.#listen(capability, raw);
    if (watch === undefined || name === "log" || isFurther)
      return await this.#call(capability, raw, context, undefined);
    return await watch.capability(name, raw, context, (input, own, amend) => this.#call(capability, input, own, amend));
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
    amend: ((output: unknown) => Promise<unknown>) | undefined,
  ): Promise<string> {
    const { name } = capability;
    const { limits } = this.#options;
    const checked = this.#bounded(capability.checkInput(raw, context.signal));
    const input = checked instanceof Promise ? await checked : checked;
    if ("problem" in input) throw new ToolError("PARAM_INVALID", `The input of capability ${name}: ${input.problem}`);
    // The call may have ended while its guards and schemas took their time.
    context.signal.throwIfAborted();
    const answered = await this.#bounded(capability.handler(input.value as never, context));
    const returned = amend === undefined ? answered : await amend(answered ?? null);
    const output = await this.#bounded(capability.checkOutput(returned ?? null, context.signal));
    if ("problem" in output) {
      throw new ToolError(
        "OUTPUT_INVALID",
        `Capability "${name}" returned a value that does not match its output schema`,
        {
          cause: output.problem,
        },
      );
    }
    return toEnvelopeText(output.value, name, {
      bytes: Math.max(limits.outputBytes, MIN_ANSWER_BYTES),
      values: limits.jsonValues,
    });
  }

  /** Waits for functions of the host no longer than the call takes: one that never settles leaves nothing behind. */
  #bounded<Value>(value: Value | PromiseLike<Value>): Value | Promise<Value> {
    return isThenable(value) ? untilAborted(Promise.resolve(value), this.#options.context.signal) : value;
  }

  #count(name: string, isFree = false): void {
    const { hostCalls, pendingHostCalls } = this.#options.limits;
    if (name === "log") return;
    if (!isFree) this.#calls += 1;
    if (this.#calls > hostCalls) throw new ToolError("QUOTA_EXCEEDED", `This call may make ${hostCalls} host calls`);
    if (this.#pending > pendingHostCalls) {
      throw new ToolError("QUOTA_EXCEEDED", `${pendingHostCalls} host calls are waiting already`);
    }
  }
}

/** Which of a capability's inputs it is, where those have an `op`. */
function opOf(input: JsonValue): string {
  if (typeof input !== "object" || input === null || !("op" in input)) return "";
  return typeof input.op === "string" ? input.op : "";
}

/** Stops at the limit: a handler of the host's may answer with what it did not count. */
function toText(value: unknown, most: ValueLimits, tooLarge: (limit: keyof ValueLimits) => ToolError): string {
  try {
    return toBoundedJson(value, most) ?? "null";
  } catch (thrown) {
    // One that nests so deep may hold itself, and then its handler has failed.
    if (isValueTooLarge(thrown) && !thrown.isDeep) throw tooLarge(thrown.limit);
    throw thrown;
  }
}

function toEnvelopeText(value: unknown, name: string, most: ValueLimits): string {
  const tooLarge = (limit: keyof ValueLimits): ToolError => {
    const what = limit === "bytes" ? `${most.bytes} bytes` : `${most.values} JSON values (limit jsonValues)`;
    return new ToolError("OUTPUT_TOO_LARGE", `The capability ${name} answered with more than ${what}`);
  };
  const text = toText(value, most, tooLarge);
  if (Buffer.byteLength(text) > most.bytes) throw tooLarge("bytes");
  return `{"ok":true,"value":${text}}`;
}
