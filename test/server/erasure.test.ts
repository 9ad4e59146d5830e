// What remains of deleted rows in the database's files, and commands that must not change a database.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { sql } from "kysely";
import { afterAll, describe, expect, test, vi } from "vitest";
import { type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import type { WebhooksTable } from "../../src/server/database/tables/event-tables.ts";
import { eraseDeleted } from "../../src/server/database/vacuum.ts";
import { createServer } from "../../src/server/index.ts";
import { DatabaseKvStore } from "../../src/server/kv/database-kv-store.ts";
import { appendAudit, listAudit, SERVER_ACTOR } from "../../src/server/records/audit/audit.ts";
import { verifyAudit } from "../../src/server/records/audit/audit-chain.ts";
import { insertCalls } from "../../src/server/records/calls/calls.ts";
import { insertTestDelivery, insertWebhook } from "../../src/server/records/events/webhooks.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { changeExclusively } from "../../src/server/records/write-lock.ts";
import { writeBackup } from "../../src/server/transfer/backup.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const open = ({ options }: TestStore, more: object = {}): Promise<OpenDatabase> =>
  openDatabase({ url: options.database, dataDir: options.dataDir, onError() {}, ...more });

async function addBlobs({ db }: OpenDatabase, tenantId: string, mark: string, count: number): Promise<void> {
  await insertTenant(db, { id: tenantId, name: tenantId, policy: TenantPolicySchema.parse({}) });
  const bytes = Buffer.from(mark.repeat(Math.ceil(50_000 / mark.length)));
  for (let index = 0; index < count; index += 1) {
    await db
      .insertInto("blobs")
      .values({ tenant_id: tenantId, hash: `${tenantId}-${index}`, bytes, size: bytes.length })
      .execute();
  }
}

/** Returns the names of the database's files that contain a text. */
const namesOfFilesWith = (mark: string, { options: { dataDir } }: TestStore): readonly string[] =>
  readdirSync(dataDir, { withFileTypes: true })
    .filter((entry) => entry.isFile() && readFileSync(join(dataDir, entry.name)).includes(mark))
    .map(({ name }) => name);

describe("the file of SQLite", () => {
  test("is rewritten outside of the event loop, while statements wait", async () => {
    await using store = await stores.create("sqlite");
    await using database = await open(store);
    const ids: string[] = [];
    // Within the event loop it would end in the turn in which it began, each time. A paused machine may finish it in a few turns.
    await vi.waitFor(async () => {
      const id = `acme-${ids.length}`;
      ids.push(id);
      await addBlobs(database, id, "MARK-OF-ACME-", 200);
      await database.db.deleteFrom("blobs").execute();
      let isDone = false;
      const erasing = eraseDeleted(database, [], { vacuumFull: false }).then(() => {
        isDone = true;
      });
      const waits = database.db.selectFrom("tenants").select("id").execute();
      let turns = 0;
      while (!isDone) {
        await setImmediate();
        turns += 1;
      }
      await erasing;
      expect((await waits).map((row) => row.id).sort()).toEqual([...ids].sort());
      expect(turns).toBeGreaterThan(10);
    });
    expect(namesOfFilesWith("MARK-OF-ACME-", store)).toEqual([]);
  });

  test("concurrent deletions share a rewrite, and a later one has its own", async () => {
    await using store = await stores.create("sqlite");
    await using database = await open(store);
    const erase = (): Promise<boolean> => eraseDeleted(database, [], { vacuumFull: false });
    await Promise.all([erase(), erase(), erase()]);
    await addBlobs(database, "late", "MARK-OF-LATE-", 3);
    await database.db.deleteFrom("blobs").execute();
    await erase();
    expect(namesOfFilesWith("MARK-OF-LATE-", store)).toEqual([]);
  });

  test("keeps deleted bytes in its log while a backup reads from it, and says so", async () => {
    await using store = await stores.create("sqlite");
    await using database = await open(store);
    await addBlobs(database, "acme", "MARK-OF-ACME-", 3);
    await using backup = await open(store);
    const isOver = Promise.withResolvers<void>();
    const isRead = Promise.withResolvers<void>();
    const reading = backup.db.transaction().execute(async (transaction) => {
      await transaction.selectFrom("blobs").select("tenant_id").execute();
      isRead.resolve();
      await isOver.promise;
    });
    await isRead.promise;
    await database.db.deleteFrom("blobs").execute();
    expect(await eraseDeleted(database, [], { vacuumFull: false, busyMs: 100 })).toBe(false);
    isOver.resolve();
    await reading;
    expect(await eraseDeleted(database, [], { vacuumFull: false })).toBe(true);
    expect(namesOfFilesWith("MARK-OF-ACME-", store)).toEqual([]);
  });
});

/** Reads the files of a store, in which the bytes of all its tables are. */
async function readStoredFiles({ kind, options }: TestStore): Promise<readonly Buffer[]> {
  if (kind === "sqlite") return filesBelow(options.dataDir);
  await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
  await sql`checkpoint`.execute(database.db);
  const { rows } = await sql<{ folder: string }>`select current_setting('data_directory') || '/base/' ||
    (select oid from pg_database where datname = current_database()) as folder`.execute(database.db);
  return [...filesBelow((rows[0] as { folder: string }).folder), ...filesBelow(options.dataDir)];
}

function filesBelow(folder: string): readonly Buffer[] {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return files.flatMap(({ parentPath, name }) => {
    try {
      return readFileSync(join(parentPath, name));
    } catch (thrown) {
      // Postgres renames and removes files of its own.
      if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw thrown;
    }
  });
}

describe.for(STORES)("with %s", (kind) => {
  test("a deleted tenant leaves no bytes in the database's files, later backups, or its successor's lists", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    const markOf = (id: string): string => `remainder-of-${id}`;
    for (const id of ["goes", "stays"]) {
      const tenant = `/v1/tenants/${id}`;
      const mark = markOf(id);
      const send = async (method: string, path: string, body?: object, headers?: { [name: string]: string }) => {
        const reply = await api(method, path, body, headers);
        expect([path, reply.status < 300, reply.body]).toEqual([path, true, expect.anything()]);
        return reply.body;
      };
      const policy = { egress: { allow: [`policy-${mark}.example.com`] } };
      await send("POST", "/v1/tenants", { id, name: `tenant ${mark}`, policy });
      await send("PATCH", tenant, { name: `renamed ${mark}` });
      const source = `export default ({ text }) => { console.log("log ${mark}"); return text; };
        export const description = "description ${mark}";
        export const annotations = { destructiveHint: ${id === "goes"} };`;
      const tool = `tool-${mark}`;
      await send("POST", `${tenant}/tools`, { name: tool, source, approve: true });
      await send("PUT", `${tenant}/tools/${tool}/releases/alias-${mark}`, { versions: [{ version: 1, weight: 1 }] });
      const input = { text: `input ${mark} `.repeat(500) };
      const headers = { "idempotency-key": `idempotency-${mark}` };
      await send("POST", `${tenant}/tools/${tool}/calls`, { input, approve: true, sessionId: `session-${mark}` });
      await send("POST", `${tenant}/tools/${tool}/calls`, { input }, headers);
      await send("POST", `${tenant}/drafts/calls`, { source, input, tool: `draft-${mark}` });
      await send("PUT", `${tenant}/secrets/secret-${mark}`, { value: "a long value", hosts: [`${mark}.example.com`] });
      await send("POST", `${tenant}/keys`, { name: `key ${mark}`, scopes: ["calls:run"] });
      const url = `https://hooks.example.com/webhook-${mark}`;
      const webhook = await send("POST", `${tenant}/webhooks`, { url, events: ["version.waiting_for_approval"] });
      await send("PATCH", `${tenant}/webhooks/${webhook.id}`, { url: `${url}?token=changed` });
      const schedule = { name: `schedule-${mark}`, tool, cron: "0 0 1 1 *", input: { text: `scheduled ${mark}` } };
      await send("POST", `${tenant}/schedules`, schedule);
      await send("POST", `${tenant}/triggers`, { name: `trigger-${mark}`, tool });
      await send("PUT", `${tenant}/kv/${tool}/values/key-${mark}`, { value: `value ${mark}` });
      await send("DELETE", `${tenant}/kv/${tool}/values/key-${mark}`);
      await send("PUT", `${tenant}/kv/${tool}/values/key-${mark}`, { value: `value ${mark}` });
    }
    // Postgres analyzes its tables by itself after a while, and keeps frequent values.
    if (kind === "postgres") {
      await using database = await open(store);
      await sql`analyze`.execute(database.db);
    }
    const remains = async (id: string): Promise<boolean> =>
      (await readStoredFiles(store)).some((bytes) => bytes.includes(markOf(id)));
    expect([await remains("goes"), await remains("stays")]).toEqual([true, true]);
    const deleted = await api("DELETE", "/v1/tenants/goes?rewrite=true");
    expect(deleted.body.receipt).toMatchObject({ areFilesRewritten: true });
    expect([await remains("goes"), await remains("stays")]).toEqual([false, true]);

    await using database = await open(store);
    const file = join(store.options.dataDir, "backup.gz");
    await writeBackup(database, file);
    const backup = gunzipSync(readFileSync(file));
    expect([backup.includes(markOf("goes")), backup.includes(markOf("stays"))]).toEqual([false, true]);

    const { entries } = await listAudit(database.db, { limit: 200 });
    const erased = entries.filter((entry) => entry.erased_by !== null);
    expect(new Set(erased.map(({ tenant_id }) => tenant_id))).toEqual(new Set(["goes"]));
    expect(await verifyAudit(database.db)).toEqual({ brokenAt: undefined, erased: erased.length });
    expect((await api("GET", "/v1/audit/verification")).body).toEqual({
      isIntact: true,
      brokenAt: null,
      erased: erased.length,
    });
    const listed = (await api<{ items: object[] }>("GET", "/v1/audit?limit=200")).body.items;
    expect(listed).toContainEqual(
      expect.objectContaining({ tenantId: "goes", action: "webhook.created", isErased: true, target: "", details: {} }),
    );

    // Without the request, the server's options decide.
    const other = await api("POST", "/v1/tenants", { id: "quick" });
    expect([other.status, (await api("DELETE", "/v1/tenants/quick?rewrite=yes")).status]).toEqual([201, 422]);
    expect((await api("DELETE", "/v1/tenants/quick")).body.receipt).toMatchObject({
      areFilesRewritten: kind === "sqlite",
    });

    // A new tenant with the same id.
    await api("POST", "/v1/tenants", { id: "goes" });
    const own = await api<{ items: { action: string }[] }>("GET", "/v1/tenants/goes/audit");
    expect(own.body.items.map(({ action }) => action)).toEqual(["tenant.created"]);
    const response = await fetch(`${server.url}/v1/tenants/goes/export`, {
      headers: { authorization: `Bearer ${server.adminKey}` },
    });
    const lines = (await response.text()).trim().split("\n");
    const rows = lines.map((line) => JSON.parse(line) as { type: string; action: string });
    const actions = rows.filter(({ type }) => type === "audit").map(({ action }) => action);
    expect(actions).toEqual(["tenant.created", "tenant.exported"]);
  });
});

describe.for(STORES)("a large tenant with %s", (kind) => {
  const CALLS = 1_300;
  const DELIVERIES = 700;

  const toRow = (tenantId: string): WebhooksTable => ({
    id: `webhook-${tenantId}`,
    tenant_id: tenantId,
    url: "https://example.com",
    events: "[]",
    state: "active",
    sealed_secret: Buffer.from("x"),
    created_by: "k",
    created_at: Date.now(),
    updated_at: Date.now(),
  });

  async function fill(store: TestStore, id: string): Promise<readonly string[]> {
    await using database = await open(store);
    const { db } = database;
    await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
    const begun = Date.now() - CALLS;
    const calls = Array.from({ length: CALLS }, (_, index) => endedRow(begun + index, { tenant_id: id }));
    await insertCalls(db, calls);
    const contents = calls
      .slice(0, 400)
      .map((call) => ({ call_id: call.id, tenant_id: id, kind: "output" as const, text: "x" }));
    await db.insertInto("call_contents").values(contents).execute();
    const webhook = await insertWebhook(db, toRow(id));
    const row = await insertTestDelivery(db, { ...toRow(id), id: webhook.id });
    const deliveries = Array.from({ length: DELIVERIES - 1 }, (_, index) => ({ ...row, id: `${row.id}-${index}` }));
    await db.insertInto("deliveries").values(deliveries).execute();
    const kv = new DatabaseKvStore(database, async () => {});
    await db.insertInto("kv_spaces").values({ tenant_id: id, tool: "t", keys: 0, bytes: 0 }).execute();
    const entries = Array.from({ length: CALLS }, (_, index) => ({
      ...{ tenant_id: id, tool: "t", key: Buffer.from(`k${index}`), kind: "json" as const, data: Buffer.from("1") },
      ...{ version: "1", expires_at: null, size: 10 },
    }));
    await db.insertInto("kv_entries").values(entries).execute();
    await db
      .updateTable("kv_spaces")
      .set({ keys: CALLS, bytes: 10 * CALLS })
      .execute();
    expect(await kv.usage({ tenantId: id, tool: "t" })).toEqual({ keys: CALLS, bytes: 10 * CALLS });
    return calls.map((call) => call.id);
  }

  test("is deleted in batches, and the receipt counts all of them", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    await fill(store, "large");
    await using database = await open(store);
    const { db } = database;
    // A statement that deletes more rows than a batch has fails, as one does that takes longer than Postgres allows.
    if (kind === "postgres") {
      await sql`create function limit_batches() returns trigger language plpgsql as $$ begin
        if (select count(*) from gone) > TG_ARGV[0]::int then raise exception 'too many rows in one statement'; end if;
        return null; end $$`.execute(db);
      for (const table of ["calls", "deliveries", "kv_entries"])
        await sql`create trigger limit_batches after delete on ${sql.table(table)} referencing old table as gone
          for each statement execute function limit_batches(500)`.execute(db);
      await sql`create trigger limit_batches after update on audit referencing old table as gone
        for each statement execute function limit_batches(1000)`.execute(db);
    }
    await changeExclusively(database, async (transaction) => {
      const event = { actor: SERVER_ACTOR, tenantId: "large", action: "test", details: {} };
      for (let index = 0; index < 1_500; index += 1) await appendAudit(transaction, { ...event, target: `t${index}` });
    });
    const { status, body } = await apiOf(server)("DELETE", "/v1/tenants/large");
    expect([status, body]).toMatchObject([
      200,
      {
        receipt: {
          rows: { calls: CALLS, call_contents: 400, deliveries: DELIVERIES, webhooks: 1, kv_entries: 0 },
          values: { keys: CALLS, bytes: 10 * CALLS },
        },
      },
    ]);
    for (const table of ["calls", "call_contents", "deliveries", "kv_entries", "kv_spaces", "stored_bytes"] as const)
      expect(await db.selectFrom(table).selectAll().where("tenant_id", "=", "large").execute()).toEqual([]);
    expect(await verifyAudit(db)).toEqual({ brokenAt: undefined, erased: 1_500 });
  });

  test("keeps what a failed attempt has deleted deleted, and is deleted by the next one", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    const ids = await fill(store, "large");
    await using database = await open(store);
    const { db } = database;
    const stop = sql.lit(ids[600] as string);
    if (kind === "postgres") {
      await sql`create function stop_deletion() returns trigger language plpgsql as $$ begin
        raise exception 'stopped'; end $$`.execute(db);
      await sql`create trigger stop_deletion before delete on calls for each row when (old.id = ${stop})
        execute function stop_deletion()`.execute(db);
    } else {
      await sql`create trigger stop_deletion before delete on calls when old.id = ${stop}
        begin select raise(abort, 'stopped'); end`.execute(db);
    }
    expect((await api("DELETE", "/v1/tenants/large")).status).toBe(500);
    const left = async (): Promise<number> => (await db.selectFrom("calls").select("id").execute()).length;
    const remaining = await left();
    expect(remaining).toBeGreaterThan(0);
    expect(remaining).toBeLessThan(CALLS);
    const tenant = await db.selectFrom("tenants").select("state").where("id", "=", "large").executeTakeFirst();
    expect(tenant).toEqual({ state: "deleting" });
    await sql`drop trigger stop_deletion ${kind === "postgres" ? sql`on calls` : sql``}`.execute(db);
    const { status, body } = await api<{ receipt: object }>("DELETE", "/v1/tenants/large");
    expect([status, body.receipt]).toMatchObject([200, { rows: { calls: remaining } }]);
    expect(await left()).toBe(0);
    expect((await verifyAudit(db)).brokenAt).toBeUndefined();
  });
});

test("Postgres rewrites its tables on request", async () => {
  await using store = await stores.create("postgres");
  await using database = await open(store);
  await addBlobs(database, "acme", "MARK", 20);
  const fileOf = async (): Promise<unknown> =>
    (await sql<{ file: string }>`select pg_relation_filepath('blobs') as file`.execute(database.db)).rows[0]?.file;
  const before = await fileOf();
  await eraseDeleted(database, ["blobs"], { vacuumFull: false });
  expect(await fileOf()).toBe(before);
  await eraseDeleted(database, ["blobs", "calls"], { vacuumFull: true });
  expect(await fileOf()).not.toBe(before);
});

describe.for(STORES)("with %s, a database that is opened for reading", (kind) => {
  const tables = async ({ db }: OpenDatabase): Promise<readonly string[]> =>
    (await db.introspection.getTables()).map(({ name }) => name);

  test("is not migrated, and an empty one stays empty", async () => {
    await using store = await stores.create(kind);
    await expect(open(store, { migrates: false })).rejects.toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringContaining("glovebox db migrate"),
    });
    await using database = await open(store);
    const all = await tables(database);
    await sql`delete from kysely_migration where name like '0003%'`.execute(database.db);
    await expect(open(store, { migrates: false })).rejects.toThrow("0003-nested-calls");
    expect(await tables(database)).toEqual(all);
    await sql`insert into kysely_migration (name, timestamp) values ('0003-nested-calls', '0'), ('9999-later', '0')`.execute(
      database.db,
    );
    await expect(open(store, { migrates: false })).rejects.toThrow("later version");
  });

  test("is opened with the current schema", async () => {
    await using store = await stores.create(kind);
    {
      await using database = await open(store);
      await insertTenant(database.db, { id: "acme", name: "a", policy: TenantPolicySchema.parse({}) });
    }
    await using database = await open(store, { migrates: false });
    expect(await database.db.selectFrom("tenants").select("id").execute()).toEqual([{ id: "acme" }]);
  });
});
