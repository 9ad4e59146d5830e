// The audit log: one entry for each change, chained by hashes, so that a changed or removed entry can be detected.
import { sql } from "kysely";
import type { Db } from "../../database/open-database.ts";
import type { AuditTable } from "../../database/tables/tenant-tables.ts";
import { bytesOfTexts, readBoundedPage } from "../bounded-page.ts";
import { ERASED_TEXTS, lastOfChain, TENANT_DELETED, toChainedRow } from "./audit-chain.ts";

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
  /** `tenant.created`, `version.approved` … Never text of a tenant, because it is not erased with the tenant. */
  readonly action: string;
  /** Id of what was changed. */
  readonly target: string;
  /** The changed values. Contains no secrets. */
  readonly details: { readonly [name: string]: unknown };
}

/**
 * Appends an event. Call it with the transaction of the change, so that there is no change without its record. If the tenant was deleted
 * meanwhile, the entry has no texts, because no deletion would remove them.
 * @param db a transaction
 */
export async function appendAudit(db: Db, event: AuditEvent): Promise<void> {
  const { actor, tenantId, action, target, details } = event;
  const last = await lastOfChain(db);
  const isGone =
    tenantId !== null &&
    action !== TENANT_DELETED &&
    (await db.selectFrom("tenants").select("id").where("id", "=", tenantId).executeTakeFirst()) === undefined;
  const texts = {
    // A key of a tool's value can have a NUL, which Postgres does not store.
    actor: actor.name,
    target: target.replaceAll("\0", "\\0"),
    ip: actor.ip,
    request_id: actor.requestId,
    details: JSON.stringify(details),
  };
  const facts = { sequence: last.sequence + 1, at: Date.now(), tenant_id: tenantId, action, previous_hash: last.hash };
  await db
    .insertInto("audit")
    .values(toChainedRow(facts, isGone ? ERASED_TEXTS : texts))
    .execute();
}

export interface AuditPage {
  readonly entries: readonly AuditTable[];
  /** Sequence number after which the next page begins. */
  readonly next: number | undefined;
}

/** Returns the number of the last entry of an earlier tenant with the same id; 0 if there was none. */
export async function lastOfFormerTenant(db: Db, tenantId: string): Promise<number> {
  const deleted = await db
    .selectFrom("audit")
    .select("sequence")
    .where("tenant_id", "=", tenantId)
    // A literal, so that the index of deletions is used.
    .where(sql.ref("action"), "=", sql.lit(TENANT_DELETED))
    .orderBy("sequence", "desc")
    .limit(1)
    .executeTakeFirst();
  return deleted?.sequence ?? 0;
}

/** Lists the newest events first, of one tenant (not of an earlier one with the same id) or of all. */
export async function listAudit(
  db: Db,
  {
    tenantId,
    before,
    limit,
  }: { readonly tenantId?: string; readonly before?: number | undefined; readonly limit: number },
): Promise<AuditPage> {
  let query = db.selectFrom("audit").selectAll().orderBy("sequence", "desc");
  if (tenantId !== undefined)
    query = query.where("tenant_id", "=", tenantId).where("sequence", ">", await lastOfFormerTenant(db, tenantId));
  const read = async (last: AuditTable | undefined, size: number): Promise<readonly AuditTable[]> => {
    const from = last?.sequence ?? before;
    return await (from === undefined ? query : query.where("sequence", "<", from)).limit(size).execute();
  };
  const { rows: entries, hasMore } = await readBoundedPage(limit, read, ({ details }) => bytesOfTexts(details));
  return { entries, next: hasMore ? entries.at(-1)?.sequence : undefined };
}
