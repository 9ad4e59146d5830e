// Decides whether a tool is enabled, by feature flags and the host's configuration. A flag that cannot be evaluated disables the tool.

import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { TOOL_NAME_PATTERN } from "../../sandbox/contract/tool-name.ts";
import { isThenable, notifySafely } from "../util/host-callback.ts";

/** Name of the flag for all tools; each tool also has a flag of its own: `tools.add`. */
const ALL_TOOLS = "tools.enabled";
const flagOf = (toolName: string): string => `tools.${toolName}`;

/** The tenant and tool that a flag is evaluated for. */
export interface FlagContext {
  readonly tenantId: string;
  readonly toolName: string;
}

/** True: enabled. False: disabled. Undefined: the flag is not set, and the configuration decides. */
export type FlagFunction = (flag: string, context: FlagContext) => boolean | undefined | Promise<boolean | undefined>;

/**
 * The part of an OpenFeature client (`OpenFeature.getClient()`) that is used here. The `targetingKey` is the tenant. A flag that is missing or
 * disabled counts as not set; a flag that cannot be evaluated disables the tool.
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

/** Feature flags: a function, or a client of OpenFeature. */
export type Flags = FlagFunction | FlagClient;

export const isFlags = (value: unknown): value is Flags =>
  typeof value === "function" ||
  (typeof value === "object" && value !== null && typeof (value as FlagClient).getBooleanDetails === "function");

/** Timeout of an evaluation in ms. Providers keep their flags in memory. */
const FLAG_TIMEOUT_MS = 1_000;

export interface ToolGateOptions {
  /** Whether tools are enabled if no flag is set. */
  readonly enabled: boolean;
  readonly flags?: Flags | undefined;
  /** Receives the reason why a flag could not be evaluated. */
  readonly onError?: ((error: ToolError) => void) | undefined;
}

/** How long to wait for an asynchronous flag. */
export interface GateBounds {
  /** In ms, 1,000 at most. */
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
    this.#flags = flags === undefined || typeof flags === "function" ? flags : toFlagFunction(flags);
    this.#isAsync = flags !== undefined && typeof flags !== "function";
    this.#onError = onError;
  }

  /**
   * Returns whether the tool is enabled, synchronously if its flags are synchronous. The tool is disabled if one of its two flags is false, or
   * cannot be evaluated; otherwise it is enabled if one is true, or the configuration enables it.
   * @throws {ToolError} CANCELLED, as a rejection, if the signal aborts first
   */
  isEnabled(context: FlagContext, bounds: GateBounds = {}): boolean | Promise<boolean> {
    if (this.#flags === undefined) return this.#enabled;
    // An invalid tool name comes from a model and must not be used as the name of a flag.
    if (!TOOL_NAME_PATTERN.test(context.toolName)) return false;
    const answers = this.#evaluateBoth(context);
    const isOn = this.#decideNow(answers);
    return isOn === undefined ? this.#wait(answers, context, bounds) : isOn;
  }

  /** Returns whether the tool is enabled, without waiting: false if that depends on an asynchronous flag. */
  isEnabledNow(context: FlagContext): boolean {
    if (this.#flags === undefined) return this.#enabled;
    if (this.#isAsync || !TOOL_NAME_PATTERN.test(context.toolName)) return false;
    return this.#decideNow(this.#evaluateBoth(context)) === true;
  }

  #evaluateBoth(context: FlagContext): readonly (Answer | Promise<Answer>)[] {
    return [this.#evaluate(ALL_TOOLS, context), this.#evaluate(flagOf(context.toolName), context)];
  }

  /** Returns undefined if the result depends on a pending flag. */
  #decideNow(answers: readonly (Answer | Promise<Answer>)[]): boolean | undefined {
    const known = answers.filter((answer) => !(answer instanceof Promise)) as Answer[];
    return known.length === answers.length || known.includes(false) ? this.#decide(known) : undefined;
  }

  #decide(answers: readonly Answer[]): boolean {
    if (answers.includes(false)) return false;
    return answers.includes(true) || this.#enabled;
  }

  #evaluate(flag: string, context: FlagContext): Answer | Promise<Answer> {
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
    const message = `The flag ${flag} could not be evaluated and counts as false`;
    notifySafely(this.#onError, new ToolError("INTERNAL", message, { cause }));
    return false;
  }

  async #wait(
    answers: readonly (Answer | Promise<Answer>)[],
    { toolName }: FlagContext,
    { timeoutMs = FLAG_TIMEOUT_MS, signal }: GateBounds,
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

/** Returns a flag function that evaluates flags with an OpenFeature client. A flag that is missing or disabled is not set. */
function toFlagFunction(client: FlagClient): FlagFunction {
  return async (flag, { tenantId, toolName }) => {
    const details = await client.getBooleanDetails(flag, false, { targetingKey: tenantId, tenantId, toolName });
    const { value, reason, errorCode, errorMessage } = details;
    if (errorCode === "FLAG_NOT_FOUND" || reason === "DISABLED") return undefined;
    if (errorCode !== undefined) throw new Error(`${errorCode}: ${errorMessage ?? "no message"}`);
    // A missing value is a failure of the client, unlike a flag that is not set.
    if (typeof value !== "boolean") throw new TypeError(`Expected a boolean value, got ${describeKind(value)}`);
    return value;
  };
}
