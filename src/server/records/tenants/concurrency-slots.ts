// Stores how many calls of a tenant, or of a key, each replica may run at the same time. The sum over the replicas that live never exceeds the
// limit of the tenant or key.
import { sql } from "kysely";
import { databaseNow } from "../../database/database-time.ts";
import type { Db } from "../../database/open-database.ts";

/** Time in ms after which the slots of a replica that does not renew them are free. */
export const SLOT_LEASE_MS = 10_000;

/** Whose calls the slots are for. */
export interface SlotOwner {
  readonly kind: "tenant" | "key";
  readonly id: string;
}

const TABLES = {
  tenant: { table: "concurrency_slots", column: "tenant_id", owners: "tenants" },
  key: { table: "key_slots", column: "key_id", owners: "api_keys" },
} as const satisfies { readonly [Kind in SlotOwner["kind"]]: object };
const KINDS = ["tenant", "key"] as const;

/** Returns the names of the tables and the column for a statement. */
const namesOf = (kind: SlotOwner["kind"]) => {
  const { table, column, owners } = TABLES[kind];
  return { table: sql.table(table), column: sql.ref(column), owners: sql.table(owners) };
};

interface SlotRequest {
  readonly owner: SlotOwner;
  readonly replicaId: string;
  /** The limit of the owner over all replicas. */
  readonly limit: number;
  /** Slots that the replica needs now: those of the calls that run, and of those that wait. */
  readonly needed: number;
  /** Calls of the replica that run. */
  readonly used: number;
}

/**
 * Takes slots: those that are needed, and half of what is left then, or all of it if no other replica has any. With affinity, one replica gets
 * all of them. Calls that run keep their slots, also if the limit was lowered.
 * @returns the slots that the replica has now, fewer than needed if the others have them, and `isOver` if these are more than the limit leaves it
 */
export async function takeSlots(
  db: Db,
  { owner, replicaId, limit, needed, used }: SlotRequest,
): Promise<{ readonly held: number; readonly others: number; readonly isOver: boolean }> {
  const { table, column, owners } = namesOf(owner.kind);
  return await db.transaction().execute(async (transaction) => {
    // The row of the owner orders the requests of the replicas. An owner that was deleted has none, and gets no slots.
    const found = await sql`select id from ${owners} where id = ${owner.id} for no key update`.execute(transaction);
    if (found.rows.length === 0) return { held: 0, others: 0, isOver: false };
    const { rows } = await sql<{ others: number }>`
      select coalesce(sum(held), 0)::bigint as others from ${table}
      where ${column} = ${owner.id} and replica_id <> ${replicaId} and expires_at > ${databaseNow}`.execute(
      transaction,
    );
    const others = Math.max(0, Number(rows[0]?.others ?? 0));
    const free = Math.max(0, limit - others);
    const spare = Math.max(0, free - needed);
    const held = Math.max(used, Math.min(free, needed + (others === 0 ? spare : Math.floor(spare / 2))));
    await sql`
      insert into ${table} (${column}, replica_id, held, expires_at)
      values (${owner.id}, ${replicaId}, ${held}, ${databaseNow} + ${SLOT_LEASE_MS}::bigint)
      on conflict (${column}, replica_id) do update set held = excluded.held, expires_at = excluded.expires_at
    `.execute(transaction);
    return { held, others, isOver: held > free };
  });
}

/** Gives slots back. @param held what the replica keeps */
export async function giveSlotsBack(db: Db, owner: SlotOwner, replicaId: string, held: number): Promise<void> {
  const { table, column } = namesOf(owner.kind);
  const own = sql`${column} = ${owner.id} and replica_id = ${replicaId}`;
  if (held === 0) await sql`delete from ${table} where ${own}`.execute(db);
  else await sql`update ${table} set held = ${held} where ${own} and held > ${held}`.execute(db);
}

/** Gives all slots of a replica back. */
export async function giveAllSlotsBack(db: Db, replicaId: string): Promise<void> {
  for (const kind of KINDS) await sql`delete from ${namesOf(kind).table} where replica_id = ${replicaId}`.execute(db);
}

/** Extends the leases of a replica's slots. Those whose lease has ended are removed. Returns the owners of those that it still has. */
export async function renewSlots(db: Db, replicaId: string): Promise<readonly SlotOwner[]> {
  const kept: SlotOwner[] = [];
  for (const kind of KINDS) {
    const { table, column } = namesOf(kind);
    await sql`delete from ${table} where replica_id = ${replicaId} and expires_at < ${databaseNow}`.execute(db);
    const { rows } = await sql<{ id: string }>`
      update ${table} set expires_at = ${databaseNow} + ${SLOT_LEASE_MS}::bigint
      where replica_id = ${replicaId} returning ${column} as id`.execute(db);
    kept.push(...rows.map(({ id }) => ({ kind, id })));
  }
  return kept;
}

/** Removes what replicas that are gone have left. */
export async function deleteEndedSlots(db: Db): Promise<void> {
  for (const kind of KINDS)
    await sql`
      delete from ${namesOf(kind).table} where expires_at < ${databaseNow} - ${6 * SLOT_LEASE_MS}::bigint`.execute(db);
}
