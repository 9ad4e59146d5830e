// Durable runs of code: run_code starts a run, and answers with its id when it waits for a person. The tool get_run
// looks it up. Each attempt is a call of run_code with the run in its context.
import { randomUUID } from "node:crypto";
import { type ErrorDetails, type JsonValue, ToolError, toToolError } from "../../sandbox/contract/errors.ts";
import { type CallContext, NO_USAGE } from "../contract/tool-call.ts";
import type { Execution } from "../executors/execution.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { TenantScope } from "../routing/tenant-scope.ts";
import type { RunHost } from "../runs/claimed-run.ts";
import type { RunContext, RunsOptions } from "../runs/run-options.ts";
import type { RunRecord } from "../runs/run-store.ts";
import { createRuns, type Runs } from "../runs/runs.ts";
import { notifySafely } from "../util/host-callback.ts";
import type { RunOutput } from "./run-result.ts";

export const GET_RUN = "get_run";
export const GET_RUN_DEFINITION = {
  description:
    "Looks up code that run_code has suspended, because it waits, for example for a person. Returns its status and, when it has ended, what run_code returns.",
  inputSchema: {
    type: "object",
    properties: {
      id: { type: "string", minLength: 1, maxLength: 200, description: "The id in the result of run_code" },
    },
    required: ["id"],
    additionalProperties: false,
  },
  annotations: { title: "Look up code", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
} as const;

const HINT = "The code is suspended and continues by itself. Look it up later with get_run; do not run it again";
/** Longest session id that fits into the id of a run. */
const MAX_SESSION_LENGTH = 120;

/** Encodes the session in the run's id, so that a continuation in any process has its stored values. */
const idOf = (sessionId: string | undefined): string =>
  sessionId === undefined ? randomUUID() : `${randomUUID()}.${Buffer.from(sessionId).toString("base64url")}`;
const sessionOf = (id: string): string | undefined => {
  const [, session] = id.split(".", 2);
  return session === undefined ? undefined : Buffer.from(session, "base64url").toString();
};

export class CodeRuns implements AsyncDisposable {
  readonly runs: Runs;
  /** The calls of run_code that wait until their runs wait or have ended. */
  readonly #callers = new Map<string, PreparedCall>();
  readonly #onError: RunsOptions["onError"];
  readonly #scopeOf: (tenantId: string) => TenantScope;

  /** @throws {ToolError} PARAM_INVALID for invalid options */
  constructor(host: RunHost, options: RunsOptions, tenancy: RunHost["router"]["tenancy"]) {
    this.#onError = options.onError;
    this.#scopeOf = (tenantId) => (tenancy.mode === "multi" ? { tenantId } : {});
    this.runs = createRuns(host, {
      ...options,
      prepare: async (run) => ({ ...this.#contextOf(run), ...(await options.prepare?.(run)) }),
    });
  }

  #contextOf({ id }: RunRecord): RunContext {
    const caller = this.#callers.get(id);
    const { context, clock } = caller ?? {};
    const { nestedCalls, callerQuotas, onLog, timeline, logSourceLocations, client }: CallContext = context ?? {};
    const sessionId = sessionOf(id);
    return {
      isCounted: caller !== undefined,
      ...(clock === undefined ? {} : { timeoutMs: Math.max(1, Math.floor(clock.leftMs)) }),
      ...(nestedCalls === undefined ? {} : { nestedCalls }),
      ...(callerQuotas === undefined ? {} : { callerQuotas }),
      ...(onLog === undefined ? {} : { onLog }),
      ...(timeline === undefined ? {} : { timeline }),
      ...(logSourceLocations === undefined ? {} : { logSourceLocations }),
      ...(client === undefined ? {} : { client }),
      ...(sessionId === undefined ? {} : { sessionId }),
    };
  }

  /**
   * Starts a run for a call of run_code, and waits until it has ended or waits. If the call is stopped before, its
   * caller never receives the id of the run: the run is cancelled.
   */
  async start(call: PreparedCall): Promise<Execution> {
    const { tenantId, context, definition, input, signal } = call;
    const { sessionId } = context;
    if ((sessionId?.length ?? 0) > MAX_SESSION_LENGTH)
      throw new ToolError("PARAM_INVALID", `context.sessionId: Expected at most ${MAX_SESSION_LENGTH} characters`);
    const id = idOf(sessionId);
    this.#callers.set(id, call);
    const scope = this.#scopeOf(tenantId);
    const cancel = (): void => {
      if (!isStopped(call)) return;
      this.runs.cancel(id, scope).catch((thrown) => notifySafely(this.#onError, thrown));
    };
    try {
      const { settled } = await this.runs.begin({ id, toolName: definition.name, arguments: input, ...scope });
      if (signal.aborted) cancel();
      signal.addEventListener("abort", cancel, { once: true });
      return toExecution(await settled);
    } finally {
      signal.removeEventListener("abort", cancel);
      this.#callers.delete(id);
    }
  }

  /** Makes an attempt of a run. Its own clock limits it, also while a person decides, so that of the call of run_code stands still. */
  async whileAttempt(id: string, attempt: () => Promise<Execution>): Promise<Execution> {
    const clock = this.#callers.get(id)?.clock;
    clock?.setPaused(true, this);
    try {
      return await attempt();
    } finally {
      clock?.setPaused(false, this);
    }
  }

  /** Returns what get_run answers. @throws {ToolError} PARAM_INVALID for an unknown id, and one of another session */
  async get(id: string, tenantId: string, sessionId: string | undefined): Promise<JsonValue> {
    const owner = sessionOf(id);
    const isOther = owner !== undefined && owner !== sessionId;
    const run = isOther ? undefined : await this.runs.get(id, this.#scopeOf(tenantId));
    if (run === undefined) throw noSuchRun();
    const execution = toExecution(run);
    if (!("error" in execution)) return JSON.parse(execution.outputText.toString()) as JsonValue;
    return toFailedOutput(id, execution.error);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.runs.close();
  }
}

/** Whether a call was stopped for itself. The end of the host, or of its tenant's calls, stops no run: it goes on elsewhere, or later. */
const isStopped = ({ context, signal, tracked }: PreparedCall): boolean =>
  context.signal?.aborted === true ||
  tracked?.cancelled !== undefined ||
  (signal.reason as Partial<ToolError> | undefined)?.code === "TOOL_TIMEOUT";

/** Returns what run_code and get_run answer as long as a run has not ended. */
export function toOpenOutput({ id, state, waits }: Pick<RunRecord, "id" | "state" | "waits">): RunOutput {
  const shown = waits.map(({ id: wait, kind, name, message, until }) => ({
    id: wait,
    kind,
    ...(name === undefined ? {} : { name }),
    ...(message === undefined ? {} : { message }),
    ...(until === undefined ? {} : { until }),
  }));
  return { status: state === "suspended" ? "suspended" : "running", run: { id, waits: shown }, hint: HINT };
}

/** Returns what get_run answers for a run that has failed, with the functions of ctx.onRollback and what became of them. */
export const toFailedOutput = (
  id: string,
  { code, message, details }: Pick<ToolError, "code" | "message"> & { readonly details?: ErrorDetails | undefined },
): JsonValue => ({
  status: "failed",
  error: { code, message },
  ...(Array.isArray(details?.rollback) ? { rollback: details.rollback } : {}),
  run: { id },
});

/** Returns the error of get_run for an id that is not that of a run of the caller. */
export const noSuchRun = (): ToolError => new ToolError("PARAM_INVALID", "There is no run with this id");

/** Converts a run to the outcome of run_code. */
function toExecution(run: RunRecord): Execution {
  const { result } = run;
  if (result === undefined) return { usage: NO_USAGE, outputText: JSON.stringify(toOpenOutput(run)) };
  // Attempts are calls of their own.
  const used = { usage: { ...NO_USAGE, ...result.usage }, isCharged: true };
  if (result.success) return { ...used, outputText: JSON.stringify(result.output) };
  const { code, message, details, recoverable } = result.error;
  const options = { recoverable, ...(details === undefined ? {} : { details }) };
  return { ...used, error: toToolError(new ToolError(code, message, options)) };
}
