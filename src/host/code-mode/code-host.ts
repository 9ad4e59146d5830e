// What a server decides about the code of a tenant: it starts the durable runs of code itself, keeps them, and knows whose they are.
import type { JsonValue } from "../../sandbox/contract/errors.ts";

/** Connects a code mode with the durable runs of a server. */
export interface CodeHost {
  /**
   * Returns what `get_run` answers.
   * @param callId id of the call of `get_run`, which tells whose call it is
   * @throws {ToolError} PARAM_INVALID if the caller has no such run
   */
  readonly getRun: (id: string, callId: string) => Promise<JsonValue>;
  /** Returns for how long a call of a tool waits for a person's approval; undefined if it needs none. If it rejects, the call is not made. */
  readonly approvalOf: (toolName: string) => Promise<{ readonly expiresInMs: number } | undefined>;
}
