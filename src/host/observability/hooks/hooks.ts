// Hooks: functions of the host that observe, modify or reject each stage of a call. A hook that throws, times out or returns an invalid
// answer denies the call, unless the host sets `failClosed: false`. Either failure is logged.
import { performance } from "node:perf_hooks";
import * as z from "zod";
import { ToolError, type ToolErrorData } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { Clock } from "../../pipeline/clock.ts";
import { ignoreOutcome, notifySafely, runCallback } from "../../util/host-callback.ts";
import { createHookError, type HookError, readHookAnswer } from "./hook-answer.ts";
import type { Hook, HookCall, HookStageName, ObservedEvent, StageEvents } from "./hook-events.ts";

const STAGES = ["validate", "prepare", "execute", "afterExecute", "capability", "capabilityResult", "result"] as const;

/** The keys that each stage can modify. */
const MODIFIABLE: { readonly [Name in HookStageName]: readonly string[] } = {
  validate: ["arguments"],
  prepare: [],
  execute: [],
  afterExecute: [],
  capability: ["input"],
  capabilityResult: ["output"],
  result: ["output", "error"],
};

/** In ms. If a hook's time limit and the call's deadline coincide, the call's clock fires first and determines the outcome. */
const CLOCK_PRECEDENCE_MS = 5;

const functionSchema = <Fn>() => z.custom<Fn>((value) => typeof value === "function", "Expected a function").optional();

const stageFunctions = Object.fromEntries(STAGES.map((name) => [name, functionSchema()])) as {
  readonly [Name in HookStageName]: z.ZodOptional<z.ZodCustom<NonNullable<Hook[Name]>>>;
};

export const HooksSchema = z
  .array(
    strictObject({
      name: z.string().min(1).max(128),
      failClosed: z.boolean().default(true),
      timeoutMs: z.int().min(1).max(30_000).default(1_000),
      observe: functionSchema<NonNullable<Hook["observe"]>>(),
      ...stageFunctions,
    }),
  )
  .max(100);

type ParsedHook = z.output<typeof HooksSchema>[number];

/** A failure of a hook, for the operator's log. */
export interface HookFailure {
  readonly hook: string;
  readonly stage: string;
  readonly reason: "threw" | "timed out" | "gave an invalid answer";
  readonly call: HookCall;
  readonly cause?: unknown;
}

/** How long a stage may wait for its hooks. */
export interface HookWait {
  /** Deadline by performance.now(); used if there is no clock. */
  readonly until: number;
  /** The call's clock. While it is paused, the remaining time does not shrink. */
  readonly clock?: Pick<Clock, "leftMs"> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** All hooks of a router. */
export class Hooks {
  readonly #hooks: readonly ParsedHook[];
  readonly #report: (failure: HookFailure) => void;
  readonly #observers: readonly ParsedHook[];
  readonly #abandoned = new AbortController();

  /** @throws {ToolError} PARAM_INVALID, naming the path of each invalid option: `hooks.0.timeoutMs` */
  constructor(hooks: readonly Hook[], report: (failure: HookFailure) => void) {
    this.#hooks = parseOptions(HooksSchema, hooks, "hooks");
    this.#observers = this.#hooks.filter(({ observe }) => observe !== undefined);
    this.#report = report;
  }

  has(name: HookStageName): boolean {
    return this.#hooks.some((hook) => hook[name] !== undefined);
  }

  observe(event: ObservedEvent): void {
    for (const { name, observe } of this.#observers) {
      ignoreOutcome(
        () => observe?.(event),
        (cause) => this.#report({ hook: name, stage: event.stage, reason: "threw", call: event.call, cause }),
      );
    }
  }

  /**
   * Calls each hook that has a function for this stage, in sequence.
   * @param modify returns the event with a modification applied; its exception ends the call
   * @throws {ToolError} a hook's rejection; INTERNAL if a hook with failClosed fails; the signal's reason if the call has ended
   */
  async callStage<Name extends HookStageName>(
    name: Name,
    event: StageEvents[Name],
    wait: HookWait,
    modify: (
      event: StageEvents[Name],
      modified: { readonly [key: string]: unknown },
    ) => StageEvents[Name] | Promise<StageEvents[Name]>,
  ): Promise<StageEvents[Name]> {
    let current = event;
    for (const hook of this.#hooks) {
      // TypeScript does not know that the function of a stage takes the event of the same stage.
      const stageFunction = hook[name] as ((event: StageEvents[Name]) => unknown) | undefined;
      if (stageFunction === undefined) continue;
      // A call that has ended must not continue, whether or not its hooks have answered.
      wait.signal?.throwIfAborted();
      const timeoutMs = Math.max(0, Math.min(hook.timeoutMs, leftMsOf(wait))) + CLOCK_PRECEDENCE_MS;
      // A call's own signal aborts when Glovebox is closed; the `result` stage may have no signal.
      const abandoned = this.#abandoned.signal;
      const bounds = {
        timeoutMs,
        // Read only if the answer is a promise.
        get signal() {
          return wait.signal === undefined ? abandoned : AbortSignal.any([wait.signal, abandoned]);
        },
      };
      const outcome = runCallback(() => stageFunction(current), bounds);
      // A synchronous answer costs no turn of the event loop.
      const settled = outcome instanceof Promise ? await outcome : outcome;
      wait.signal?.throwIfAborted();
      if ("failed" in settled) {
        const reason = settled.failed === "threw" ? "threw" : "timed out";
        this.#failed(hook, name, current.call, reason, settled.cause);
        continue;
      }
      const read = readHookAnswer(settled.answer, MODIFIABLE[name], hook.name);
      if (read.kind === "rejection") throw read.error;
      if (read.kind === "modification") current = await modify(current, read.modified);
      if (read.kind === "invalid") this.#failed(hook, name, current.call, "gave an invalid answer", undefined);
    }
    return current;
  }

  /** Stops waiting for hooks. A hook that has not answered counts as failed. */
  stopWaiting(): void {
    this.#abandoned.abort();
  }

  #failed(hook: ParsedHook, stage: string, call: HookCall, reason: HookFailure["reason"], cause: unknown): void {
    notifySafely(this.#report, { hook: hook.name, stage, reason, call, ...(cause === undefined ? {} : { cause }) });
    if (!hook.failClosed) return;
    throw new ToolError("INTERNAL", `Hook "${hook.name}" ${reason} at stage "${stage}", so the call was denied`, {
      cause,
    });
  }
}

/** Returns the remaining time of a call in ms. It does not shrink while the call's clock is paused. */
export const leftMsOf = ({ clock, until }: HookWait): number => clock?.leftMs ?? until - performance.now();

/** Returns the error that replaces a result. Without its own code, it keeps the code of the error that it replaces. */
export function modifyError(error: ToolErrorData | undefined, modified: HookError): ToolError {
  return createHookError(modified, error?.code ?? "TOOL_FAILED");
}
