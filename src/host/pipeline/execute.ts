// Stage 3: hands the call to its tool's executor, and sees to it that an answer comes whatever the executor does.
import { ToolError } from "../../sandbox/errors.ts";
import type { Execution, Executor } from "../executors/executor.ts";
import type { CallLog } from "../logs.ts";
import { NO_USAGE, type PreparedCall } from "../tool-call.ts";

/** An executor that is told to stop may take this long to say how the call ended; then the router answers without it. */
const LAST_RESORT_MS = 1_000;

const failure = (thrown: unknown): Execution => ({
  usage: NO_USAGE,
  // A proxy is no error, and asking a revoked one what it is throws.
  error:
    Error.isError(thrown) && thrown instanceof ToolError
      ? thrown
      : new ToolError("INTERNAL", "The executor failed", { cause: thrown }),
});

/** Always resolves. A call whose signal has aborted already is not begun. */
export async function executeCall(executor: Executor, call: PreparedCall, log: CallLog): Promise<Execution> {
  if (call.signal.aborted) return failure(call.signal.reason);
  let timer: NodeJS.Timeout | undefined;
  const lastResort = new Promise<Execution>((resolve) => {
    call.signal.addEventListener(
      "abort",
      () => {
        timer = setTimeout(() => resolve(failure(call.signal.reason)), LAST_RESORT_MS);
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
