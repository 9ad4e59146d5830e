// A session: stateful code execution, as in a notebook. Each run sees the state of earlier runs, and the value of its
// last expression is its output.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { CallContext, ToolResult } from "../contract/tool-call.ts";
import { toTextWithBytes } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import { createSandboxExecutor, type SandboxTool } from "../executors/sandbox.ts";
import type { ToolExecutable } from "../glovebox/tool-builder.ts";
import type { CallLog } from "../observability/call-log.ts";
import { toFailure } from "../pipeline/normalize.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { CONTEXT_FIELDS } from "../pipeline/read-context.ts";
import { checkKeys, describe, invalid, readFields } from "../pipeline/read-fields.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { ParsedSessionOptions } from "./session-options.ts";
import type { SessionInfo, SessionState } from "./session-state.ts";

/** Options of {@link Session.run}: the context of the call, and its input. */
export interface SessionRunOptions
  extends Omit<CallContext, "tenantId" | "deterministic" | "record" | "replay" | "sessionId"> {
  /** JSON value that the code reads as `input`; it may contain bytes. If omitted, `input` keeps its previous value. */
  readonly input?: unknown;
}

/** Builds the executable of a run. */
export type CompileRun = (code: string, fileName: string, call: PreparedCall) => Promise<ToolExecutable>;

/** Arguments of a session's internal tool, which the schema of {@link RUN_DEFINITION} has checked. */
interface RunArguments {
  readonly code: string;
  readonly input?: unknown;
}

export const RUN_DEFINITION = {
  name: "session",
  description: "",
  inputSchema: {
    type: "object",
    properties: { code: { type: "string" }, input: {} },
    required: ["code"],
    additionalProperties: false,
  },
} as const satisfies ToolDefinition;

export interface SessionExecutorOptions {
  readonly state: SessionState;
  readonly compile: CompileRun;
  readonly fileExtension: string;
  readonly tool: Omit<SandboxTool, keyof ToolExecutable>;
  readonly pool: CallPool;
}

/** Creates the executor of a session's code. It runs one cell at a time, in order of arrival. */
export function createSessionExecutor({
  state,
  compile,
  fileExtension,
  tool,
  pool,
}: SessionExecutorOptions): ToolExecutor {
  let count = 0;
  return {
    source: fileExtension === "py" ? "python" : "sandbox",
    wants: "value",
    execute: async (call: PreparedCall, log: CallLog): Promise<Execution> => {
      using lease = await state.enter(call);
      const { signal } = lease;
      const { code, ...given } = call.input as unknown as RunArguments;
      count += 1;
      const executable = await compileUntilAborted(
        () => compile(code, `cell-${count}.${fileExtension}`, { ...call, signal }),
        signal,
      );
      // The session's process may have ended during the build.
      state.assertOpen();
      const cpuMs = Math.min(call.limits.cpuMs, state.cpuMsLeft);
      const inputFields = executable.python === undefined ? toInput(given) : {};
      const run = { ...call, signal, limits: { ...call.limits, cpuMs }, ...inputFields };
      return await runInSession(
        state,
        createSandboxExecutor({ ...tool, ...executable, session: state }, pool),
        run,
        log,
      );
    },
  };
}

/** Returns the input of a cell. Python runs are built around code and input instead. */
function toInput(given: Omit<RunArguments, "code">): Pick<PreparedCall, "inputText" | "inputBytes"> {
  const { text, bytes } = toTextWithBytes(given);
  return { inputText: text ?? "{}", inputBytes: bytes };
}

/** Replaces the error of a stopped build by the reason of the call's signal. */
async function compileUntilAborted<Value>(compile: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  try {
    const value = await compile();
    signal.throwIfAborted();
    return value;
  } catch (thrown) {
    throw signal.aborted ? signal.reason : thrown;
  }
}

/** Runs a call in a session. Ends the session if code of the call may still run, so that no later run finds it. */
export async function runInSession(
  state: SessionState,
  executor: ToolExecutor,
  call: PreparedCall,
  log: CallLog,
): Promise<Execution> {
  const execution = await executor.execute(call, log);
  state.handleRunSettled("error" in execution ? execution.error : undefined);
  return execution;
}

/** Registration of a session's executor under a name in the router, until it is disposed. */
export interface SessionEntry extends Disposable {
  readonly toolName: string;
}

export interface SessionDependencies {
  readonly router: ToolRouter;
  readonly language: ParsedSessionOptions["language"];
  readonly register: () => SessionEntry;
}

/**
 * A stateful session. Disposing it (`await using`) or closing it ends its isolate; a current run fails with CANCELLED.
 * @example
 * ```ts
 * import { createGlovebox } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * await using session = await glovebox.openSession();
 * await session.run("const prices = [3, 4]");
 * const result = await session.run("prices.reduce((a, b) => a + b)");
 * console.log(result.success && result.output); // 7
 * ```
 */
export class Session implements AsyncDisposable {
  readonly #state: SessionState;
  readonly #router: ToolRouter;
  readonly #register: () => SessionEntry;
  /** Language of the session's cells. */
  readonly language: ParsedSessionOptions["language"];
  #runs = 0;
  #previousRun: Promise<void> = Promise.resolve();

  /** @internal use {@link Glovebox.openSession} */
  constructor(state: SessionState, { router, language, register }: SessionDependencies) {
    this.#state = state;
    this.#router = router;
    this.#register = register;
    this.language = language;
  }

  /** Id of the session, for `context.sessionId`. */
  get id(): string {
    return this.#state.info.id;
  }

  /** A copy of the session's current metadata. */
  get info(): SessionInfo {
    return { ...this.#state.info };
  }

  /** Whether the session's state is gone: it was closed, has expired, has exceeded a bound, or has lost its isolate. */
  get isOver(): boolean {
    return this.#state.hasEnded;
  }

  /**
   * Runs code after the runs before it have ended. Concurrent runs wait for each other, in order. A run that throws
   * keeps its effects. A run that is stopped (timeout, CPU time, memory or signal) ends the session.
   * @returns the result; the promise never rejects. Codes of failures are, among others: BUNDLE_FAILED for code that does
   *   not compile; TOOL_FAILED if it throws; TOOL_TIMEOUT, CPU_LIMIT, MEMORY_LIMIT or CANCELLED if it is stopped;
   *   TOOL_UNAVAILABLE if the session has ended; PARAM_INVALID for an unknown key or an invalid value in `options`
   */
  async run(code: string, options?: SessionRunOptions): Promise<ToolResult> {
    const started = performance.now();
    this.#runs += 1;
    const id = `${this.id}.${this.#runs}`;
    let given: SessionRunOptions;
    try {
      given = readRunOptions(options);
    } catch (thrown) {
      return await deferFailure(
        () => toFailure({ callId: id, toolName: RUN_DEFINITION.name, started }, thrown),
        () => true,
      );
    }
    const { input, ...context } = given;
    const { signal } = context;
    const { tenantId } = this.#state.info;
    const { calls } = this.#router;
    const { name: toolName } = RUN_DEFINITION;
    const accepted = calls.begin({ callId: id, toolName, tenantId, started, sessionId: this.id, state: "queued" });
    const before = this.#previousRun;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#previousRun = before.then(() => promise);
    try {
      // The run's timeout starts after its wait. An aborted wait is answered by the router at once.
      const waiting = accepted.signalWith(signal instanceof AbortSignal ? signal : undefined);
      await untilAborted(before, waiting).catch(() => {});
      using entry = this.#register();
      const call = { id, toolName: entry.toolName, arguments: { code, ...(input === undefined ? {} : { input }) } };
      return await this.#router.executeAccepted(call, { ...context, tenantId }, undefined, accepted);
    } finally {
      calls.end(accepted);
      resolve();
    }
  }

  /** Closes the session. Calling it twice is a no-op. */
  async close(): Promise<void> {
    this.#state[Symbol.dispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Context fields that belong to the session: a run cannot choose a tenant, another session or a seed. */
const SESSION_FIELDS: readonly string[] = ["tenantId", "sessionId", "deterministic", "record", "replay"];
const RUN_FIELDS: readonly string[] = ["input", ...CONTEXT_FIELDS.filter((field) => !SESSION_FIELDS.includes(field))];

/**
 * Copies the options. The router validates their values with the context.
 * @throws {ToolError} PARAM_INVALID for an unknown key
 */
function readRunOptions(options: unknown): SessionRunOptions {
  if (options === undefined) return {};
  if (!isPlainObject(options)) throw invalid("options", "a plain object", describe(options));
  return readFields("options", () => {
    checkKeys(options, "options", RUN_FIELDS);
    return { ...options };
  });
}

/** Returns the error for an id that a session of the same tenant already has. */
export const sessionExistsError = (id: string): ToolError =>
  new ToolError(
    "NAME_TAKEN",
    `A session with the id ${JSON.stringify(id)} already exists. Close it, or choose another id`,
  );
