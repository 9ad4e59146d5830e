// Starts the runs of schedules: adds a call to the queue and moves the schedule on, in one transaction, so that no run is lost or doubled
// whatever ends meanwhile. Several servers may do so at the same time.
import { ToolError } from "../../host/index.ts";
import { ownKeyOf } from "../calls/call-request.ts";
import type { CallService } from "../calls/call-service.ts";
import type { Db } from "../database/open-database.ts";
import { countQueued } from "../records/calls/call-claims.ts";
import { type CallRow, findCall, insertOnce } from "../records/calls/calls.ts";
import { advanceSchedule, type DueSchedule, findDueSchedules, findSchedule } from "../records/events/schedules.ts";
import { checkStoredBytes } from "../records/tenants/stored-bytes.ts";
import { maxAsyncCallsOf } from "../records/tenants/tenant-policy.ts";
import { findTenant, type TenantRecord } from "../records/tenants/tenants.ts";
import { MAX_MISSED, nextRunAfter, runsUntil } from "./cron.ts";

const POLL_MS = 500;
const BATCH = 100;
/** Schedules that fail in one round, after which the next round begins. */
const MAX_FAILED = 1_000;
/** A run that is later than this in ms was missed: the server did not run. */
const LATE_MS = 60_000;

export interface SchedulerDependencies {
  readonly db: Db;
  readonly calls: Pick<CallService, "toQueuedRow" | "notify">;
  readonly onError: (error: unknown) => void;
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** Returns the times at which calls run now, by what the schedule says about missed runs. */
function dueRuns(row: DueSchedule, dueAt: number, now: number): readonly number[] {
  const isAll = row.catch_up === "all";
  const runs = runsUntil({ cron: row.cron, timeZone: row.time_zone }, dueAt, now, isAll ? MAX_MISSED : 1);
  if (isAll) return runs;
  const latest = runs.at(-1) as number;
  const isMissed = now - latest > LATE_MS;
  return isMissed && row.catch_up === "none" ? [] : [latest];
}

export class Scheduler implements AsyncDisposable {
  readonly #dependencies: SchedulerDependencies;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(dependencies: SchedulerDependencies) {
    this.#dependencies = dependencies;
    this.#now = dependencies.now ?? Date.now;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running ??= this.runDue()
        .catch(this.#dependencies.onError)
        .finally(() => {
          this.#running = undefined;
        });
    }, POLL_MS);
  }

  /** Starts all runs that are due. A schedule that fails stays due, is tried again in the next round, and delays no other one. */
  async runDue(): Promise<void> {
    const failed: string[] = [];
    for (;;) {
      const due = await findDueSchedules(this.#dependencies.db, this.#now(), { limit: BATCH, except: failed });
      for (const row of due) if (!(await this.#runOne(row))) failed.push(row.id);
      if (due.length < BATCH || failed.length > MAX_FAILED) return;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Returns false if the schedule may still be due. */
  async #runOne(row: DueSchedule): Promise<boolean> {
    const { db, calls, onError } = this.#dependencies;
    try {
      const tenant = await findTenant(db, row.tenant_id);
      if (tenant === undefined) return false;
      const added = await db
        .transaction()
        .execute(async (transaction) => await this.#advance(transaction, row, tenant));
      if (added.length > 0) calls.notify(added);
      return true;
    } catch (thrown) {
      if (thrown instanceof LostRace) return true;
      onError(thrown);
      return false;
    }
  }

  /** Returns the ids of the calls that were added. */
  async #advance(db: Db, row: DueSchedule, tenant: TenantRecord): Promise<readonly string[]> {
    const now = this.#now();
    const dueAt = row.next_at as number;
    const isBusy = row.overlap === "skip" && (await this.#isRunning(db, row));
    const wanted = tenant.state === "active" ? dueRuns(row, dueAt, now) : [];
    // Without overlap, at most one run can start now.
    const runs = row.overlap === "skip" ? wanted.slice(-1) : wanted;
    const started = isBusy ? [] : runs;
    const added: string[] = [];
    let skipped = isBusy ? runs.length : 0;
    // Only now, because inputs can be large.
    const found = started.length === 0 ? undefined : await findSchedule(db, row.tenant_id, row.id);
    if (started.length > 0 && found === undefined) throw new LostRace();
    const input: unknown = found === undefined ? undefined : JSON.parse(found.input);
    for (const at of started) {
      const call = this.#dependencies.calls.toQueuedRow(
        {
          toolName: row.tool_name,
          alias: row.alias,
          input,
          // A second server that sees the same run adds no second call.
          idempotencyKey: ownKeyOf(row.id, at),
        },
        { tenant, keyId: row.id },
      );
      if (!(await hasRoomFor(db, tenant, call))) {
        skipped += 1;
        continue;
      }
      if ((await insertOnce(db, call)) === undefined) added.push(call.id);
    }
    const isFirst = await advanceSchedule(db, row, {
      next_at: nextRunAfter({ cron: row.cron, timeZone: row.time_zone }, now),
      last_at: started.at(-1) ?? row.last_at,
      last_call_id: added.at(-1) ?? row.last_call_id,
      skipped: row.skipped + skipped,
    });
    if (!isFirst) throw new LostRace();
    return added;
  }

  async #isRunning(db: Db, { tenant_id, last_call_id }: DueSchedule): Promise<boolean> {
    if (last_call_id === null) return false;
    const call = await findCall(db, tenant_id, last_call_id);
    return call !== undefined && call.ended_at === null;
  }
}

/** Whether the tenant may store the input of a call, and its queue has room. Otherwise the run is skipped, and the schedule goes on. */
async function hasRoomFor(db: Db, { id: tenantId, policy }: TenantRecord, { input }: CallRow): Promise<boolean> {
  const max = maxAsyncCallsOf(policy);
  if ((await countQueued(db, tenantId, max)) >= max) return false;
  const bytes = Buffer.byteLength(input ?? "");
  return await checkStoredBytes(db, tenantId, { what: "The input of the call", bytes }).then(
    () => true,
    (thrown: unknown) => {
      if (thrown instanceof ToolError) return false;
      throw thrown;
    },
  );
}

/** Rolls a transaction back, because another server has started the run. */
class LostRace extends Error {
  override readonly name = "LostRace";
}
