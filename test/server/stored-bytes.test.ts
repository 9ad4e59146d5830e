// The quota of stored bytes: what counts, what is denied when it is used up, and that the counts stay exact. On both databases.

import { join } from "node:path";
import { Kysely } from "kysely";
import { afterAll, describe, expect, test } from "vitest";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { migrate } from "../../src/server/database/migrate.ts";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { createPostgresDialect } from "../../src/server/database/postgres-dialect.ts";
import type { DatabaseSchema } from "../../src/server/database/schema.ts";
import { createSqliteDialect, openSqlite } from "../../src/server/database/sqlite-dialect.ts";
import { createId } from "../../src/server/ids.ts";
import { listRecorded } from "../../src/server/records/calls/call-contents.ts";
import { listCalls } from "../../src/server/records/calls/call-list.ts";
import { insertEndedCalls } from "../../src/server/records/calls/call-outcomes.ts";
import { deleteOldCalls, findCall, insertOnce } from "../../src/server/records/calls/calls.ts";
import {
  checkStoredBytes,
  readStoredBytes,
  type StorageWarning,
  StoredBytesSweeper,
} from "../../src/server/records/tenants/stored-bytes.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { restoreBackup, writeBackup } from "../../src/server/transfer/backup.ts";
import { readRows, type TableName } from "../../src/server/transfer/table-rows.ts";
import { endedRow } from "./support/call-row.ts";
import { useServer } from "./support/server.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** What counts, written down a second time. */
const COUNTED: { readonly [Name in TableName]?: readonly string[] } = {
  blobs: ["bytes"],
  tool_versions: ["definition"],
  kv_entries: ["key", "data"],
  calls: ["input", "output", "error", "logs", "calls", "timeline"],
  call_contents: ["text"],
  runs: ["input", "result"],
  run_entries: ["text"],
  schedules: ["input"],
  secrets: ["sealed"],
  deliveries: ["body"],
};

const open = ({ options: { dataDir, database: url } }: TestStore): Promise<OpenDatabase> =>
  openDatabase({ dataDir, url, onError: (error) => expect.fail(String(error)) });

/** Counts what is stored by reading all of it. */
async function measure(db: Db): Promise<{ readonly [tenant: string]: number }> {
  const sums: Record<string, number> = {};
  for (const [table, columns] of Object.entries(COUNTED)) {
    for await (const row of readRows(db, table as TableName)) {
      for (const column of columns) {
        const value = row[column] ?? "";
        const size = typeof value === "string" ? Buffer.byteLength(value) : (value as Uint8Array).byteLength;
        sums[String(row.tenant_id)] = (sums[String(row.tenant_id)] ?? 0) + size;
      }
    }
  }
  return sums;
}

/** Returns the counts of the database by tenant, without those that are 0. */
async function counted(db: Db): Promise<{ readonly [tenant: string]: number }> {
  const sums: Record<string, number> = {};
  for (const { tenant_id: tenantId, bytes } of await db.selectFrom("stored_bytes").selectAll().execute())
    sums[tenantId] = (sums[tenantId] ?? 0) + bytes;
  return Object.fromEntries(Object.entries(sums).filter(([, bytes]) => bytes !== 0));
}

const addTenant = (db: Db, id: string, maxStoredBytes = 1_000_000): Promise<unknown> =>
  insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({ maxStoredBytes }) });

const KEEP = `
  export const capabilities = { kv: true, waitFor: true };
  export default async ({ key = "k", size = 1, wait = false }, ctx) => {
    if (wait) await ctx.waitFor({ event: "go" });
    try {
      await ctx.kv.set(key, "x".repeat(size));
      return "stored";
    } catch (error) {
      return { code: error.code, message: error.message };
    }
  };`;

describe.for(STORES)("with %s", (kind) => {
  const running = useServer(stores, kind, ["acme", "full", "gone"]);
  const { api } = running;
  const used = async (tenant: string): Promise<number> => {
    const { body } = await api<{ storedBytes: { used: number } }>("GET", `/v1/tenants/${tenant}/quotas`);
    return body.storedBytes.used;
  };
  const setLimit = async (tenant: string, maxStoredBytes: number): Promise<void> => {
    const policy = { maxStoredBytes, limits: { timeoutMs: 120_000 }, recording: { redact: false } };
    expect((await api("PATCH", `/v1/tenants/${tenant}`, { policy })).status).toBe(200);
  };
  const use = async (tenant: string): Promise<void> => {
    const base = `/v1/tenants/${tenant}`;
    await setLimit(tenant, 10_000_000);
    expect((await api("POST", `${base}/tools`, { name: "keep", source: KEEP, approve: true })).status).toBe(201);
    for (const size of [40_000, 100]) {
      const { body } = await api("POST", `${base}/tools/keep/calls`, { input: { size } });
      expect([body.error, body.output]).toEqual([null, "stored"]);
    }
    const { body } = await api("POST", `${base}/runs`, { tool: "keep", input: { key: "run", wait: true } });
    expect(body.state).toBe("suspended");
    expect(
      (await api("PUT", `${base}/secrets/TOKEN`, { value: "secret-value", hosts: ["api.example.com"] })).status,
    ).toBe(200);
    const schedule = { name: "rare", tool: "keep", cron: "0 0 29 2 *", input: { size: 7 } };
    expect((await api("POST", `${base}/schedules`, schedule)).status).toBe(201);
    // The records of calls are written before they are listed.
    expect((await api("GET", `${base}/calls`)).status).toBe(200);
  };

  test("counts code, values, calls, recordings, runs, secrets and schedules, and nothing after the deletion of the tenant", async () => {
    await use("acme");
    await use("gone");
    await using database = await open(running.store);
    const measured = await measure(database.db);
    expect(await counted(database.db)).toEqual(measured);
    expect(await used("acme")).toBe(measured.acme);
    const deleted = await api("DELETE", "/v1/tenants/gone");
    expect(deleted.status).toBe(200);
    const rows = await database.db.selectFrom("stored_bytes").select("bytes").where("tenant_id", "=", "gone").execute();
    expect(rows).toEqual([]);
  });

  test("a full quota denies what would be stored, with what is used and allowed, and frees with deletions", async () => {
    const base = "/v1/tenants/full";
    await use("full");
    const limit = (await used("full")) + 2_000;
    await setLimit("full", limit);
    const big = { input: { key: "big", size: 3_000 } };
    const call = await api("POST", `${base}/tools/keep/calls`, big);
    expect(call.body).toMatchObject({
      state: "succeeded",
      output: {
        code: "QUOTA_EXCEEDED",
        message: expect.stringMatching(
          /^The value needs 3005 bytes, but the tenant has stored \d+ of \d+ bytes \(policy\.maxStoredBytes\)/,
        ),
      },
    });
    const denied = {
      error: {
        code: "QUOTA_EXCEEDED",
        message: expect.stringContaining("policy.maxStoredBytes"),
        details: { allowed: limit },
      },
    };
    const large = { size: 1, more: "y".repeat(4_000) };
    const requests: readonly (readonly [string, string, object, { readonly [name: string]: string }?])[] = [
      ["POST", `${base}/tools`, { name: "other", source: `export default () => "${"z".repeat(4_000)}";` }],
      ["PUT", `${base}/kv/keep/values/big`, { value: "v".repeat(4_000) }],
      ["POST", `${base}/tools/keep/calls`, { input: large }, { prefer: "respond-async" }],
      ["POST", `${base}/calls`, { calls: [{ tool: "keep", input: large }] }, { prefer: "respond-async" }],
      ["POST", `${base}/runs`, { tool: "keep", input: large }],
      ["POST", `${base}/schedules`, { name: "large", tool: "keep", cron: "0 3 * * *", input: large }],
      ["PUT", `${base}/secrets/LARGE`, { value: "s".repeat(4_000), hosts: ["api.example.com"] }],
    ];
    for (const [method, path, body, headers] of requests) {
      const reply = await api(method, path, body, headers);
      expect([path, reply.status, reply.body]).toMatchObject([path, 429, denied]);
    }
    // Nothing of them was stored.
    const tools = await api<{ items: readonly { readonly name: string }[] }>("GET", `${base}/tools`);
    expect(tools.body.items.map(({ name }) => name)).toEqual(["keep"]);
    // A synchronous call runs, and its record has no contents.
    const made = await api("POST", `${base}/tools/keep/calls`, { input: { key: "k", size: 1 } });
    expect([made.status, made.body.output]).toEqual([200, "stored"]);
    const record = await api("GET", `${base}/calls/${made.body.id}`);
    expect(record.body).toMatchObject({
      state: "succeeded",
      input: null,
      output: null,
      omitted: ["input", "output"],
      isRecorded: false,
    });
    // The value became smaller, which is possible at any time. Values and versions make room.
    expect((await api("DELETE", `${base}/kv/keep/values/k`)).status).toBe(200);
    await setLimit("full", (await used("full")) + 10_000);
    expect((await api("PUT", `${base}/kv/keep/values/big`, { value: "v".repeat(4_000) })).status).toBe(200);
    await using database = await open(running.store);
    expect(await counted(database.db)).toEqual(await measure(database.db));
  });

  test("a journal that exceeds the quota ends its run, and what undoes the run is still journaled", async () => {
    const base = "/v1/tenants/acme";
    const source = `
      export const capabilities = { kv: true, waitFor: true };
      export default async (_input, ctx) => {
        ctx.onRollback(async () => void (await ctx.kv.delete("reserved")));
        await ctx.kv.set("reserved", 1);
        await ctx.waitFor({ event: "go" });
        for (let index = 0; index < 20; index += 1) await ctx.kv.get("g".repeat(1_000));
        return "done";
      };`;
    expect((await api("POST", `${base}/tools`, { name: "undo", source, approve: true })).status).toBe(201);
    const run = await api("POST", `${base}/runs`, { tool: "undo", input: {} });
    expect(run.body.state).toBe("suspended");
    await setLimit("acme", (await used("acme")) + 3_000);
    const answered = await api("POST", `${base}/runs/${run.body.id}/events`, { name: "go", value: 1 });
    expect([200, 202]).toContain(answered.status);
    await expect
      .poll(async () => (await api("GET", `${base}/runs/${run.body.id}`)).body, { interval: 100 })
      .toMatchObject({
        state: "failed",
        error: { code: "QUOTA_EXCEEDED", message: expect.stringContaining("policy.maxStoredBytes") },
      });
    const values = await api<{ items: readonly { readonly key: string }[] }>("GET", `${base}/kv/undo`);
    expect(values.body.items).toEqual([]);
    await setLimit("acme", 10_000_000);
  });

  test("counts at the same time from several processes, in any order, and adds the counts up", async () => {
    await using store = await stores.create(kind);
    await using first = await open(store);
    // SQLite has one server process. With Postgres, these are two replicas with several connections each.
    await using second = kind === "postgres" ? await open(store) : { db: first.db, async [Symbol.asyncDispose]() {} };
    const tenants = Array.from({ length: 6 }, (_, index) => `t${index}`);
    for (const id of tenants) await addTenant(first.db, id);
    const batch = (order: readonly string[], text: string) =>
      order.map((tenantId) => ({ row: endedRow(Date.now(), { tenant_id: tenantId, output: JSON.stringify(text) }) }));
    await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const { db } = index % 2 === 0 ? first : second;
        await insertEndedCalls(db, batch(index % 2 === 0 ? tenants : tenants.toReversed(), "ü".repeat(index)));
        if (index % 10 === 9) await new StoredBytesSweeper(first, () => {}).sweep();
      }),
    );
    expect(await counted(first.db)).toEqual(await measure(first.db));
    await deleteOldCalls(first.db, "t0", { before: Date.now() + 60_000, limit: 100 });
    await new StoredBytesSweeper(first, () => {}).sweep();
    const after = await counted(first.db);
    expect(after).toEqual(await measure(first.db));
    expect([after.t0, Object.keys(after).length]).toEqual([undefined, 5]);
    const parts = await first.db
      .selectFrom("stored_bytes")
      .select(({ fn }) => fn.countAll<number>().as("count"))
      .groupBy("tenant_id")
      .execute();
    for (const { count } of parts) expect(Number(count)).toBeLessThanOrEqual(9);
  });

  test("ended calls leave a fifth of the quota to what a tenant stores on purpose", async () => {
    await using store = await stores.create(kind);
    await using database = await open(store);
    const { db } = database;
    await addTenant(db, "acme", 10_000);
    const at = Date.now();
    const record = (count: number) =>
      Array.from({ length: count }, () => ({
        row: endedRow(at, { output: JSON.stringify("o".repeat(998)) }),
        recording: "{}",
      }));
    await insertEndedCalls(db, record(20));
    const { used: stored = 0 } = (await readStoredBytes(db, ["acme"])).get("acme") ?? {};
    expect([stored > 6_900, stored <= 8_000]).toEqual([true, true]);
    const { rows } = await listCalls(db, "acme", { limit: 100 });
    expect([rows.length, rows.filter(({ output }) => output !== null).length]).toEqual([20, 7]);
    expect(await listRecorded(db, { tenantId: "acme", toolName: "common", since: 0, limit: 100 })).toHaveLength(7);
    await checkStoredBytes(db, "acme", { what: "A version", bytes: 1_900 });
    await expect(checkStoredBytes(db, "acme", { what: "A version", bytes: 3_100 })).rejects.toThrow(
      "policy.maxStoredBytes",
    );
    await expect(checkStoredBytes(db, "unknown", { what: "A version", bytes: 1 })).rejects.toThrow("0 of 0 bytes");
  });

  test("a call that is rejected leaves nothing, and one with a known idempotency key is found", async () => {
    await using store = await stores.create(kind);
    await using database = await open(store);
    const { db } = database;
    await addTenant(db, "acme", 100);
    const queued = (key: string, length: number) =>
      endedRow(Date.now(), {
        id: createId("call"),
        state: "queued",
        mode: "async",
        ended_at: null,
        idempotency_key: key,
        output: null,
        input: "i".repeat(length),
      });
    const known = queued("known", 90);
    expect(await insertOnce(db, known)).toBeUndefined();
    const denied = queued("new", 20);
    await expect(insertOnce(db, denied)).rejects.toMatchObject({
      code: "QUOTA_EXCEEDED",
      details: { used: 90, needed: 110 },
    });
    expect(await findCall(db, "acme", denied.id)).toBeUndefined();
    expect((await insertOnce(db, queued("known", 20)))?.id).toBe(known.id);
  });

  test("counts what an earlier release has stored, and what it stores after the migration", async () => {
    await using store = await stores.create(kind);
    const { dataDir, database: url = "" } = store.options;
    const db = new Kysely<DatabaseSchema>({
      dialect:
        kind === "sqlite"
          ? createSqliteDialect(openSqlite(join(dataDir, SQLITE_FILE)))
          : await createPostgresDialect(url, () => {}),
    });
    try {
      await migrate(db, kind, "0011-audit-erasure");
      await addTenant(db, "acme");
      // As the earlier release does: without a look at the quota.
      const insert = (): Promise<unknown> =>
        db
          .insertInto("calls")
          .values(endedRow(Date.now(), { output: '"öäü"', error: "{}" }))
          .execute();
      const key = { tenant_id: "acme", tool: "tenant/t", kind: "bytes", version: "1", expires_at: null } as const;
      await insert();
      await db
        .insertInto("kv_entries")
        .values({ ...key, key: Buffer.from("k"), data: Buffer.alloc(9), size: 10 })
        .execute();
      expect(await migrate(db, kind, "0012-stored-bytes")).toEqual(["0012-stored-bytes"]);
      expect(await counted(db)).toEqual({ acme: 2 + 8 + 2 + 10 });
      await insert();
      await db
        .updateTable("kv_entries")
        .set({ data: Buffer.alloc(4) })
        .execute();
      expect(await counted(db)).toEqual(await measure(db));
      await db.deleteFrom("tenants").execute();
      expect(await counted(db)).toEqual({ acme: 5 });
    } finally {
      await db.destroy();
    }
  });

  test("a restored backup has the same counts, and goes on to count", async () => {
    await using store = await stores.create(kind);
    await using copy = await stores.create(kind);
    const file = join(store.options.dataDir, "backup.gz");
    await using database = await open(store);
    await addTenant(database.db, "acme");
    await insertEndedCalls(
      database.db,
      Array.from({ length: 30 }, () => ({ row: endedRow(Date.now()), parts: "[]" })),
    );
    await writeBackup(database, file);
    await using restored = await open(copy);
    await restoreBackup(restored, file);
    expect(await counted(restored.db)).toEqual(await counted(database.db));
    await insertEndedCalls(restored.db, [{ row: endedRow(Date.now()) }]);
    expect(await counted(restored.db)).toEqual(await measure(restored.db));
  });

  test("warns once a day at 80 % of the quota", async () => {
    await using store = await stores.create(kind);
    await using database = await open(store);
    await addTenant(database.db, "acme", 100);
    await addTenant(database.db, "calm", 1_000);
    for (const tenantId of ["acme", "calm"])
      await insertOnce(
        database.db,
        endedRow(Date.now(), {
          id: createId("call"),
          tenant_id: tenantId,
          state: "queued",
          output: null,
          input: "i".repeat(80),
          idempotency_key: "k",
        }),
      );
    const warnings: StorageWarning[] = [];
    let now = 1_800_000_000_000;
    const at = { ...database, clock: { ...database.clock, now: () => now } };
    const sweeper = new StoredBytesSweeper(at, (warning) => warnings.push(warning));
    await sweeper.sweep();
    await sweeper.sweep();
    expect(warnings).toMatchObject([{ tenantId: "acme", used: 80, limit: 100, name: "storedBytes" }]);
    now += 86_400_000;
    await sweeper.sweep();
    expect(warnings).toHaveLength(2);
  });
});
