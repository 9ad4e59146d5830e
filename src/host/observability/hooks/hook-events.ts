// The events that hooks receive, and the functions of a hook.
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import type { ErrorCode, ErrorDetails } from "../../../sandbox/contract/errors.ts";
import type { Limits } from "../../../sandbox/contract/limits.ts";
import type { ToolResult, ToolUsage } from "../../contract/tool-call.ts";
import type { ToolValue } from "../../contract/tool-value.ts";

/** Identifies a call. */
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

/** Event of the stage `validate`: the arguments before they are validated. */
export interface ValidateEvent extends StageEvent {
  readonly definition: ToolDefinition;
  /**
   * A copy of the caller's arguments after repairs, pruning and coercion as configured, before validation. The call continues with these
   * arguments. Transforms and defaults of a Standard Schema are applied later.
   */
  readonly arguments: ToolValue;
}

/** Event of the stage `prepare`: the arguments are valid, and the tool has not started. */
export interface PrepareEvent extends StageEvent {
  readonly definition: ToolDefinition;
}

/** Event of the stage `execute`: the tool is about to run, with these limits. */
export interface ExecuteEvent extends StageEvent {
  readonly definition: ToolDefinition;
  readonly limits: Limits;
  /** Deadline by `performance.now()`. */
  readonly deadlineAt: number;
}

/** Event of the stage `afterExecute`: the tool has run, successfully or not. */
export interface AfterExecuteEvent extends StageEvent {
  readonly definition: ToolDefinition;
  readonly usage: ToolUsage;
  /** The outcome of the execution. The output has not been validated yet. */
  readonly code: "ok" | ErrorCode;
}

/** Event of the stage `capability`: the tool calls a capability, which has not been used yet. */
export interface CapabilityEvent extends StageEvent {
  readonly capability: string;
  /**
   * The input as the tool sent it, not validated. For `fetch`: `{ op: "request", id, method, url, headers, body, redirect }`, where
   * `headers` are pairs of name and value, `body` is null, `{ base64 }` or `{ stream: true }`, and `redirect` is "follow", "error" or
   * "manual". A WebSocket handshake has this form too, with `mode: "websocket"`, an http or https URL, and its protocols in the headers;
   * WebSocket messages do not reach hooks. The hook is called again before each redirect is followed, with the same fields for its target
   * and with `redirectedFrom`, the URL that sent the redirect. A modified input is validated; `op` and `id` must not change.
   */
  readonly input: unknown;
}

/** Event of the stage `capabilityResult`: the value that the tool is about to receive from a capability. */
export interface CapabilityResultEvent extends StageEvent {
  readonly capability: string;
  readonly output: unknown;
}

/** Event of the stage `result`: the result that the caller is about to receive. */
export interface ResultEvent extends StageEvent {
  readonly result: ToolResult;
}

/** An event for `observe`: the start and the end of each stage and capability call, and the result. */
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

/** A stage of a call. The stages come in this order. */
export type HookStage = "validate" | "prepare" | "execute" | "afterExecute";

/**
 * Why a call is rejected. A ToolError is a valid Rejection. An answer with `reject` always rejects: invalid fields of it are replaced,
 * truncated or dropped.
 */
export interface Rejection {
  /** A code of {@link ERROR_CODES}. @default "CAPABILITY_DENIED", also for an unknown code */
  readonly code: ErrorCode;
  /** Message for developers. Truncated after 10,000 UTF-16 code units. @default names the hook */
  readonly message: string;
  /** Plain JSON: up to 1,000 values in 64 KiB, 16 levels deep. Anything else is dropped. */
  readonly details?: ErrorDetails | undefined;
  /** @default the value of ERROR_CODES for the code */
  readonly recoverable?: boolean | undefined;
}

type Answer<Modified> = undefined | { readonly reject: Rejection } | { readonly modify: Modified };

// biome-ignore lint/suspicious/noConfusingVoidType: a hook that only observes returns nothing
type AnswerOrNothing<Modified> = Answer<Modified> | void;

type StageFunction<Event, Modified = never> = (
  event: Event,
) => AnswerOrNothing<Modified> | Promise<AnswerOrNothing<Modified>>;

/** Replaces a result: an output, which is validated like the tool's own, or an error, which is read like a {@link Rejection}. */
export type ModifiedResult =
  | { readonly output: unknown }
  | { readonly error: Omit<Rejection, "code"> & { readonly code?: ErrorCode } };

/**
 * Functions that are called at the stages of each call, in the order of the hooks; each receives the coercions of earlier hooks. A
 * function returns nothing, `{ modify }` or `{ reject }`; an answer with both rejects.
 *
 * A hook fails if it throws, does not answer in time, or returns anything else: null, false, an unknown key, or a modification that is not
 * valid for its stage. A failed hook denies the call with INTERNAL, unless it has `failClosed: false`. At `validate`, `prepare` and
 * `execute`, the tool does not run. At `capability`, the tool receives the error and the capability is not used. At `capabilityResult`,
 * `afterExecute` and `result`, the work is already done, but the error replaces its outcome.
 */
export interface Hook {
  /** Name of the hook in errors and traces. */
  readonly name: string;
  /** Whether a failure of the hook denies the call. False lets calls continue as if the hook were absent. @default true */
  readonly failClosed?: boolean | undefined;
  /** Time limit for one answer in ms, 1 to 30,000, and never more than the call's remaining time. @default 1_000 */
  readonly timeoutMs?: number | undefined;
  /** Receives events. Is not awaited and cannot change or deny the call. */
  readonly observe?: ((event: ObservedEvent) => unknown) | undefined;
  /** Called before the arguments are validated. Can modify or reject them. */
  readonly validate?: StageFunction<ValidateEvent, { readonly arguments: unknown }> | undefined;
  /** Called with valid arguments, before the tool starts. Can reject the call. */
  readonly prepare?: StageFunction<PrepareEvent> | undefined;
  /** Called directly before the tool runs, with its limits. Can reject the call. */
  readonly execute?: StageFunction<ExecuteEvent> | undefined;
  /** Called when the tool has run, before its output is validated. Can reject the call. */
  readonly afterExecute?: StageFunction<AfterExecuteEvent> | undefined;
  /**
   * Called before a capability is used. Can modify or reject its input. Not called for log entries, nor for further steps of a started operation
   * (parts of a body).
   */
  readonly capability?: StageFunction<CapabilityEvent, { readonly input: unknown }> | undefined;
  /** Called before the tool receives the value of a capability. Can modify or reject it. */
  readonly capabilityResult?: StageFunction<CapabilityResultEvent, { readonly output: unknown }> | undefined;
  /**
   * Called last, also for failed calls; if the call's time is over, the hook has 50 ms. The chunks of a stream were already delivered.
   */
  readonly result?: StageFunction<ResultEvent, ModifiedResult> | undefined;
}

export interface StageEvents {
  readonly validate: ValidateEvent;
  readonly prepare: PrepareEvent;
  readonly execute: ExecuteEvent;
  readonly afterExecute: AfterExecuteEvent;
  readonly capability: CapabilityEvent;
  readonly capabilityResult: CapabilityResultEvent;
  readonly result: ResultEvent;
}

export type HookStageName = keyof StageEvents;
