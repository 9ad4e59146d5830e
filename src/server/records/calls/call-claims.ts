// Claims queued calls for one process, with a lease and a number (fence), and gives them back.
import { sql } from "kysely";
import type { DatabaseKind } from "../../database/column-types.ts";
import type { Db } from "../../database/open-database.ts";
import { IS_OPEN_CALL, IS_QUEUED_CALL } from "../../database/partial-indexes.ts";
import type { CallsTable } from "../../database/tables/call-tables.ts";
import { hasSessionElsewhere } from "./session-homes.ts";

/** A claim of a queued call. */
export interface CallClaim {
  readonly id: string;
  readonly fence: number;
}

/** A claim with the version that the call runs. */
type VersionedClaim = CallClaim & Pick<CallsTable, "tool_version">;

export interface LeaseOptions {
  readonly owner: string;
  /** End of the lease in ms since 1970. */
  readonly until: number;
  /** Which calls are due, in ms since 1970. Default: the time of this machine. */
  readonly now?: number | undefined;
  /** Ids of the calls that may be claimed. Default: all. */
  readonly ids?: readonly string[] | undefined;
  /**
   * Maximum number of calls of each tenant that are claimed. Calls of other tenants are left. Default: calls of all
   * tenants, without a limit of each.
   */
  readonly tenants?: ReadonlyMap<string, number> | undefined;
  /** The replica that claims: it leaves calls to other replicas that have their session. Default: it claims those too. */
  readonly replicaId?: string | undefined;
}

/**
 * Claims queued calls that are due, the oldest first. The claimed rows have `effects: "none"` until {@link markStarted}: if the process dies
 * before, nothing of the tool has run.
 */
export async function claimCalls(
  { db, kind }: { readonly db: Db; readonly kind: DatabaseKind },
  limit: number,
  { owner, until, now = Date.now(), ids, tenants, replicaId }: LeaseOptions,
): Promise<readonly CallsTable[]> {
  if (tenants?.size === 0) return [];
  return await db
    .updateTable("calls")
    .set((column) => ({
      state: "running",
      lease_owner: owner,
      lease_until: until,
      fence: column("fence", "+", 1),
      attempts: column("attempts", "+", 1),
    }))
    .where("id", "in", (query) => {
      const dueOf = (tenantId: string | undefined, max: number) => {
        const queued = query.selectFrom("calls").select("id").where("run_at", "<=", now);
        const all =
          tenantId === undefined
            ? queued.where(IS_OPEN_CALL).where("state", "=", "queued")
            : queued.where(IS_QUEUED_CALL).where("tenant_id", "=", tenantId);
        const allowed = ids === undefined ? all : all.where("id", "in", ids);
        const own =
          replicaId === undefined ? allowed : allowed.where((of) => of.not(hasSessionElsewhere(of, replicaId)));
        const due = own.orderBy("run_at").orderBy("id").limit(max);
        return kind === "postgres" ? due.forUpdate().skipLocked() : due;
      };
      if (tenants === undefined) return dueOf(undefined, limit);
      const each = [...tenants].map(([tenantId, max]) =>
        query.selectFrom(dueOf(tenantId, max).as("due")).select("due.id"),
      );
      return each.reduce((all, one) => all.unionAll(one));
    })
    .returningAll()
    .execute();
}

/** A part of the tenants with queued calls. */
export interface WaitingTenants {
  /** Those with calls that are due. */
  readonly tenants: readonly string[];
  /** Id after which the next part begins; empty if this is the last one. */
  readonly next: string;
}

/** Lists tenants with queued calls by id. @param after the id after which the list begins */
export async function listWaitingTenants(
  db: Db,
  { now, after, limit }: { readonly now: number; readonly after: string; readonly limit: number },
): Promise<WaitingTenants> {
  // Jumps from tenant to tenant in the index, however many calls each of them has.
  const next = sql`select min(calls.tenant_id) from calls where ${IS_QUEUED_CALL} and calls.tenant_id >`;
  const { rows } = await sql<{ readonly id: string; readonly due: number }>`
    with recursive waiting (id, position) as (
      select (${next} ${after}), 1
      union all
      select (${next} waiting.id), position + 1 from waiting
      where waiting.id is not null and position < ${sql.lit(limit)}
    )
    select id, case when exists (
      select 1 from calls where ${IS_QUEUED_CALL} and calls.tenant_id = waiting.id and run_at <= ${now}
    ) then 1 else 0 end as due from waiting where id is not null order by id`.execute(db);
  return {
    tenants: rows.filter(({ due }) => due === 1).map(({ id }) => id),
    next: rows.length < limit ? "" : (rows.at(-1)?.id ?? ""),
  };
}

/** Counts the calls of a tenant, or of a key, that wait in the queue, up to `max`. */
export async function countQueued(db: Db, owner: string | { readonly keyId: string }, max: number): Promise<number> {
  const [column, id] = typeof owner === "string" ? (["tenant_id", owner] as const) : (["key_id", owner.keyId] as const);
  const { count } = await db
    .selectFrom((of) =>
      of.selectFrom("calls").select("tenant_id").where(IS_QUEUED_CALL).where(column, "=", id).limit(max).as("queued"),
    )
    .select(({ fn }) => fn.countAll().as("count"))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/**
 * Records that a claimed call is about to run, and which version: if the process dies, that version says whether the call may run again. Returns
 * false if its claim has been lost; the call must not run then.
 */
export async function markStarted(
  db: Db,
  { id, fence, tool_version }: VersionedClaim,
  startedAt: number,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({ effects: "possible", started_at: startedAt, tool_version })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Extends the leases that an owner has on calls. Returns the ids of those that someone wants to cancel.
 * @param lease with the owner null for direct calls: a client waits for them in the process that runs them
 */
export async function renewLeases(
  db: Db,
  ids: readonly string[],
  { owner, until }: Pick<LeaseOptions, "until"> & { readonly owner: string | null },
): Promise<readonly string[]> {
  const rows = await db
    .updateTable("calls")
    .set({ lease_until: until })
    .where("id", "in", ids)
    .where("state", "=", "running")
    .where("lease_owner", owner === null ? "is" : "=", owner)
    .returning(["id", "cancel_requested"])
    .execute();
  return rows.filter(({ cancel_requested }) => cancel_requested === 1).map(({ id }) => id);
}

/** Lets the leases of direct calls expire. For the start of the only server of a database, after whose end no earlier one runs anything. */
export async function expireDirectCalls(db: Db): Promise<void> {
  await db
    .updateTable("calls")
    .set({ lease_until: 0 })
    .where(IS_OPEN_CALL)
    .where("state", "=", "running")
    .where("lease_owner", "is", null)
    .where("lease_until", "is not", null)
    .execute();
}

/** Returns claimed calls whose lease has expired: their process is gone. */
export async function findExpired(db: Db, now: number): Promise<readonly CallsTable[]> {
  return await db
    .selectFrom("calls")
    .selectAll()
    .where(IS_OPEN_CALL)
    .where("state", "=", "running")
    .where("lease_until", "<", now)
    .limit(500)
    .execute();
}

/**
 * Puts a call whose process is gone back into the queue. The calls that it had made are removed, because it makes them again. Returns false if
 * another process was faster.
 */
export async function requeue(db: Db, { id, fence }: CallClaim, runAt: number): Promise<boolean> {
  return await db.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .updateTable("calls")
      .set((column) => ({ ...queuedAt(runAt), fence: column("fence", "+", 1) }))
      .where("id", "=", id)
      .where("fence", "=", fence)
      .where("state", "=", "running")
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await transaction.deleteFrom("calls").where("root_id", "=", id).execute();
    return numUpdatedRows > 0n;
  });
}

const queuedAt = (runAt: number) =>
  ({
    state: "queued",
    effects: "none",
    run_at: runAt,
    lease_owner: null,
    lease_until: null,
    started_at: null,
  }) as const;

/**
 * Puts a claimed call that has not begun back into the queue; the claim does not count as an attempt. Returns false if another process has
 * claimed it, or someone wants to cancel it.
 * @param claim with the version that its caller has named: another one is chosen again
 */
export async function putBackCall(
  db: Db,
  { id, fence, tool_version }: VersionedClaim,
  runAt: number,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set((column) => ({
      ...queuedAt(runAt),
      tool_version,
      fence: column("fence", "+", 1),
      attempts: column("attempts", "-", 1),
    }))
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .where("cancel_requested", "=", 0)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
