// Whether a tool may be listed and run at present: what the host's configuration says, and the feature flags that outrank it. What
// cannot be found out is off.

import { TOOL_NAME_PATTERN } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { isThenable, notifySafely } from "../util/host-callback.ts";

/** The flag of all tools, and the beginning of each tool's own: `tools.enabled`, `tools.add`. */
const ALL_TOOLS = "tools.enabled";
const flagOf = (toolName: string): string => `tools.${toolName}`;

/** Whom a flag is about. */
export interface FlagContext {
  readonly tenantId: string;
  readonly toolName: string;
}

/** True: on, false: off, undefined: the flag says nothing, and the configuration decides. */
export type FlagFunction = (flag: string, context: FlagContext) => boolean | undefined | Promise<boolean | undefined>;

/**
 * An OpenFeature client, as far as it is needed: `OpenFeature.getClient()`. Its `targetingKey` is the tenant. A flag that is not found, or
 * that is disabled, says nothing; one that cannot be evaluated turns the tool off.
 */
export interface FlagClient {
  getBooleanDetails(
    flag: string,
    defaultValue: boolean,
    context: { readonly targetingKey: string; readonly tenantId: string; readonly toolName: string },
  ): Promise<{
    readonly value: boolean;
    readonly reason?: string;
    readonly errorCode?: string;
    readonly errorMessage?: string;
  }>;
}

export type Flags = FlagFunction | FlagClient;

export const isFlags = (value: unknown): value is Flags =>
  typeof value === "function" ||
  (typeof value === "object" && value !== null && typeof (value as FlagClient).getBooleanDetails === "function");

/** An evaluation that takes longer has failed: providers keep their flags at hand. */
const FLAG_TIMEOUT_MS = 1_000;

export interface ToolGateOptions {
  /** What the configuration says of all tools. */
  readonly enabled: boolean;
  readonly flags?: Flags | undefined;
  /** Hears why a flag could not be evaluated. */
  readonly onError?: ((error: ToolError) => void) | undefined;
}

/** How long an answer may be waited for. */
export interface GatePatience {
  /** 1,000 ms at most. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

type Answer = boolean | undefined;

export class ToolGate {
  readonly #enabled: boolean;
  readonly #flags: FlagFunction | undefined;
  readonly #isAsync: boolean;
  readonly #onError: ToolGateOptions["onError"];

  constructor({ enabled, flags, onError }: ToolGateOptions) {
    this.#enabled = enabled;
    this.#flags = flags === undefined || typeof flags === "function" ? flags : askClient(flags);
    this.#isAsync = flags !== undefined && typeof flags !== "function";
    this.#onError = onError;
  }

  /**
   * Whether the tool is on: at once where its flags answer at once. Off where one of its two flags says so; on where one says so, or the
   * configuration does and they say nothing. What cannot be found out is off.
   * @throws {ToolError} CANCELLED, as a rejection, when the signal aborts first
   */
  isOn(context: FlagContext, patience: GatePatience = {}): boolean | Promise<boolean> {
    if (this.#flags === undefined) return this.#enabled;
    // A name that no tool can have comes from a model; it is no name of a flag.
    if (!TOOL_NAME_PATTERN.test(context.toolName)) return false;
    const answers = this.#answers(context);
    const isOn = this.#decideNow(answers);
    return isOn === undefined ? this.#wait(answers, context, patience) : isOn;
  }

  /** The same without waiting: false where only time would tell. */
  isSurelyOn(context: FlagContext): boolean {
    if (this.#flags === undefined) return this.#enabled;
    if (this.#isAsync || !TOOL_NAME_PATTERN.test(context.toolName)) return false;
    return this.#decideNow(this.#answers(context)) === true;
  }

  #answers(context: FlagContext): readonly (Answer | Promise<Answer>)[] {
    return [this.#ask(ALL_TOOLS, context), this.#ask(flagOf(context.toolName), context)];
  }

  /** Undefined where an answer is still to come, and it matters. */
  #decideNow(answers: readonly (Answer | Promise<Answer>)[]): boolean | undefined {
    const known = answers.filter((answer) => !(answer instanceof Promise)) as Answer[];
    return known.length === answers.length || known.includes(false) ? this.#decide(known) : undefined;
  }

  #decide(answers: readonly Answer[]): boolean {
    if (answers.includes(false)) return false;
    return answers.includes(true) || this.#enabled;
  }

  #ask(flag: string, context: FlagContext): Answer | Promise<Answer> {
    try {
      const answer: unknown = this.#flags?.(flag, { ...context });
      if (!isThenable(answer)) return this.#read(flag, answer);
      return Promise.resolve(answer).then(
        (value: unknown) => this.#read(flag, value),
        (cause: unknown) => this.#failed(flag, cause),
      );
    } catch (cause) {
      return this.#failed(flag, cause);
    }
  }

  #read(flag: string, answer: unknown): Answer {
    if (answer === undefined || typeof answer === "boolean") return answer;
    return this.#failed(flag, new TypeError(`Expected true, false or undefined, got a ${typeof answer}`));
  }

  #failed(flag: string, cause: unknown): false {
    const message = `The flag ${flag} could not be evaluated, so what it is about is off`;
    notifySafely(this.#onError, new ToolError("INTERNAL", message, { cause }));
    return false;
  }

  async #wait(
    answers: readonly (Answer | Promise<Answer>)[],
    { toolName }: FlagContext,
    { timeoutMs = FLAG_TIMEOUT_MS, signal }: GatePatience,
  ): Promise<boolean> {
    const withinMs = Math.min(timeoutMs, FLAG_TIMEOUT_MS);
    const { promise: ended, resolve, reject } = Promise.withResolvers<boolean>();
    const late = (): void =>
      resolve(this.#failed(`tools.enabled or ${flagOf(toolName)}`, new Error(`No answer within ${withinMs} ms`)));
    const cancel = (): void =>
      reject(new ToolError("CANCELLED", `The call of ${toolName} was cancelled by its caller`));
    const timer = setTimeout(late, withinMs);
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      return await Promise.race([Promise.all(answers).then((all) => this.#decide(all)), ended]);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    }
  }
}

/** What a client says of a flag that it does not know is the default that it was given: that says nothing. */
function askClient(client: FlagClient): FlagFunction {
  return async (flag, { tenantId, toolName }) => {
    const details = await client.getBooleanDetails(flag, false, { targetingKey: tenantId, tenantId, toolName });
    const { value, reason, errorCode, errorMessage } = details;
    if (errorCode === "FLAG_NOT_FOUND" || reason === "DISABLED") return undefined;
    if (errorCode !== undefined) throw new Error(`${errorCode}: ${errorMessage ?? "no message"}`);
    // Without a value the client has said nothing about the flag, which differs from "the flag says nothing".
    if (typeof value !== "boolean") throw new TypeError(`Expected a boolean value, got ${describeKind(value)}`);
    return value;
  };
}
