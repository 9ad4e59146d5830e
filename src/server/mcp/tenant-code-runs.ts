// Runs the code that comes over MCP as durable runs: run_code starts one, and get_run looks it up. A key finds the runs that it has started, and no
// others.
import { noSuchRun, RUN_CODE, toFailedOutput, toOpenOutput } from "../../host/code-mode/hosted-code.ts";
import { NO_USAGE } from "../../host/contract/tool-call.ts";
import type { CallContext, JsonValue, RunWait, ToolCall, ToolResult } from "../../host/index.ts";
import { type CallCaller, keyActorOf } from "../calls/call-request.ts";
import { toFailedResult } from "../calls/call-results.ts";
import type { CallService } from "../calls/call-service.ts";
import type { Db } from "../database/open-database.ts";
import { findRun, type RunRow } from "../records/calls/runs.ts";
import type { RunService } from "../runs/run-service.ts";

/** Language of code that names none. It is stored with the run, which stays on it. */
const DEFAULT_LANGUAGE = "typescript";
const GONE = "The tenant keeps no contents, so that the value of the code is not kept when its run has waited";

export interface TenantCodeRunsDependencies {
  readonly runs: RunService;
  readonly calls: CallService;
  readonly db: Db;
  readonly onError: (error: unknown) => void;
}

/** Returns the arguments with the language. Invalid ones stay as they are: they fail when the run begins. */
function withLanguage(given: unknown): unknown {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return given;
  return "language" in given ? given : { ...given, language: DEFAULT_LANGUAGE };
}

const waitsOf = ({ waits }: Pick<RunRow, "waits">): readonly RunWait[] => JSON.parse(waits) as readonly RunWait[];

export class TenantCodeRuns {
  readonly #dependencies: TenantCodeRunsDependencies;

  constructor(dependencies: TenantCodeRunsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Starts a run, and returns its result if it ends without a wait, otherwise its id. Never rejects. */
  async run(toolCall: ToolCall, context: CallContext, caller: CallCaller): Promise<ToolResult> {
    const { runs, calls, onError } = this.#dependencies;
    const { client, signal, onLog } = context;
    // As long as the client waits for the response, it answers the questions of the code, and of the tools that the code calls. An approval is
    // none of them.
    let isOpen = true;
    const starter =
      client?.elicit === undefined ? undefined : ({ client, answers: "all", isOpen: () => isOpen } as const);
    const request = { kind: "code", toolName: RUN_CODE, input: withLanguage(toolCall.arguments ?? {}) } as const;
    let begun: Awaited<ReturnType<RunService["begin"]>>;
    try {
      begun = await runs.begin(request, caller, { starter, onLog });
    } catch (thrown) {
      // Without a run, the call has a record of its own.
      const execute = async ({ id, toolName }: ToolCall): Promise<ToolResult> =>
        toFailedResult({ id, tool_name: toolName }, thrown, onError);
      return await calls.runOn({ execute }, toolCall, context, caller);
    }
    const { id, settled } = begun;
    // The client has given up the request, so it never receives the id of the run.
    const cancel = (): void => void runs.cancel(caller.tenant, id, keyActorOf(caller)).catch(onError);
    if (signal?.aborted === true) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      const { row, result } = await settled;
      return result ?? (row.result === null ? toOpenResult(row) : (JSON.parse(row.result) as ToolResult));
    } catch (thrown) {
      onError(thrown);
      // It is stored, and goes on.
      return toOpenResult({ id, state: "running", waits: "[]" });
    } finally {
      isOpen = false;
      signal?.removeEventListener("abort", cancel);
    }
  }

  /** Returns what get_run answers. @throws {ToolError} PARAM_INVALID for an id that is not that of a run of the caller */
  async get(id: string, { tenant, keyId }: CallCaller): Promise<JsonValue> {
    const row = await findRun(this.#dependencies.db, { tenantId: tenant.id, id });
    if (row === undefined || row.kind !== "code" || row.key_id !== keyId) throw noSuchRun();
    if (row.result === null) return toOpenOutput({ ...row, waits: waitsOf(row) }) as unknown as JsonValue;
    const result = JSON.parse(row.result) as ToolResult;
    if (!result.success) return toFailedOutput(id, result.error);
    const output = result.output as { readonly [name: string]: JsonValue };
    return tenant.policy.retention.keepContent ? output : { ...output, hint: GONE };
  }
}

function toOpenResult(row: Pick<RunRow, "id" | "state" | "waits">): ToolResult {
  const output = toOpenOutput({ ...row, waits: waitsOf(row) }) as unknown as JsonValue;
  return { callId: row.id, toolName: RUN_CODE, durationMs: 0, usage: NO_USAGE, logs: [], success: true, output };
}
