// Stage 3: passes the call to its tool's executor. It always returns an outcome, even if the executor throws or does not answer.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { NO_USAGE } from "../contract/tool-call.ts";
import type { Execution } from "../executors/execution.ts";
import type { SourceKind, ToolExecutor } from "../executors/executor.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall } from "./prepared-call.ts";

/** Time in ms that an executor has to report the outcome of a stopped call. Then the router answers without it. */
const LAST_RESORT_MS = 1_000;

/** Sources whose calls can run from a recording. A function of the host, or an upstream server, would run for real. */
const SANDBOXED: ReadonlySet<SourceKind> = new Set(["sandbox", "python"]);

const notRepeatable = ({ definition }: PreparedCall): ToolError =>
  new ToolError(
    "PARAM_INVALID",
    `Tool "${definition.name}" does not run in the sandbox, so no call of it can be repeated`,
  );

function failure(thrown: unknown): Execution {
  // A proxy is not an error, and reading a revoked proxy throws.
  if (Error.isError(thrown) && thrown instanceof ToolError) return { usage: NO_USAGE, error: thrown };
  const error = new ToolError("INTERNAL", "The executor failed", { cause: thrown });
  return { usage: NO_USAGE, error, isSourceFailure: true };
}

/** Returns what an executor has answered. An executor of the host may answer anything: without an outcome, its circuit would wait for one. */
function toExecution(answer: Execution | undefined): Execution {
  const hasUsage = typeof answer?.usage === "object" && answer.usage !== null;
  if (hasUsage && ("error" in answer ? answer.error instanceof ToolError : isText(answer.outputText))) return answer;
  return failure(new TypeError("Expected usage, and outputText or an error"));
}

const isText = (value: unknown): boolean => typeof value === "string" || Buffer.isBuffer(value);

/** Runs a call and returns its outcome. Never rejects. Does not start a call whose signal has already aborted. */
export async function executeCall(executor: ToolExecutor, call: PreparedCall, log: CallLog): Promise<Execution> {
  if (call.signal.aborted) return failure(call.signal.reason);
  const { replay, run } = call.context;
  if ((replay ?? run) !== undefined && !SANDBOXED.has(executor.source)) return failure(notRepeatable(call));
  let timer: NodeJS.Timeout | undefined;
  const execution = await new Promise<Execution>((resolve) => {
    call.signal.addEventListener(
      "abort",
      () => {
        const error = call.signal.reason as ToolError;
        const isSourceFailure = error.code === "TOOL_TIMEOUT";
        timer = setTimeout(() => resolve({ usage: NO_USAGE, error, isSourceFailure }), LAST_RESORT_MS);
      },
      { once: true },
    );
    try {
      Promise.resolve(executor.execute(call, log)).then(
        (answer) => resolve(toExecution(answer)),
        (thrown: unknown) => resolve(failure(thrown)),
      );
    } catch (thrown) {
      resolve(failure(thrown));
    }
  });
  clearTimeout(timer);
  return execution;
}
