// Keeps each session of a tool at the replica that has its isolate: with an empty isolate, a call of it would return wrong results. A call at another
// replica is passed on, and one of the queue is left to the replica that has its session.
import { type Glovebox, LIMITS, type ToolError, unavailable } from "../../../host/index.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import {
  claimSession,
  deleteEndedSessions,
  findHome,
  releaseSessions,
  type SessionClaim,
  type SessionHome,
  type SessionKey,
} from "../../records/calls/session-homes.ts";
import type { ReplicaBus } from "../../replicas/bus.ts";
import type { TenantTools } from "../../tools/tenant-tools.ts";

/** Time in ms without a call after which the library ends a session, and the longest call, during which there is none. */
const IDLE_MS = 600_000 + LIMITS.timeoutMs.max;
/** Time in ms for which a session is claimed. Longer, so that most calls only read who has it. */
const CLAIM_MS = 2 * IDLE_MS;
const RETRY_MS = 1_000;
const SWEEP_MS = 60_000;
/** How often a home that is gone when it is looked for is claimed again. */
const MAX_CLAIMS = 5;

export interface SessionHomesDependencies {
  readonly database: OpenDatabase;
  readonly bus: ReplicaBus;
  readonly tools: Pick<TenantTools, "hasSessions">;
  readonly glovebox: Pick<Glovebox, "closeSession">;
  readonly onError: (error: unknown) => void;
}

/** Returns the error of a call that another replica would have to run, and that cannot be passed on. */
export const elsewhere = ({ tool_name }: Pick<CallRow, "tool_name">): ToolError => {
  const message = `Another replica of the server has the session of "${tool_name}", and the call was not run`;
  return unavailable("session_elsewhere", message, { details: { retryAfterMs: RETRY_MS } });
};

const nameOf = ({ tenantId, toolName, sessionId }: SessionKey): string =>
  JSON.stringify([tenantId, toolName, sessionId]);

type SessionCall = Pick<CallRow, "tenant_id" | "tool_name" | "session_id">;

export class SessionHomes implements Disposable {
  readonly #dependencies: SessionHomesDependencies;
  #sweeper: NodeJS.Timeout | undefined;
  #isReleased = false;
  /** Claims that wait for the database, by session. */
  readonly #claims = new Map<string, Promise<SessionClaim>>();

  constructor(dependencies: SessionHomesDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Makes this replica the home of a call's session, unless another one is. The call's tool is registered.
   * @returns the other replica; undefined if the call may run here
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "session_elsewhere"`) if the home changes all the time
   */
  async claim({ tenant_id, tool_name, session_id }: SessionCall): Promise<SessionHome | undefined> {
    const { database, bus, tools } = this.#dependencies;
    if (database.kind !== "postgres" || session_id === null || !tools.hasSessions(tenant_id, tool_name))
      return undefined;
    const key = { tenantId: tenant_id, toolName: tool_name, sessionId: session_id };
    for (let count = 0; count <= MAX_CLAIMS; count += 1) {
      const home = await findHome(database.db, key);
      if (home !== undefined && home.replicaId !== bus.replicaId) {
        await this.#close(key);
        return home;
      }
      // A claim that was won, but whose answer is read later: its session begins anew.
      await this.#claims.get(nameOf(key));
      // While this replica stops, a call that had come before ends here.
      if (this.#isReleased || (home?.leftMs ?? 0) > IDLE_MS) return undefined;
      this.#sweepSoon();
      if ((await this.#claim(key)) !== "elsewhere") return undefined;
    }
    throw elsewhere({ tool_name });
  }

  /** Claims a session, once at a time. What this replica has of a session that it has won is of an earlier time, so it is closed. */
  #claim(key: SessionKey): Promise<SessionClaim> {
    const name = nameOf(key);
    const claiming = this.#claims.get(name);
    if (claiming !== undefined) return claiming;
    const { database, bus } = this.#dependencies;
    const claim = async (): Promise<SessionClaim> => {
      try {
        const outcome = await claimSession(database.db, key, bus.replicaId, CLAIM_MS);
        if (outcome === "won") await this.#close(key);
        return outcome;
      } finally {
        this.#claims.delete(name);
      }
    };
    const claimed = claim();
    this.#claims.set(name, claimed);
    return claimed;
  }

  /** Closes the isolate of a session that has another home, or had one since this replica was its home. */
  async #close({ tenantId, toolName, sessionId }: SessionKey): Promise<void> {
    await this.#dependencies.glovebox.closeSession(sessionId, { tenantId, toolName });
  }

  #sweepSoon(): void {
    const { database, onError } = this.#dependencies;
    this.#sweeper ??= setInterval(() => void deleteEndedSessions(database.db).catch(onError), SWEEP_MS).unref();
  }

  /**
   * Checks that this replica may run a call.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "session_elsewhere"`) if another replica has the call's session
   */
  async check(call: SessionCall): Promise<void> {
    if ((await this.claim(call)) !== undefined) throw elsewhere(call);
  }

  /** Lets other replicas start the sessions of this one anew, as it accepts no further calls of them. Never rejects. */
  async release(): Promise<void> {
    this.#isReleased = true;
    const { database, bus, onError } = this.#dependencies;
    if (database.kind === "postgres") await releaseSessions(database.db, bus.replicaId).catch(onError);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
  }
}
