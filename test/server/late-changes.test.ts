// Changes that were decided by a state which another change replaced before them.
import { sql } from "kysely";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import {
  advanceSchedule,
  findSchedule,
  insertSchedule,
  type ScheduleChanges,
  updateSchedule,
} from "../../src/server/records/schedules.ts";
import { findTenant, updateTenant } from "../../src/server/records/tenants.ts";
import { changeExclusively } from "../../src/server/records/write-lock.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const parts = useServer(stores, kind, ["acme"]);
  let database: OpenDatabase;
  beforeEach(async () => {
    const { dataDir, database: url } = parts.store.options;
    database = await openDatabase({ url, dataDir, onError() {} });
  });
  afterEach(() => database[Symbol.asyncDispose]());

  test("a change of a schedule keeps what the scheduler has stored since the schedule was read", async () => {
    const { db } = database;
    const own = {
      ...({ tool_name: "t", alias: "live", input: "{}", cron: "0 * * * *", time_zone: "UTC" } as const),
      ...({ overlap: "skip", catch_up: "latest", state: "active", next_at: 1_000 } as const),
    };
    const row = {
      ...own,
      ...{ id: "schedule_1", tenant_id: "acme", name: "n", created_by: "key" },
      ...{ last_at: null, last_call_id: null, skipped: 0, created_at: 1, updated_at: 1 },
    };
    await insertSchedule(db, row);
    const started = { next_at: 2_000, last_at: 1_000, last_call_id: "call_1", skipped: 3 };
    expect(await advanceSchedule(db, row, started)).toBe(true);
    const { tool_name: _, ...columns } = own;
    const changes: ScheduleChanges = { ...columns, cron: "5 * * * *", input: '{"n":1}', next_at: 3_000 };
    const kept = { cron: "5 * * * *", lastAt: 1_000, lastCallId: "call_1", skipped: 3, nextAt: 3_000, input: { n: 1 } };
    expect(await updateSchedule(db, row, changes)).toMatchObject(kept);
    expect(await findSchedule(db, "acme", "schedule_1")).toMatchObject({ ...changes, ...started, next_at: 3_000 });
  });

  // With SQLite, a process that waits for the lock of a database cannot do anything else.
  describe.runIf(kind === "postgres")("while another change is made", () => {
    /** Sends a request, and makes a change before that of the request, which waits for it. */
    const sendDuring = async (
      request: Parameters<typeof parts.api>,
      change: (transaction: Db) => Promise<void>,
    ): Promise<number> => {
      let answer: ReturnType<typeof parts.api> | undefined;
      await changeExclusively(database, async (transaction) => {
        answer = parts.api(...request);
        await expect
          .poll(
            async () => {
              const waiting = sql<{ n: number }>`
                select count(*)::int as n from pg_locks
                where locktype = 'advisory' and not granted
                and database = (select oid from pg_database where datname = current_database())`;
              return (await waiting.execute(transaction)).rows[0]?.n;
            },
            { timeout: 30_000 },
          )
          .toBe(1);
        await change(transaction);
      });
      return (await answer)?.status ?? 0;
    };

    test("a tenant whose deletion has begun is not activated", async () => {
      await parts.api("POST", "/v1/tenants", { id: "goes" });
      const status = await sendDuring(["PATCH", "/v1/tenants/goes", { state: "active" }], (transaction) =>
        updateTenant(transaction, "goes", { state: "deleting" }),
      );
      expect([status, (await findTenant(database.db, "goes"))?.state]).toEqual([404, "deleting"]);
      expect((await parts.api("DELETE", "/v1/tenants/goes")).status).toBe(200);
    });
  });
});
