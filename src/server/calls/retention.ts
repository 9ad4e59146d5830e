// Deletes the finished calls of tenants after the time that their policies set, in small batches, so that no request waits for it.
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { deleteInBatches } from "../records/batches.ts";
import { deleteOldCalls } from "../records/calls/calls.ts";
import { deleteOldRuns } from "../records/calls/runs.ts";
import { deleteOldDeliveries } from "../records/events/webhooks.ts";
import { deleteExpiredSessions } from "../records/tenants/console-sessions.ts";
import { listTenants } from "../records/tenants/tenants.ts";

const DAY_MS = 86_400_000;
/** Time in ms between two runs. */
const INTERVAL_MS = 60 * 60_000;
/** Time in ms until the first run: a server that restarts more often than once an hour deletes too, and starts without it. */
const FIRST_MS = 60_000;
const TENANTS_PER_PAGE = 100;

/**
 * Deletes all calls, runs and deliveries that are older than their tenant's policy allows.
 * @param now ms since 1970
 * @param onError receives the failure of one deletion. The others go on
 * @returns how many calls were deleted
 */
export async function deleteExpiredCalls(db: Db, now: number, onError: (error: unknown) => void): Promise<number> {
  const deleteOld = async (deleteBatch: typeof deleteOldCalls, tenantId: string, before: number): Promise<number> => {
    try {
      return await deleteInBatches((limit) => deleteBatch(db, tenantId, { before, limit }));
    } catch (thrown) {
      onError(thrown);
      return 0;
    }
  };
  let deleted = 0;
  let after: string | undefined;
  for (;;) {
    const { rows: tenants, hasMore } = await listTenants(db, { after, limit: TENANTS_PER_PAGE });
    for (const { id, policy } of tenants) {
      const before = now - policy.retention.callDays * DAY_MS;
      await deleteOld(deleteOldDeliveries, id, before);
      deleted += await deleteOld(deleteOldCalls, id, before);
      await deleteOld(deleteOldRuns, id, before);
    }
    after = tenants.at(-1)?.id;
    if (!hasMore) return deleted;
  }
}

/**
 * Deletes expired calls and sessions, and sweeps stores, soon after the start and then once an hour. Several servers
 * may do so at the same time. Dispose it to stop.
 */
export function startRetention(
  { db, clock }: Pick<OpenDatabase, "db" | "clock">,
  stores: readonly { sweep(onError: (error: unknown) => void): Promise<void> }[],
  onError: (error: unknown) => void,
): Disposable {
  const run = async (): Promise<void> => {
    const steps = [
      () => deleteExpiredCalls(db, clock.now(), onError),
      () => deleteExpiredSessions(db, clock.now()),
      ...stores.map((store) => () => store.sweep(onError)),
    ];
    for (const step of steps) {
      try {
        await step();
      } catch (thrown) {
        onError(thrown);
      }
    }
  };
  let timer: NodeJS.Timeout;
  const schedule = (ms: number): void => {
    timer = setTimeout(() => {
      schedule(INTERVAL_MS);
      void run();
    }, ms).unref();
  };
  schedule(FIRST_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
