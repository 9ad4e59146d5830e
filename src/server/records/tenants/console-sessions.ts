// Stores the sessions of the console: each belongs to an API key, and ends with it. Those of an identity provider belong to a user, and to the
// sign-in that has opened them.
import type { Db } from "../../database/open-database.ts";
import type { ConsoleSessionsTable } from "../../database/tables/tenant-tables.ts";

export type ConsoleSessionRecord = Omit<ConsoleSessionsTable, "hash">;

/** Sessions that one key or user can have. */
const MAX_SESSIONS = 50;

/** Stores a session. The oldest ones of its key end if there are too many. */
export async function insertSession(db: Db, session: ConsoleSessionsTable): Promise<void> {
  await db.insertInto("console_sessions").values(session).execute();
  const oldest = await db
    .selectFrom("console_sessions")
    .select("id")
    .where("key_id", "=", session.key_id)
    .orderBy("id", "desc")
    .offset(MAX_SESSIONS)
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return;
  await db.deleteFrom("console_sessions").where("key_id", "=", session.key_id).where("id", "<=", oldest.id).execute();
}

/**
 * Marks a sign-in at the identity provider as used, over all replicas.
 * @param hash of the state of the sign-in
 * @param expiresAt ms since 1970, from which the sign-in is too old to be accepted
 * @returns false if it was used before
 */
export async function claimSignIn(db: Db, hash: string, expiresAt: number): Promise<boolean> {
  const insert = db.insertInto("used_sign_ins").values({ hash, expires_at: expiresAt });
  const added = await insert
    .onConflict((conflict) => conflict.doNothing())
    .returning("hash")
    .executeTakeFirst();
  return added !== undefined;
}

/** Returns the session with this hash, expired ones included. */
export async function findSessionByHash(db: Db, hash: string): Promise<ConsoleSessionRecord | undefined> {
  return await db.selectFrom("console_sessions").selectAll().where("hash", "=", hash).executeTakeFirst();
}

/** Lists the sessions of a key that have not expired, the newest first. */
export async function listSessions(db: Db, keyId: string, now: number): Promise<readonly ConsoleSessionRecord[]> {
  return await db
    .selectFrom("console_sessions")
    .selectAll()
    .where("key_id", "=", keyId)
    .where("expires_at", ">", now)
    .orderBy("id", "desc")
    .limit(200)
    .execute();
}

/** Lists the sessions of all keys and users that have not expired, the newest first. */
export async function listAllSessions(
  db: Db,
  now: number,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<readonly ConsoleSessionRecord[]> {
  let query = db.selectFrom("console_sessions").selectAll().where("expires_at", ">", now);
  if (before !== undefined) query = query.where("id", "<", before);
  return await query.orderBy("id", "desc").limit(limit).execute();
}

/**
 * Ends a session. Returns whose it was; undefined if there is none.
 * @param keyId the key or user that the session must belong to. Default: any
 */
export async function deleteSession(
  db: Db,
  id: string,
  keyId?: string,
): Promise<Pick<ConsoleSessionRecord, "key_id" | "tenant_id"> | undefined> {
  let query = db.deleteFrom("console_sessions").where("id", "=", id);
  if (keyId !== undefined) query = query.where("key_id", "=", keyId);
  return await query.returning(["key_id", "tenant_id"]).executeTakeFirst();
}

/** Deletes sessions that have expired, and used sign-ins that are too old to be accepted. */
export async function deleteExpiredSessions(db: Db, now: number): Promise<void> {
  await db.deleteFrom("console_sessions").where("expires_at", "<=", now).execute();
  await db.deleteFrom("used_sign_ins").where("expires_at", "<=", now).execute();
}
