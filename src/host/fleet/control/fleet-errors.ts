// The errors of calls for which there is no executor.
import { PYODIDE_VERSION } from "../../../bundler/python/python-runtime.ts";
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import type { FleetCall } from "./fleet-call.ts";

/** When a caller should try again during an outage, in ms. */
const OUTAGE_RETRY_MS = 5_000;

const LACKING = {
  python: {
    what: "runs Python",
    remedy: `Run "npm install pyodide@${PYODIDE_VERSION}" where its executors are installed`,
  },
  sessions: { what: "keeps sessions", remedy: "Upgrade its executors to the version of the server" },
} as const;

/** Returns the error of a call whose pools have executors, but none that can run it. */
export function lackingError(pools: readonly string[], lacking: keyof typeof LACKING): ToolError {
  const { what, remedy } = LACKING[lacking];
  return unavailable(
    "unsupported",
    `No executor of the pool ${pools.join(", ")} ${what}. ${remedy}, or let the tenant use another pool`,
  );
}

/** Returns the error of a call while the host cannot reach its NATS server. */
export const unreachableError = (): ToolError =>
  new ToolError("OVERLOADED", `The executors cannot be reached at present; try again in ${OUTAGE_RETRY_MS} ms`, {
    details: { retryAfterMs: OUTAGE_RETRY_MS },
  });

export interface Wait {
  /** Whether an executor is connected that can run the call. */
  readonly hasLive: boolean;
  readonly waitMs: number;
  readonly retryAfterMs: number;
}

/** Returns the error of a call that has waited for an executor for too long. */
export function waitError(call: FleetCall, { hasLive, waitMs, retryAfterMs }: Wait): ToolError {
  const details = { queueMs: waitMs, retryAfterMs };
  return new ToolError("OVERLOADED", `${whyOf(call, hasLive, waitMs)}; try again in ${retryAfterMs} ms`, { details });
}

function whyOf({ pools, needs, session }: FleetCall, hasLive: boolean, waitMs: number): string {
  if (session !== undefined) return `The executor of the session was full for ${waitMs} ms`;
  if (hasLive) return `All executors were full or draining for ${waitMs} ms`;
  const what =
    needs.python !== undefined
      ? " with this server's version of Python"
      : needs.session === true
        ? " that keeps sessions"
        : "";
  return `No executor of the pool ${pools.join(", ")}${what} has been connected for ${waitMs} ms`;
}
