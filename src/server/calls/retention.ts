// Deletes the finished calls of tenants after the time that their policies set, in small batches, so that no request waits for it.
import type { Db, OpenDatabase } from "../database/open-database.ts";
import { deleteOldCalls } from "../records/calls.ts";
import { deleteExpiredSessions } from "../records/console-sessions.ts";
import { deleteOldRuns } from "../records/runs.ts";
import { listTenants } from "../records/tenants.ts";
import { deleteOldDeliveries } from "../records/webhooks.ts";

const DAY_MS = 86_400_000;
/** Time in ms between two runs. */
const INTERVAL_MS = 60 * 60_000;
/** Time in ms until the first run: a server that restarts more often than once an hour deletes too, and starts without it. */
const FIRST_MS = 60_000;
const BATCH = 500;
const TENANTS_PER_PAGE = 100;

/**
 * Deletes all calls that are older than their tenant's policy allows.
 * @param now ms since 1970
 * @returns how many were deleted
 */
export async function deleteExpiredCalls(db: Db, now: number): Promise<number> {
  let deleted = 0;
  let after: string | undefined;
  for (;;) {
    const { rows: tenants, hasMore } = await listTenants(db, { after, limit: TENANTS_PER_PAGE });
    for (const { id, policy } of tenants) {
      const before = now - policy.retention.callDays * DAY_MS;
      await deleteOldDeliveries(db, id, before);
      for (;;) {
        const count = await deleteOldCalls(db, id, { before, limit: BATCH });
        deleted += count;
        if (count < BATCH) break;
      }
      while ((await deleteOldRuns(db, id, { before, limit: BATCH })) === BATCH);
    }
    after = tenants.at(-1)?.id;
    if (!hasMore) return deleted;
  }
}

/** Deletes expired calls and sessions, and sweeps stores, soon after the start and then once an hour. Several servers may do so at the same time. Dispose it to stop. */
export function startRetention(
  { db, clock }: Pick<OpenDatabase, "db" | "clock">,
  stores: readonly { sweep(): Promise<void> }[],
  onError: (error: unknown) => void,
): Disposable {
  const run = async (): Promise<void> => {
    await deleteExpiredCalls(db, clock.now());
    await deleteExpiredSessions(db, clock.now());
    for (const store of stores) await store.sweep();
  };
  let timer: NodeJS.Timeout;
  const schedule = (ms: number): void => {
    timer = setTimeout(() => {
      schedule(INTERVAL_MS);
      run().catch(onError);
    }, ms).unref();
  };
  schedule(FIRST_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
