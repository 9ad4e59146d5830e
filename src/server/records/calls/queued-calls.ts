// Reads queued calls for the work queue, which distributes them to the servers with this database.
import { randomBytes } from "node:crypto";
import type { Db } from "../../database/open-database.ts";
import { IS_OPEN_CALL } from "../../database/partial-indexes.ts";

/** A queued call, as the work queue needs it. */
export interface QueuedCall {
  readonly id: string;
  readonly tenantId: string;
  readonly fence: number;
  readonly runAt: number;
  /** Whether it may run in worker processes of a server, and so needs no executor. */
  readonly isLocal: boolean;
}

/** Position in the queue. Calls are ordered by the time at which they are due. */
export type QueuePosition = Pick<QueuedCall, "runAt" | "id">;

export type QueuedFilter =
  | { readonly ids: readonly string[] }
  | {
      /** Latest time at which the calls are due, in ms since 1970. */
      readonly dueBefore: number;
      /** The last call of the page before. */
      readonly after: QueuePosition | undefined;
      readonly limit: number;
    };

/** Returns queued calls: those with an id, or a page in the order in which they are due. */
export async function findQueued(db: Db, filter: QueuedFilter): Promise<readonly QueuedCall[]> {
  let query = db
    .selectFrom("calls")
    .select(["id", "tenant_id", "fence", "run_at", "session_id"])
    .where(IS_OPEN_CALL)
    .where("state", "=", "queued");
  if ("ids" in filter) query = query.where("id", "in", filter.ids);
  else {
    const { dueBefore, after, limit } = filter;
    query = query.where("run_at", "<=", dueBefore).orderBy("run_at").orderBy("id").limit(limit);
    if (after !== undefined) {
      const { runAt, id } = after;
      query = query.where("run_at", ">=", runAt).where((of) => of.or([of("run_at", ">", runAt), of("id", ">", id)]));
    }
  }
  return (await query.execute()).map((row) => ({
    id: row.id,
    tenantId: row.tenant_id,
    fence: row.fence,
    runAt: row.run_at ?? 0,
    // Each session belongs to one server, also if its isolate is on an executor.
    isLocal: row.session_id !== null,
  }));
}

/** Returns the id of the database's work queue, which its first server chooses. */
export async function readQueueId(db: Db): Promise<string> {
  const value = randomBytes(8).toString("hex");
  await db
    .insertInto("settings")
    .values({ name: "queue_id", value })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const row = await db.selectFrom("settings").select("value").where("name", "=", "queue_id").executeTakeFirstOrThrow();
  return row.value;
}
