// Stores how many calls of a tenant each replica may run at the same time. The sum over the replicas that live never exceeds the tenant's limit.
import { sql } from "kysely";
import { databaseNow } from "../database/database-time.ts";
import type { Db } from "../database/open-database.ts";

/** Time in ms after which the slots of a replica that does not renew them are free. */
export const SLOT_LEASE_MS = 10_000;

interface SlotRequest {
  readonly tenantId: string;
  readonly replicaId: string;
  /** The limit of the tenant over all replicas. */
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
  { tenantId, replicaId, limit, needed, used }: SlotRequest,
): Promise<{ readonly held: number; readonly others: number; readonly isOver: boolean }> {
  return await db.transaction().execute(async (transaction) => {
    // The row of the tenant orders the requests of the replicas. A tenant that was deleted has none, and gets no slots.
    const tenant = await sql`select id from tenants where id = ${tenantId} for no key update`.execute(transaction);
    if (tenant.rows.length === 0) return { held: 0, others: 0, isOver: false };
    const { rows } = await sql<{ others: number }>`
      select coalesce(sum(held), 0)::bigint as others from concurrency_slots
      where tenant_id = ${tenantId} and replica_id <> ${replicaId} and expires_at > ${databaseNow}`.execute(
      transaction,
    );
    const others = Math.max(0, Number(rows[0]?.others ?? 0));
    const free = Math.max(0, limit - others);
    const spare = Math.max(0, free - needed);
    const held = Math.max(used, Math.min(free, needed + (others === 0 ? spare : Math.floor(spare / 2))));
    await sql`
      insert into concurrency_slots (tenant_id, replica_id, held, expires_at)
      values (${tenantId}, ${replicaId}, ${held}, ${databaseNow} + ${SLOT_LEASE_MS}::bigint)
      on conflict (tenant_id, replica_id) do update set held = excluded.held, expires_at = excluded.expires_at
    `.execute(transaction);
    return { held, others, isOver: held > free };
  });
}

/** Gives slots back. @param held what the replica keeps */
export async function giveSlotsBack(db: Db, tenantId: string, replicaId: string, held: number): Promise<void> {
  const own = { tenant_id: tenantId, replica_id: replicaId };
  if (held === 0) {
    await db
      .deleteFrom("concurrency_slots")
      .where("tenant_id", "=", own.tenant_id)
      .where("replica_id", "=", own.replica_id)
      .execute();
    return;
  }
  await db
    .updateTable("concurrency_slots")
    .set({ held })
    .where("tenant_id", "=", own.tenant_id)
    .where("replica_id", "=", own.replica_id)
    .where("held", ">", held)
    .execute();
}

/** Extends the leases of a replica's slots. Those whose lease has ended are removed. Returns the tenants of which it still has slots. */
export async function renewSlots(db: Db, replicaId: string): Promise<ReadonlySet<string>> {
  const own = db.deleteFrom("concurrency_slots").where("replica_id", "=", replicaId);
  await own.where("expires_at", "<", databaseNow).execute();
  const rows = await db
    .updateTable("concurrency_slots")
    .set({ expires_at: sql<number>`${databaseNow} + ${SLOT_LEASE_MS}::bigint` })
    .where("replica_id", "=", replicaId)
    .returning("tenant_id")
    .execute();
  return new Set(rows.map(({ tenant_id }) => tenant_id));
}

/** Removes what replicas that are gone have left. */
export async function deleteEndedSlots(db: Db): Promise<void> {
  await db
    .deleteFrom("concurrency_slots")
    .where("expires_at", "<", sql<number>`${databaseNow} - ${6 * SLOT_LEASE_MS}::bigint`)
    .execute();
}
