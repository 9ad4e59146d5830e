// Changes that were decided by a state which another change replaced before them.
import { sql } from "kysely";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { DatabaseKvStore } from "../../src/server/kv/database-kv-store.ts";
import { DatabaseQuotaStore } from "../../src/server/quotas/database-quota-store.ts";
import { findApproval, releaseCall, storeDecision } from "../../src/server/records/calls/approvals.ts";
import { findCall } from "../../src/server/records/calls/calls.ts";
import {
  advanceSchedule,
  findSchedule,
  insertSchedule,
  type ScheduleChanges,
  updateSchedule,
} from "../../src/server/records/events/schedules.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { findTenant, insertTenant, type TenantRecord, updateTenant } from "../../src/server/records/tenants/tenants.ts";
import { changeExclusively } from "../../src/server/records/write-lock.ts";
import { DatabaseRunStore } from "../../src/server/runs/database-run-store.ts";
import { deleteTenant } from "../../src/server/tenants/delete-tenant.ts";
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

  test("a deletion ends when another one has deleted the tenant, and leaves a new tenant with its id", async () => {
    const { db } = database;
    const tenant = await insertTenant(db, { id: "again", name: "first", policy: TenantPolicySchema.parse({}) });
    // Created in another millisecond.
    await db.updateTable("tenants").set({ created_at: 1 }).where("id", "=", "again").execute();
    const done = async (): Promise<void> => {};
    const replaced = async (): Promise<readonly string[]> => {
      await db.deleteFrom("tenants").where("id", "=", "again").execute();
      await insertTenant(db, { id: "again", name: "second", policy: tenant.policy });
      return [];
    };
    const deletion = deleteTenant(
      {
        database,
        authenticator: { clear() {} },
        glovebox: { deleteTenant: async () => ({ values: { keys: 0, bytes: 0 }, artifacts: 0 }) as never },
        tools: { forget() {} },
        calls: { flush: done },
        tenantChanges: { announce: done, eraseElsewhere: replaced },
        vacuumFull: false,
      },
      { ...tenant, createdAt: 1 },
      "admin" as never,
    );
    await expect(deletion).rejects.toMatchObject({ code: "TOOL_UNAVAILABLE", details: { reason: "tenant_deleted" } });
    expect(await findTenant(db, "again")).toMatchObject({ name: "second", state: "active" });
  });

  test("a deletion that another one has overtaken keeps the values, runs and counters of a new tenant", async () => {
    const { db } = database;
    const tenant = await insertTenant(db, { id: "owner", name: "first", policy: TenantPolicySchema.parse({}) });
    await db.updateTable("tenants").set({ created_at: 1 }).where("id", "=", "owner").execute();
    const kv = new DatabaseKvStore(database, async () => {});
    const runs = new DatabaseRunStore(database);
    const quotas = new DatabaseQuotaStore(database);
    const space = { tenantId: "owner", tool: "tool" };
    // Not due: the server leaves it alone.
    const later = Date.now() + 3_600_000;
    const times = { createdAt: 1, expiresAt: later, leaseUntil: later };
    const run = { id: "run_1", tenantId: "owner", kind: "tool", toolName: "tool", input: "{}", ...times } as const;
    const day = { kind: "window", tenantId: "owner", name: "calls:day", amount: 1, limit: 10 } as const;
    const left = async (): Promise<readonly unknown[]> => [
      (await kv.usage(space)).keys,
      (await runs.list("owner", { limit: 10 })).length,
      (await quotas.read("owner")).get("calls:day"),
    ];
    const deleteAll = async (): Promise<void> => {
      await kv.deleteTenant("owner");
      await runs.deleteTenant("owner");
      await quotas.deleteTenant("owner");
    };
    const deletion = deleteTenant(
      {
        database,
        authenticator: { clear() {} },
        glovebox: {
          deleteTenant: async () => {
            await db.deleteFrom("tenants").where("id", "=", "owner").execute();
            await insertTenant(db, { id: "owner", name: "second", policy: tenant.policy });
            const quota = { keys: 10, bytes: 100 };
            await kv.set(space, "key", { kind: "json", data: Buffer.from("1"), quota });
            await runs.create(run, 1);
            await quotas.consume([{ ...day, endsAt: Date.now() + 60_000 }]);
            await deleteAll();
            return { values: { keys: 0, bytes: 0 }, artifacts: 0 } as never;
          },
        },
        tools: { forget() {} },
        calls: { flush: async () => {} },
        tenantChanges: { announce: async () => {}, eraseElsewhere: async () => [] },
        vacuumFull: false,
      },
      { ...tenant, createdAt: 1 },
      "admin" as never,
    );
    await expect(deletion).rejects.toMatchObject({ details: { reason: "tenant_deleted" } });
    expect(await left()).toEqual([1, 1, 1]);
    await updateTenant(db, "owner", { state: "deleting" });
    await deleteAll();
    expect(await left()).toEqual([0, 0, undefined]);
  });

  // With SQLite, a process that waits for the lock of a database cannot do anything else.
  describe.runIf(kind === "postgres")("while another change is made", () => {
    /**
     * Sends a request, and makes a change before that of the request, which waits for it.
     * @param begin part of the change that is made before the request. Default: none
     */
    const sendDuring = async (
      request: Parameters<typeof parts.api>,
      change: (transaction: Db) => Promise<unknown>,
      begin: (transaction: Db) => Promise<unknown> = async () => {},
    ): Promise<number> => {
      let answer: ReturnType<typeof parts.api> | undefined;
      await changeExclusively(database, async (transaction) => {
        await begin(transaction);
        answer = parts.api(...request);
        await expect
          .poll(
            async () => {
              const waiting = sql<{ n: number }>`
                select count(*)::int as n from pg_stat_activity
                where wait_event_type = 'Lock' and datname = current_database()`;
              return (await waiting.execute(transaction)).rows[0]?.n;
            },
            { timeout: 30_000 },
          )
          .toBe(1);
        await change(transaction);
      });
      return (await answer)?.status ?? 0;
    };

    test("a call whose approval is just given is cancelled", async () => {
      const { api } = parts;
      const source = "export const annotations = { destructiveHint: true }; export default () => 1";
      expect((await api("POST", "/v1/tenants/acme/tools", { name: "wipe", source, approve: true })).status).toBe(201);
      const { body } = await api<{ id: string; approvalId: string }>("POST", "/v1/tenants/acme/tools/wipe/calls", {});
      const decision = { state: "approved", decided_by: "key", decided_at: 1, reason: null } as const;
      const status = await sendDuring(
        ["POST", `/v1/tenants/acme/calls/${body.id}/cancel`],
        // Not due: the server does not run it meanwhile.
        (transaction) => releaseCall(transaction, body.id, Date.now() + 3_600_000),
        (transaction) => storeDecision(transaction, body.approvalId, decision),
      );
      expect([status, (await findCall(database.db, "acme", body.id))?.state]).toEqual([202, "cancelled"]);
      expect((await findApproval(database.db, "acme", body.approvalId))?.state).toBe("approved");
    });

    test("a tenant that was created anew is not deleted", async () => {
      await parts.api("POST", "/v1/tenants", { id: "anew" });
      const status = await sendDuring(["DELETE", "/v1/tenants/anew"], async (transaction) => {
        const { policy } = (await findTenant(transaction, "anew")) as TenantRecord;
        await transaction.deleteFrom("tenants").where("id", "=", "anew").execute();
        await insertTenant(transaction, { id: "anew", name: "second", policy });
        await transaction.updateTable("tenants").set({ created_at: 1 }).where("id", "=", "anew").execute();
      });
      expect(status).toBe(404);
      expect(await findTenant(database.db, "anew")).toMatchObject({ name: "second", state: "active" });
    });

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
