// The audit log: one row for each change, chained by hashes, so that a changed or removed row can be detected.
import { createHash } from "node:crypto";
import type { Db } from "../database/open-database.ts";
import type { AuditTable } from "../database/schema.ts";

/** Who makes a change, and from where. */
export interface Actor {
  /** `key:ID`, or `server`. */
  readonly name: string;
  readonly ip: string | null;
  readonly requestId: string | null;
}

export const SERVER_ACTOR: Actor = { name: "server", ip: null, requestId: null };

export interface AuditEvent {
  readonly actor: Actor;
  readonly tenantId: string | null;
  /** `tenant.created`, `version.approved` … */
  readonly action: string;
  /** Id of what was changed. */
  readonly target: string;
  /** The changed values. Contains no secrets. */
  readonly details: { readonly [name: string]: unknown };
}

const FIRST_HASH = "0".repeat(64);

type HashedRow = Omit<AuditTable, "hash">;

/** Returns the hash of a row, which covers the row before it. */
export function hashOfRow(row: HashedRow): string {
  const { sequence, at, actor, tenant_id, action, target, ip, request_id, details, previous_hash } = row;
  return createHash("sha256")
    .update(JSON.stringify([sequence, at, actor, tenant_id, action, target, ip, request_id, details, previous_hash]))
    .digest("hex");
}

/**
 * Appends an event. Call it with the transaction of the change, so that there is no change without its record.
 * @param db a transaction
 */
export async function appendAudit(db: Db, { actor, tenantId, action, target, details }: AuditEvent): Promise<void> {
  const last = await db
    .selectFrom("audit")
    .select(["sequence", "hash"])
    .orderBy("sequence", "desc")
    .limit(1)
    .executeTakeFirst();
  const row: HashedRow = {
    sequence: (last?.sequence ?? 0) + 1,
    at: Date.now(),
    actor: actor.name,
    tenant_id: tenantId,
    action,
    target,
    ip: actor.ip,
    request_id: actor.requestId,
    details: JSON.stringify(details),
    previous_hash: last?.hash ?? FIRST_HASH,
  };
  await db
    .insertInto("audit")
    .values({ ...row, hash: hashOfRow(row) })
    .execute();
}

/** Returns the sequence number of the first row that does not match the chain; undefined for an intact log. */
export async function findBrokenAuditRow(db: Db): Promise<number | undefined> {
  let before: { readonly sequence: number; readonly hash: string } | undefined;
  for (;;) {
    const rows = await db
      .selectFrom("audit")
      .selectAll()
      .where("sequence", ">", before?.sequence ?? 0)
      .orderBy("sequence")
      .limit(1_000)
      .execute();
    if (rows.length === 0) return undefined;
    for (const { hash, ...row } of rows) {
      const isNext = row.sequence === (before?.sequence ?? 0) + 1 && row.previous_hash === (before?.hash ?? FIRST_HASH);
      if (!isNext || hashOfRow(row) !== hash) return row.sequence;
      before = { sequence: row.sequence, hash };
    }
  }
}

export interface AuditPage {
  readonly entries: readonly AuditTable[];
  /** Sequence number after which the next page begins. */
  readonly next: number | undefined;
}

/** Lists the newest events first, of one tenant or of all. */
export async function listAudit(
  db: Db,
  {
    tenantId,
    before,
    limit,
  }: { readonly tenantId?: string; readonly before?: number | undefined; readonly limit: number },
): Promise<AuditPage> {
  let query = db
    .selectFrom("audit")
    .selectAll()
    .orderBy("sequence", "desc")
    .limit(limit + 1);
  if (tenantId !== undefined) query = query.where("tenant_id", "=", tenantId);
  if (before !== undefined) query = query.where("sequence", "<", before);
  const rows = await query.execute();
  const entries = rows.slice(0, limit);
  return { entries, next: rows.length > limit ? entries.at(-1)?.sequence : undefined };
}
