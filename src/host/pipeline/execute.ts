// Stage 3: hands the call to its tool's executor, and sees to it that an answer comes whatever the executor does.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { NO_USAGE } from "../contract/tool-call.ts";
import type { Execution } from "../executors/execution.ts";
import type { Executor } from "../executors/executor.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall } from "./prepared-call.ts";

/** An executor that is told to stop may take this long to say how the call ended; then the router answers without it. */
const LAST_RESORT_MS = 1_000;

function failure(thrown: unknown): Execution {
  // A proxy is no error, and asking a revoked one what it is throws.
  if (Error.isError(thrown) && thrown instanceof ToolError) return { usage: NO_USAGE, error: thrown };
  const error = new ToolError("INTERNAL", "The executor failed", { cause: thrown });
  return { usage: NO_USAGE, error, isSourceFailure: true };
}

/** Always resolves. A call whose signal has aborted already is not begun. */
export async function executeCall(executor: Executor, call: PreparedCall, log: CallLog): Promise<Execution> {
  if (call.signal.aborted) return failure(call.signal.reason);
  let timer: NodeJS.Timeout | undefined;
  const lastResort = new Promise<Execution>((resolve) => {
    call.signal.addEventListener(
      "abort",
      () => {
        const error = call.signal.reason as ToolError;
        const isSourceFailure = error.code === "TOOL_TIMEOUT";
        timer = setTimeout(() => resolve({ usage: NO_USAGE, error, isSourceFailure }), LAST_RESORT_MS);
      },
      { once: true },
    );
  });
  try {
    return await Promise.race([executor.execute(call, log), lastResort]);
  } catch (thrown) {
    return failure(thrown);
  } finally {
    clearTimeout(timer);
  }
}
