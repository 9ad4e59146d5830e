// Keeps each session of a tool at the replica that has its isolate. A call of the session at another one fails before it begins: with an empty
// isolate, it would return wrong results.
import { LIMITS, unavailable } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { CallRow } from "../records/calls.ts";
import { claimSession, deleteEndedSessions } from "../records/session-homes.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";

/** Time in ms without a call after which the library ends a session, and the longest call, during which there is none. */
const IDLE_MS = 600_000 + LIMITS.timeoutMs.max;
const RETRY_MS = 1_000;
const SWEEP_MS = 60_000;

export interface SessionHomesParts {
  readonly database: OpenDatabase;
  readonly bus: ReplicaBus;
  readonly tools: Pick<TenantTools, "hasSessions">;
  readonly onError: (error: unknown) => void;
}

export class SessionHomes implements Disposable {
  readonly #parts: SessionHomesParts;
  #sweeper: NodeJS.Timeout | undefined;

  constructor(parts: SessionHomesParts) {
    this.#parts = parts;
  }

  /**
   * Checks that this replica may run a call, whose tool is registered.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "session_elsewhere"`) if another replica has the call's session
   */
  async check({
    tenant_id,
    tool_name,
    session_id,
  }: Pick<CallRow, "tenant_id" | "tool_name" | "session_id">): Promise<void> {
    const { database, bus, tools } = this.#parts;
    if (database.kind !== "postgres" || session_id === null || !tools.hasSessions(tenant_id, tool_name)) return;
    this.#sweeper ??= setInterval(
      () => void deleteEndedSessions(database.db).catch(this.#parts.onError),
      SWEEP_MS,
    ).unref();
    const key = { tenantId: tenant_id, toolName: tool_name, sessionId: session_id };
    if (await claimSession(database.db, key, bus.replicaId, IDLE_MS)) return;
    const message = `Another replica of the server has the session of "${tool_name}", and the call was not run`;
    throw unavailable("session_elsewhere", message, { details: { retryAfterMs: RETRY_MS } });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
  }
}
