// Functions of the host's own around each stage of a call: they observe, amend or refuse. One that throws or stalls is left out, and
// costs the call no more than its bound and the operator a line.
import { performance } from "node:perf_hooks";
import * as z from "zod";
import { strictObject } from "../sandbox/contract/plain-object.ts";
import type { ToolDefinition } from "../sandbox/definition.ts";
import { ERROR_CODES, type ErrorCode, type ErrorDetails, ToolError, type ToolErrorData } from "../sandbox/errors.ts";
import type { Limits } from "../sandbox/limits.ts";
import type { ToolResult, ToolUsage } from "./tool-call.ts";
import type { ToolValue } from "./tool-value.ts";
import { notifySafely } from "./util/host-callback.ts";

/** Which call it is. */
export interface HookCall {
  readonly callId: string;
  readonly toolName: string;
  readonly tenantId: string;
  readonly executionId?: string | undefined;
  readonly stepId?: string | undefined;
}

interface StageEvent {
  readonly call: HookCall;
}
export interface ValidateEvent extends StageEvent {
  readonly definition: ToolDefinition;
  /** A copy of what the caller gave, not yet validated: these are the arguments that the call goes on with. */
  readonly arguments: ToolValue;
}
export interface PrepareEvent extends StageEvent {
  readonly definition: ToolDefinition;
}
export interface ExecuteEvent extends StageEvent {
  readonly definition: ToolDefinition;
  readonly limits: Limits;
  /** By `performance.now()`. */
  readonly deadlineAt: number;
}
export interface NormalizeEvent extends StageEvent {
  readonly definition: ToolDefinition;
  readonly usage: ToolUsage;
  /** How the tool ended; what it said has not been looked at yet. */
  readonly code: "ok" | ErrorCode;
}
export interface CapabilityEvent extends StageEvent {
  readonly capability: string;
  /**
   * As the tool sent it, not yet validated. For `fetch`: `{ op: "request", id, method, url, headers, body, redirect }`, where `headers`
   * are pairs of name and value, `body` is null, `{ base64 }` or `{ stream: true }`, and `redirect` is "follow", "error" or "manual". The
   * hook is asked again for each redirect before it is followed, with the same fields for its target and with `redirectedFrom`, the
   * URL that answered with the redirect. An amendment of it is validated and applied, but for `op` and `id`, which must stay.
   */
  readonly input: unknown;
}
export interface CapabilityResultEvent extends StageEvent {
  readonly capability: string;
  readonly output: unknown;
}
export interface ResultEvent extends StageEvent {
  readonly result: ToolResult;
}

/** What `observe` hears: each stage as it begins and ends, each capability call, and the result. */
export type ObservedEvent = StageEvent &
  (
    | { readonly stage: HookStage; readonly phase: "begin" }
    | {
        readonly stage: HookStage;
        readonly phase: "end";
        readonly durationMs: number;
        readonly code: "ok" | ErrorCode;
      }
    | {
        readonly stage: "capability";
        readonly phase: "begin" | "end";
        readonly capability: string;
        readonly durationMs?: number;
        readonly code?: "ok" | ErrorCode;
      }
    | { readonly stage: "result"; readonly phase: "end"; readonly result: ToolResult }
  );
export type HookStage = "validate" | "prepare" | "execute" | "normalize";

/** Why a call does not go on: a code of {@link ERROR_CODES}, and a message for developers. A ToolError is one. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: ErrorDetails | undefined;
  readonly recoverable?: boolean | undefined;
}

type Answer<Amended> = undefined | { readonly refuse: Refusal } | { readonly amend: Amended };
// biome-ignore lint/suspicious/noConfusingVoidType: a function that only looks returns nothing
type Asked<Event, Amended = never> = (event: Event) => Answer<Amended> | void | Promise<Answer<Amended> | void>;
/** What may stand in a result in the place of another: an output, which is validated as the tool's own is, or an error. */
export type AmendedResult =
  | { readonly output: unknown }
  | { readonly error: Omit<Refusal, "code"> & { readonly code?: ErrorCode } };

/**
 * Each function is asked before its stage, in the order of the hooks, with what those before it have amended. It returns nothing, or
 * `{ amend }`, or `{ refuse }`. A hook that throws, answers with something else or not in time counts as absent, unless it is
 * `failClosed`.
 */
export interface Hook {
  readonly name: string;
  /** For guards: where it fails, calls are refused with INTERNAL. Without, calls go on without it: it fails open. */
  readonly failClosed?: boolean | undefined;
  /** How long it is waited for, in ms, 1 to 30,000; 1,000 unless stated, and never longer than what is left of the call. */
  readonly timeoutMs?: number | undefined;
  /** Never waited for, and changes nothing. */
  readonly observe?: ((event: ObservedEvent) => unknown) | undefined;
  readonly validate?: Asked<ValidateEvent, { readonly arguments: unknown }> | undefined;
  readonly prepare?: Asked<PrepareEvent> | undefined;
  readonly execute?: Asked<ExecuteEvent> | undefined;
  readonly normalize?: Asked<NormalizeEvent> | undefined;
  /** Not for lines of log, nor for further steps of what has begun (parts of a body). */
  readonly capability?: Asked<CapabilityEvent, { readonly input: unknown }> | undefined;
  readonly capabilityResult?: Asked<CapabilityResultEvent, { readonly output: unknown }> | undefined;
  /** The last word. Chunks of a stream have been seen by then. */
  readonly result?: Asked<ResultEvent, AmendedResult> | undefined;
}

interface Asks {
  readonly validate: ValidateEvent;
  readonly prepare: PrepareEvent;
  readonly execute: ExecuteEvent;
  readonly normalize: NormalizeEvent;
  readonly capability: CapabilityEvent;
  readonly capabilityResult: CapabilityResultEvent;
  readonly result: ResultEvent;
}
export type AskName = keyof Asks;
const ASKS = ["validate", "prepare", "execute", "normalize", "capability", "capabilityResult", "result"] as const;
/** What may be amended where. */
const AMENDABLE: { readonly [Name in AskName]: readonly string[] } = {
  validate: ["arguments"],
  prepare: [],
  execute: [],
  normalize: [],
  capability: ["input"],
  capabilityResult: ["output"],
  result: ["output", "error"],
};

const fn = z
  .custom<(event: never) => unknown>((value) => typeof value === "function", "Expected a function")
  .optional();
export const HooksSchema = z
  .array(
    strictObject({
      name: z.string().min(1).max(128),
      failClosed: z.boolean().default(false),
      timeoutMs: z.int().min(1).max(30_000).default(1_000),
      observe: fn,
      ...(Object.fromEntries(ASKS.map((name) => [name, fn])) as { [Name in AskName]: typeof fn }),
    }),
  )
  .max(100);
type ReadyHook = z.infer<typeof HooksSchema>[number];

const RefusalSchema = z.object({
  code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
  message: z.string().max(10_000),
  details: z.record(z.string(), z.json()).optional(),
  recoverable: z.boolean().optional(),
});
const AmendedErrorSchema = RefusalSchema.extend({ code: RefusalSchema.shape.code.optional() });

/** What has become of a hook that did not do what it should, for the operator's log. */
export interface HookFailure {
  readonly hook: string;
  readonly stage: string;
  readonly reason: "threw" | "stalled" | "answered wrongly";
  readonly call: HookCall;
  readonly cause?: unknown;
}

/** How long a stage may wait for its hooks. */
export interface HookWait {
  /** By performance.now(). */
  readonly until: number;
  readonly signal?: AbortSignal | undefined;
}

type Settled = { readonly answer: unknown } | { readonly failed: HookFailure["reason"]; readonly cause?: unknown };

/** All hooks of a router. */
export class Hooks {
  readonly #hooks: readonly ReadyHook[];
  readonly #report: (failure: HookFailure) => void;
  readonly #observers: readonly ReadyHook[];

  /** @throws {ToolError} PARAM_INVALID, naming the hook that is wrong */
  constructor(hooks: readonly Hook[], report: (failure: HookFailure) => void) {
    const parsed = HooksSchema.safeParse(hooks);
    if (!parsed.success) {
      const text = parsed.error.issues.map(({ path, message }) => `${["hooks", ...path].join(".")}: ${message}`);
      throw new ToolError("PARAM_INVALID", text.join("; "));
    }
    this.#hooks = parsed.data;
    this.#observers = parsed.data.filter(({ observe }) => observe !== undefined);
    this.#report = report;
  }

  has(name: AskName): boolean {
    return this.#hooks.some((hook) => hook[name] !== undefined);
  }

  observe(event: ObservedEvent): void {
    for (const { name, observe } of this.#observers) {
      const fail = (cause: unknown): void =>
        this.#report({ hook: name, stage: event.stage, reason: "threw", call: event.call, cause });
      try {
        const returned = observe?.(event as never);
        if (returned instanceof Promise) returned.catch(fail);
      } catch (cause) {
        fail(cause);
      }
    }
  }

  /**
   * Asks each hook that there is for it, one after the other.
   * @param amend makes of the event what an amendment makes of it; what it throws is the hook's failure
   * @throws {ToolError} the refusal of one, INTERNAL for a guard that failed
   */
  async ask<Name extends AskName>(
    name: Name,
    event: Asks[Name],
    wait: HookWait,
    amend: (event: Asks[Name], amended: { readonly [key: string]: unknown }) => Asks[Name] | Promise<Asks[Name]>,
  ): Promise<Asks[Name]> {
    let current = event;
    for (const hook of this.#hooks) {
      const asked = hook[name];
      if (asked === undefined) continue;
      const settled = await settle(
        asked,
        current,
        Math.min(hook.timeoutMs, wait.until - performance.now()),
        wait.signal,
      );
      // A call that is over says by itself how it ended.
      if (wait.signal?.aborted) return current;
      const read = "failed" in settled ? settled : readAnswer(settled.answer, AMENDABLE[name]);
      if ("refuse" in read) throw read.refuse;
      if ("amend" in read) current = await amend(current, read.amend);
      if ("failed" in read)
        this.#failed(hook, name, current.call, read.failed, "cause" in read ? read.cause : undefined);
    }
    return current;
  }

  #failed(hook: ReadyHook, stage: string, call: HookCall, reason: HookFailure["reason"], cause: unknown): void {
    notifySafely(this.#report, { hook: hook.name, stage, reason, call, ...(cause === undefined ? {} : { cause }) });
    if (!hook.failClosed) return;
    throw new ToolError("INTERNAL", `The hook ${hook.name} ${reason}, and no call goes on without it`, { cause });
  }
}

/** The clock of a call is to ring first. */
const LATER_MS = 5;

/** What it answers, or that it has not. An answer that is there at once costs no timer. */
async function settle(
  asked: (event: never) => unknown,
  event: unknown,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<Settled> {
  let timer: NodeJS.Timeout | undefined;
  const over = Promise.withResolvers<Settled>();
  const stop = (): void => over.resolve({ answer: undefined });
  try {
    const returned = asked(event as never);
    if (!isThenable(returned)) return { answer: returned };
    timer = setTimeout(() => over.resolve({ failed: "stalled" }), Math.max(0, ms) + LATER_MS);
    signal?.addEventListener("abort", stop, { once: true });
    const answered = Promise.resolve(returned).then(
      (answer): Settled => ({ answer }),
      (cause: unknown): Settled => ({ failed: "threw", cause }),
    );
    return await Promise.race([answered, over.promise]);
  } catch (cause) {
    return { failed: "threw", cause };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && typeof (value as { readonly then?: unknown }).then === "function";

type ReadAnswer =
  | { readonly none: true }
  | { readonly refuse: ToolError }
  | { readonly amend: { readonly [key: string]: unknown } }
  | { readonly failed: "answered wrongly" };

function readAnswer(answer: unknown, amendable: readonly string[]): ReadAnswer {
  if (answer === undefined || answer === null) return { none: true };
  try {
    const { refuse, amend } = answer as { readonly refuse?: unknown; readonly amend?: unknown };
    if (refuse !== undefined) return { refuse: toToolError(RefusalSchema.parse(refuse)) };
    const keys = Object.keys(amend as object);
    const [key = ""] = keys;
    if (keys.length !== 1 || !amendable.includes(key)) return { failed: "answered wrongly" };
    const value = (amend as { readonly [key: string]: unknown })[key];
    return { amend: { [key]: key === "error" ? AmendedErrorSchema.parse(value) : value } };
  } catch {
    return { failed: "answered wrongly" };
  }
}

function toToolError({ code, message, details, recoverable }: z.infer<typeof RefusalSchema>): ToolError {
  return new ToolError(code, message, {
    ...(details === undefined ? {} : { details: details as ErrorDetails }),
    ...(recoverable === undefined ? {} : { recoverable }),
  });
}

/** The error of a result, as a hook has amended it. */
export function amendError(error: ToolErrorData | undefined, amended: z.infer<typeof AmendedErrorSchema>): ToolError {
  return toToolError({ ...amended, code: amended.code ?? error?.code ?? "TOOL_FAILED" });
}
