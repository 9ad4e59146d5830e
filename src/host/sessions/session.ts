// Session: stateful code execution, like a notebook. Each run sees what the ones before have left; its last expression is its output.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { ToolContext, ToolResult } from "../contract/tool-call.ts";
import { toTextWithBytes } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";
import type { Executor } from "../executors/executor.ts";
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
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { Conversation, SessionInfo } from "./conversation.ts";
import type { ParsedSessionOptions } from "./session-options.ts";

export interface SessionRunOptions extends Omit<ToolContext, "tenantId" | "deterministic" | "sessionId"> {
  /** JSON that the code finds as `input`, bytes in it included; without it `input` stays what it was. */
  readonly input?: unknown;
}

/** What code is run as. */
export type CompileRun = (code: string, fileName: string, call: PreparedCall) => Promise<ToolExecutable>;

/** What a session's own tool is called with. */
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

export interface SessionExecutorParts {
  readonly conversation: Conversation;
  readonly compile: CompileRun;
  readonly fileExtension: string;
  readonly tool: Omit<SandboxTool, keyof ToolExecutable>;
  readonly pool: WorkerPool;
}

/** Runs a session's code: one run at a time, in the order in which they came. */
export function createSessionExecutor({
  conversation,
  compile,
  fileExtension,
  tool,
  pool,
}: SessionExecutorParts): Executor {
  let count = 0;
  return {
    source: fileExtension === "py" ? "python" : "sandbox",
    wants: "value",
    execute: async (call: PreparedCall, log: CallLog): Promise<Execution> => {
      using turn = await conversation.enter(call);
      const { signal } = turn;
      const { code, ...given } = call.input as unknown as RunArguments;
      count += 1;
      const runs = await compiled(() => compile(code, `cell-${count}.${fileExtension}`, { ...call, signal }), signal);
      // Its process may have ended meanwhile.
      conversation.refuseWhenOver();
      const cpuMs = Math.min(call.limits.cpuMs, conversation.cpuMsLeft);
      const told = runs.python === undefined ? toInput(given) : {};
      const run = { ...call, signal, limits: { ...call.limits, cpuMs }, ...told };
      return await inConversation(
        conversation,
        createSandboxExecutor({ ...tool, ...runs, session: conversation }, pool),
        run,
        log,
      );
    },
  };
}

/** Python's own runs are made around code and input as they came; a cell has only its input left to be told, if there is one. */
function toInput(given: Omit<RunArguments, "code">): Pick<PreparedCall, "inputText" | "inputBytes"> {
  const { text, bytes } = toTextWithBytes(given);
  return { inputText: text ?? "{}", inputBytes: bytes };
}

/** A build that was stopped says so; why, the call's own signal knows. */
async function compiled<Value>(compile: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  try {
    const value = await compile();
    signal.throwIfAborted();
    return value;
  } catch (thrown) {
    throw signal.aborted ? signal.reason : thrown;
  }
}

/** Whatever may still be going on when the run is over for its caller, no later run finds. */
export async function inConversation(
  conversation: Conversation,
  executor: Executor,
  call: PreparedCall,
  log: CallLog,
): Promise<Execution> {
  const execution = await executor.execute(call, log);
  conversation.left("error" in execution ? execution.error : undefined);
  return execution;
}

/** How a session's runs find their executor: a name in the router's registry, until it is disposed. */
export interface SessionEntry extends Disposable {
  readonly toolName: string;
}

export interface SessionParts {
  readonly router: ToolRouter;
  readonly language: ParsedSessionOptions["language"];
  readonly register: () => SessionEntry;
}

/** Dispose it (`await using`) or close it: its isolate goes, and a run that is under way ends with CANCELLED. */
export class Session implements AsyncDisposable {
  readonly #conversation: Conversation;
  readonly #router: ToolRouter;
  readonly #register: () => SessionEntry;
  readonly language: ParsedSessionOptions["language"];
  #runs = 0;
  #last: Promise<void> = Promise.resolve();

  /** @internal use {@link Glovebox.openSession} */
  constructor(conversation: Conversation, { router, language, register }: SessionParts) {
    this.#conversation = conversation;
    this.#router = router;
    this.#register = register;
    this.language = language;
  }

  get id(): string {
    return this.#conversation.info.id;
  }

  get info(): SessionInfo {
    return { ...this.#conversation.info };
  }

  /** No run will find its state again: it was closed, has expired, has spent what it may, or its isolate is gone. */
  get isOver(): boolean {
    return this.#conversation.isOver;
  }

  /**
   * Runs code where the runs before it have ended; several at one time wait for each other, in the order in which they came. Always
   * resolves; options with an unknown key or a wrong value give PARAM_INVALID. A run that throws leaves what it has done; one that is stopped (by its time, its CPU time, its memory or its signal) takes
   * the session with it, and later ones get TOOL_UNAVAILABLE, which says so.
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
    const { tenantId } = this.#conversation.info;
    const { calls } = this.#router;
    const { name: toolName } = RUN_DEFINITION;
    const accepted = calls.begin({ callId: id, toolName, tenantId, started, sessionId: this.id, state: "queued" });
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = before.then(() => promise);
    try {
      // Its time begins with its turn; one that has no turn any more is answered at once.
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

  /** Twice is a no-op. */
  async close(): Promise<void> {
    this.#conversation[Symbol.dispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** A session has its tenant, and its runs find what others have left: no run has a tenant, a conversation or a seed of its own. */
const NOT_OF_RUNS: readonly string[] = ["tenantId", "sessionId", "deterministic"];
const RUN_FIELDS: readonly string[] = ["input", ...CONTEXT_FIELDS.filter((field) => !NOT_OF_RUNS.includes(field))];

/** Copies the options, whose values the router checks with the context. @throws {ToolError} PARAM_INVALID */
function readRunOptions(options: unknown): SessionRunOptions {
  if (options === undefined) return {};
  if (!isPlainObject(options)) throw invalid("options", "a plain object", describe(options));
  return readFields("options", () => {
    checkKeys(options, "options", RUN_FIELDS);
    return { ...options };
  });
}

/** Of the same tenant, under the same id. */
export const sessionTaken = (id: string): ToolError =>
  new ToolError(
    "NAME_TAKEN",
    `There is a session with the id ${JSON.stringify(id)} already; close it, or choose another id`,
  );
