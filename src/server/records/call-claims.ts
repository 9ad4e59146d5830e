// Claims queued calls for one process, with a lease and a number (fence), and gives them back.
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { IS_OPEN_CALL } from "../database/partial-indexes.ts";
import type { CallsTable } from "../database/schema.ts";
import { hasSessionElsewhere } from "./session-homes.ts";

/** A claim of a queued call. */
export interface CallClaim {
  readonly id: string;
  readonly fence: number;
}

export interface LeaseOptions {
  readonly owner: string;
  /** End of the lease in ms since 1970. */
  readonly until: number;
  /** Which calls are due, in ms since 1970. Default: the time of this machine. */
  readonly now?: number | undefined;
  /** Ids of the calls that may be claimed. Default: all. */
  readonly ids?: readonly string[] | undefined;
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
  { owner, until, now = Date.now(), ids, replicaId }: LeaseOptions,
): Promise<readonly CallsTable[]> {
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
      const queued = query.selectFrom("calls").select("id").where(IS_OPEN_CALL).where("state", "=", "queued");
      const all = queued.where("run_at", "<=", now);
      const allowed = ids === undefined ? all : all.where("id", "in", ids);
      const own = replicaId === undefined ? allowed : allowed.where((of) => of.not(hasSessionElsewhere(of, replicaId)));
      const due = own.orderBy("run_at").orderBy("id").limit(limit);
      return kind === "postgres" ? due.forUpdate().skipLocked() : due;
    })
    .returningAll()
    .execute();
}

/** Records that a claimed call is about to run. Returns false if its claim has been lost; the call must not run then. */
export async function markStarted(db: Db, { id, fence }: CallClaim, startedAt: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set({ effects: "possible", started_at: startedAt })
    .where("id", "=", id)
    .where("fence", "=", fence)
    .where("state", "=", "running")
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Extends the leases that an owner has on calls. Returns the ids of those that someone wants to cancel. */
export async function renewLeases(
  db: Db,
  ids: readonly string[],
  { owner, until }: LeaseOptions,
): Promise<readonly string[]> {
  const rows = await db
    .updateTable("calls")
    .set({ lease_until: until })
    .where("id", "in", ids)
    .where("state", "=", "running")
    .where("lease_owner", "=", owner)
    .returning(["id", "cancel_requested"])
    .execute();
  return rows.filter(({ cancel_requested }) => cancel_requested === 1).map(({ id }) => id);
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
 */
export async function putBackCall(db: Db, { id, fence }: CallClaim, runAt: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("calls")
    .set((column) => ({
      ...queuedAt(runAt),
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
