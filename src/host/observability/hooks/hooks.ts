// Functions of the host around each stage of a call: they observe, amend or reject it. A hook that throws, is too slow or gives an invalid
// answer denies the call, unless the host has set `failClosed: false`; the operator is told in either case.
import { performance } from "node:perf_hooks";
import * as z from "zod";
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { type ErrorCode, type ErrorDetails, ToolError, type ToolErrorData } from "../../../sandbox/contract/errors.ts";
import type { Limits } from "../../../sandbox/contract/limits.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { ToolResult, ToolUsage } from "../../contract/tool-call.ts";
import type { ToolValue } from "../../contract/tool-value.ts";
import type { Clock } from "../../pipeline/clock.ts";
import { ignoreOutcome, notifySafely, runCallback } from "../../util/host-callback.ts";
import { createHookError, type HookError, readHookAnswer } from "./hook-answer.ts";

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
  /**
   * A copy of the caller's arguments, repaired, pruned and coerced as the host states, and not validated yet. The call continues with
   * these arguments. Transforms and defaults of a Standard Schema are applied later.
   */
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
   * are pairs of name and value, `body` is null, `{ base64 }` or `{ stream: true }`, and `redirect` is "follow", "error" or "manual". A
   * WebSocket's handshake is one too, with `mode: "websocket"`, an http or https URL and its protocols in the headers; its messages are
   * none. The hook is asked again for each redirect before it is followed, with the same fields for its target and with `redirectedFrom`, the
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

/**
 * Why a call is rejected. A ToolError is a Refusal. An answer with `refuse` rejects in any form: what does not fit is replaced, cut or left
 * out.
 */
export interface Refusal {
  /** A code of {@link ERROR_CODES}. @default "CAPABILITY_DENIED", also for an unknown code */
  readonly code: ErrorCode;
  /** For developers. A text of more than 10,000 UTF-16 units is cut. @default names the hook */
  readonly message: string;
  /** Plain JSON: up to 1,000 values in 64 KiB, 16 deep; everything else in it is left out. */
  readonly details?: ErrorDetails | undefined;
  /** @default as ERROR_CODES states for the code */
  readonly recoverable?: boolean | undefined;
}

type Answer<Amended> = undefined | { readonly refuse: Refusal } | { readonly amend: Amended };
// biome-ignore lint/suspicious/noConfusingVoidType: a function that only looks returns nothing
type Asked<Event, Amended = never> = (event: Event) => Answer<Amended> | void | Promise<Answer<Amended> | void>;
/** Replaces a result: an output, which is validated as the tool's own is, or an error, which is read as a {@link Refusal} is. */
export type AmendedResult =
  | { readonly output: unknown }
  | { readonly error: Omit<Refusal, "code"> & { readonly code?: ErrorCode } };

/**
 * Each function is called at its stage, in the order of the hooks, with what those before it have amended. It returns nothing, or
 * `{ amend }`, or `{ refuse }`; an answer with both rejects.
 *
 * A hook is broken when it throws, does not answer in time, or answers anything else: null, false, an unknown key, an amendment that does
 * not fit its stage. A broken hook denies the call with INTERNAL, unless it is `failClosed: false`. At `validate`, `prepare` and `execute`
 * the tool does not run. At `capability` the tool gets the error in the place of an answer and the capability is not used. At
 * `capabilityResult`, `normalize` and `result` what was done is done, but its outcome is dropped and the error takes its place.
 */
export interface Hook {
  readonly name: string;
  /** Whether a broken hook denies the call. False lets calls go on as if the hook were absent. @default true */
  readonly failClosed?: boolean | undefined;
  /** Time for one answer in ms, 1 to 30,000, and never more than the call has left. @default 1_000 */
  readonly timeoutMs?: number | undefined;
  /** Is not awaited and cannot change or deny the call. */
  readonly observe?: ((event: ObservedEvent) => unknown) | undefined;
  readonly validate?: Asked<ValidateEvent, { readonly arguments: unknown }> | undefined;
  readonly prepare?: Asked<PrepareEvent> | undefined;
  readonly execute?: Asked<ExecuteEvent> | undefined;
  readonly normalize?: Asked<NormalizeEvent> | undefined;
  /** Not for lines of log, nor for further steps of what has begun (parts of a body). */
  readonly capability?: Asked<CapabilityEvent, { readonly input: unknown }> | undefined;
  readonly capabilityResult?: Asked<CapabilityResultEvent, { readonly output: unknown }> | undefined;
  /**
   * Called last, also for calls that have failed; one whose time is over gives it 50 ms. Chunks of a stream have been delivered by then.
   */
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
      failClosed: z.boolean().default(true),
      timeoutMs: z.int().min(1).max(30_000).default(1_000),
      observe: fn,
      ...(Object.fromEntries(ASKS.map((name) => [name, fn])) as { [Name in AskName]: typeof fn }),
    }),
  )
  .max(100);
type ReadyHook = z.infer<typeof HooksSchema>[number];

/** A hook that threw, was too slow or gave an invalid answer, for the operator's log. */
export interface HookFailure {
  readonly hook: string;
  readonly stage: string;
  readonly reason: "threw" | "timed out" | "gave an invalid answer";
  readonly call: HookCall;
  readonly cause?: unknown;
}

/** How long a stage may wait for its hooks. */
export interface HookWait {
  /** By performance.now(); read where there is no clock. */
  readonly until: number;
  /** The call's clock, which may be held: then its time goes on after `until`. */
  readonly clock?: Pick<Clock, "leftMs"> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** All hooks of a router. */
export class Hooks {
  readonly #hooks: readonly ReadyHook[];
  readonly #report: (failure: HookFailure) => void;
  readonly #observers: readonly ReadyHook[];
  readonly #abandoned = new AbortController();

  /** @throws {ToolError} PARAM_INVALID, naming the path of each option that is wrong: `hooks.0.timeoutMs` */
  constructor(hooks: readonly Hook[], report: (failure: HookFailure) => void) {
    this.#hooks = parseOptions(HooksSchema, hooks, "hooks");
    this.#observers = this.#hooks.filter(({ observe }) => observe !== undefined);
    this.#report = report;
  }

  has(name: AskName): boolean {
    return this.#hooks.some((hook) => hook[name] !== undefined);
  }

  observe(event: ObservedEvent): void {
    for (const { name, observe } of this.#observers) {
      ignoreOutcome(
        () => observe?.(event as never),
        (cause) => this.#report({ hook: name, stage: event.stage, reason: "threw", call: event.call, cause }),
      );
    }
  }

  /**
   * Asks each hook that has a function for this stage, one after the other.
   * @param amend returns the event with an amendment in it; what it throws ends the call
   * @throws {ToolError} a hook's rejection; INTERNAL for a broken hook that is failClosed; the signal's reason for a call that has ended
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
      // A call that has ended goes no further, whether its guards have answered or not.
      wait.signal?.throwIfAborted();
      const timeoutMs = Math.max(0, Math.min(hook.timeoutMs, leftMsOf(wait))) + LATER_MS;
      // A call's own signal aborts when Glovebox is closed; what is asked about its result has none.
      const abandoned = this.#abandoned.signal;
      const bounds = {
        timeoutMs,
        // Read only for an answer that is not there at once.
        get signal() {
          return wait.signal === undefined ? abandoned : AbortSignal.any([wait.signal, abandoned]);
        },
      };
      const outcome = runCallback(() => asked(current as never), bounds);
      // An answer that is there at once costs no turn of the event loop.
      const settled = outcome instanceof Promise ? await outcome : outcome;
      wait.signal?.throwIfAborted();
      if ("failed" in settled) {
        const reason = settled.failed === "threw" ? "threw" : "timed out";
        this.#failed(hook, name, current.call, reason, settled.cause);
        continue;
      }
      const read = readHookAnswer(settled.answer, AMENDABLE[name], hook.name);
      if (read.is === "rejection") throw read.error;
      if (read.is === "amendment") current = await amend(current, read.amended);
      if (read.is === "invalid") this.#failed(hook, name, current.call, "gave an invalid answer", undefined);
    }
    return current;
  }

  /** Waits for none of them any longer: one that has not answered is broken. */
  abandon(): void {
    this.#abandoned.abort();
  }

  #failed(hook: ReadyHook, stage: string, call: HookCall, reason: HookFailure["reason"], cause: unknown): void {
    notifySafely(this.#report, { hook: hook.name, stage, reason, call, ...(cause === undefined ? {} : { cause }) });
    if (!hook.failClosed) return;
    throw new ToolError("INTERNAL", `Hook "${hook.name}" ${reason} at stage "${stage}", so the call was denied`, {
      cause,
    });
  }
}

/** In ms: when a hook's time and the call's end together, the call's clock rings first and says how the call ended. */
const LATER_MS = 5;

/** Returns the time in ms that a call has left; while its clock is held, that does not shrink. */
export const leftMsOf = ({ clock, until }: HookWait): number => clock?.leftMs ?? until - performance.now();

/** Returns the error that replaces a result; without a code of its own it keeps the code of the error that it replaces. */
export function amendError(error: ToolErrorData | undefined, amended: HookError): ToolError {
  return createHookError(amended, error?.code ?? "TOOL_FAILED");
}
