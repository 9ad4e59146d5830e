// Stores which replica has the isolate of a session, so that a call at another one does not start with an empty isolate.
import { type ExpressionBuilder, type ExpressionWrapper, type SqlBool, sql } from "kysely";
import { databaseNow } from "../../database/database-time.ts";
import type { Db } from "../../database/open-database.ts";
import type { DatabaseSchema } from "../../database/schema.ts";
import { aliveCondition } from "../../replicas/liveness.ts";

export interface SessionKey {
  readonly tenantId: string;
  readonly toolName: string;
  readonly sessionId: string;
}

/** Outcome of a claim. `won`: the session had no home, or another one, so what the replica has of it is not its state. */
export type SessionClaim = "kept" | "won" | "elsewhere";

/**
 * Makes a replica the home of a session, or keeps it so, unless another replica that lives is its home. A replica makes one claim of a session
 * at a time.
 * @param idleMs time in ms without a call after which the session has ended
 */
export async function claimSession(
  db: Db,
  { tenantId, toolName, sessionId }: SessionKey,
  replicaId: string,
  idleMs: number,
): Promise<SessionClaim> {
  const kept = await db
    .updateTable("session_homes")
    .set({ expires_at: sql<number>`${databaseNow} + ${idleMs}::bigint` })
    .where("tenant_id", "=", tenantId)
    .where("tool_name", "=", toolName)
    .where("session_id", "=", sessionId)
    .where("replica_id", "=", replicaId)
    .executeTakeFirst();
  if (kept.numUpdatedRows > 0n) return "kept";
  const { rows } = await sql`
    insert into session_homes (tenant_id, tool_name, session_id, replica_id, expires_at)
    values (${tenantId}, ${toolName}, ${sessionId}, ${replicaId}, ${databaseNow} + ${idleMs}::bigint)
    on conflict (tenant_id, tool_name, session_id) do update
    set replica_id = excluded.replica_id, expires_at = excluded.expires_at
    where session_homes.expires_at < ${databaseNow}
      or not ${aliveCondition(sql.ref("session_homes.replica_id"))}
    returning replica_id`.execute(db);
  return rows.length > 0 ? "won" : "elsewhere";
}

/** A replica that has a session. */
export interface SessionHome {
  readonly replicaId: string;
  /** Where other replicas reach it; null for one of an earlier release. */
  readonly url: string | null;
  /** Time in ms until the session has ended without a call. */
  readonly leftMs: number;
}

/** Returns the replica that lives and has a session; undefined if there is none. */
export async function findHome(
  db: Db,
  { tenantId, toolName, sessionId }: SessionKey,
): Promise<SessionHome | undefined> {
  return await db
    .selectFrom("session_homes as home")
    .innerJoin("replicas", "replicas.id", "home.replica_id")
    .select(["home.replica_id as replicaId", "replicas.url"])
    .select(sql<number>`home.expires_at - ${databaseNow}`.as("leftMs"))
    .where("home.tenant_id", "=", tenantId)
    .where("home.tool_name", "=", toolName)
    .where("home.session_id", "=", sessionId)
    .where("home.expires_at", ">=", databaseNow)
    .where(aliveCondition(sql.ref("home.replica_id")))
    .executeTakeFirst();
}

/** Gives up all sessions of a replica, which accepts no further calls of them. */
export async function releaseSessions(db: Db, replicaId: string): Promise<void> {
  await db.deleteFrom("session_homes").where("replica_id", "=", replicaId).execute();
}

/** Returns a condition for a row of `calls`: whether another replica that lives has its session. */
export const hasSessionElsewhere = (
  of: ExpressionBuilder<DatabaseSchema, "calls">,
  replicaId: string,
): ExpressionWrapper<DatabaseSchema, "calls", SqlBool> =>
  of.exists(
    of
      .selectFrom("session_homes as home")
      .select("home.replica_id")
      .whereRef("home.tenant_id", "=", "calls.tenant_id")
      .whereRef("home.tool_name", "=", "calls.tool_name")
      .whereRef("home.session_id", "=", "calls.session_id")
      .where("home.replica_id", "<>", replicaId)
      .where("home.expires_at", ">=", databaseNow)
      .where(aliveCondition(sql.ref("home.replica_id"))),
  );

/** Removes sessions that have ended without a call. */
export async function deleteEndedSessions(db: Db): Promise<void> {
  await db.deleteFrom("session_homes").where("expires_at", "<", databaseNow).execute();
}
