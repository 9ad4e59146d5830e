// The audit log: every change leaves one record, and a changed or removed record breaks the chain.
import { createHash } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { type Db, openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { appendAudit, listAudit, SERVER_ACTOR } from "../../src/server/records/audit/audit.ts";
import { eraseAuditTexts, TENANT_DELETED, verifyAudit } from "../../src/server/records/audit/audit-chain.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { eraseFormerTenants } from "../../src/server/tenants/erase-former-tenants.ts";
import { apiOf } from "./support/api.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const brokenAt = async (db: Db): Promise<number | undefined> => (await verifyAudit(db)).brokenAt;

/** Appends an entry as releases before 0011 do. */
async function appendFirstVersion(
  db: Db,
  event: { readonly tenantId: string; readonly action: string },
): Promise<void> {
  const last = await db.selectFrom("audit").selectAll().orderBy("sequence", "desc").limit(1).executeTakeFirst();
  const row = {
    sequence: (last?.sequence ?? 0) + 1,
    at: 1_000,
    actor: "key:key_1",
    tenant_id: event.tenantId,
    action: event.action,
    target: "old",
    ip: "203.0.113.7",
    request_id: "request_1",
    details: '{"name":"old"}',
    previous_hash: last?.hash ?? "0".repeat(64),
  };
  const { previous_hash, details, ip, request_id, ...first } = row;
  const hashed = [...Object.values(first), ip, request_id, details, previous_hash];
  const hash = createHash("sha256").update(JSON.stringify(hashed)).digest("hex");
  await db
    .insertInto("audit")
    .values({ ...row, hash } as never)
    .execute();
}

describe.for(STORES)("with %s", (kind) => {
  test("records changes in a chain that shows what was changed or removed", async () => {
    await using store = await stores.create(kind);
    const { dataDir, database } = store.options;
    const server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    try {
      const api = apiOf(server);
      // At the same time, because the chain must not fork.
      await Promise.all(Array.from({ length: 8 }, (_, index) => api("POST", "/v1/tenants", { id: `t${index}` })));
      const { items } = (await api("GET", "/v1/audit?limit=200")).body as {
        items: { action: string; actor: string }[];
      };
      expect(items.filter(({ action }) => action === "tenant.created").length).toBe(8);
      expect(items.every(({ actor }) => actor === "server" || actor.startsWith("key:key_"))).toBe(true);
      const own = (await api("GET", "/v1/tenants/t3/audit")).body as { items: { tenantId: string }[] };
      expect(own.items.map(({ tenantId }) => tenantId)).toEqual(["t3"]);
    } finally {
      await server.close({ drainMs: 0 });
    }
    await using opened = await openDatabase({ url: database, dataDir, onError() {} });
    const { db } = opened;
    expect(await brokenAt(db)).toBeUndefined();
    await db.updateTable("audit").set({ actor: "key:other" }).where("sequence", "=", 4).execute();
    expect(await brokenAt(db)).toBe(4);
    await db.deleteFrom("audit").where("sequence", "=", 3).execute();
    expect(await brokenAt(db)).toBe(4);
  });

  test("an erasure keeps the chain, hides no change, and cannot be added to", async () => {
    await using store = await stores.create(kind);
    await using opened = await openDatabase({ ...store.options, url: store.options.database, onError() {} });
    const { db } = opened;
    const append = (tenantId: string | null, action: string, details: object = { name: "a name" }) =>
      appendAudit(db, { actor: SERVER_ACTOR, tenantId, action, target: "a target", details: { ...details } });
    for (const id of ["goes", "stays"]) await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
    // As an earlier release writes it: the hash covers all texts.
    await appendFirstVersion(db, { tenantId: "goes", action: "tenant.created" });
    await append("stays", "tool.deployed");
    await append("goes", "tool.deployed");
    await append("goes", "kv.set");
    await append(null, "key.created");
    const erased = await eraseAuditTexts(db, "goes");
    await db.deleteFrom("tenants").where("id", "=", "goes").execute();
    await append("goes", TENANT_DELETED, { erased });
    // A request that has begun before.
    await append("goes", "kv.set");
    expect(erased?.entries).toBe(3);
    expect(await verifyAudit(db)).toEqual({ brokenAt: undefined, erased: 3 });
    const { entries } = await listAudit(db, { limit: 50 });
    expect(entries.map(({ sequence, target, erased_by }) => [sequence, target, erased_by])).toEqual([
      ...[
        [7, "", null],
        [6, "a target", null],
        [5, "a target", null],
        [4, "", 6],
        [3, "", 6],
      ],
      ...[
        [2, "a target", null],
        [1, "", 6],
      ],
    ]);
    const blank = { actor: "", target: "", ip: null, request_id: null, details: "{}", salt: null };
    const changes = [
      // Entries that were not erased, also when they are marked so.
      [2, { details: '{"name":"another"}' }, 2],
      [2, { ...blank, erased_by: 6 }, 2],
      [5, { ...blank, erased_by: 6 }, 5],
      [7, { erased_by: 6 }, 7],
      [6, { details: "{}" }, 6],
      [6, { ...blank, erased_by: 7 }, 1],
      // Erased ones.
      [1, { at: 5 }, 1],
      [1, { action: "tool.deployed" }, 1],
      [1, { hash_version: 3 }, 1],
      [3, { at: 5 }, 3],
      [3, { target: "another" }, 3],
      [4, { ip: "203.0.113.7" }, 4],
      [4, { erased_by: null }, 4],
      [4, { erased_by: 7 }, 1],
      [4, { tenant_id: "stays" }, 4],
    ] as const;
    for (const [sequence, change, broken] of changes) {
      const row = await db.selectFrom("audit").selectAll().where("sequence", "=", sequence).executeTakeFirstOrThrow();
      await db.updateTable("audit").set(change).where("sequence", "=", sequence).execute();
      expect([sequence, change, await brokenAt(db)]).toEqual([sequence, change, broken]);
      await db.updateTable("audit").set(row).where("sequence", "=", sequence).execute();
    }
    expect(await brokenAt(db)).toBeUndefined();
  });

  test("what an earlier release has kept of deleted tenants is erased, and of no other tenant", async () => {
    await using store = await stores.create(kind);
    await using opened = await openDatabase({ ...store.options, url: store.options.database, onError() {} });
    const { db } = opened;
    for (const id of ["again", "stays"]) await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
    for (const [tenantId, action] of [
      ...[
        ["gone", "tenant.created"],
        ["again", "tenant.created"],
        ["stays", "tenant.created"],
      ],
      ...[
        ["gone", TENANT_DELETED],
        ["again", TENANT_DELETED],
        ["again", "tenant.created"],
      ],
    ] as [string, string][])
      await appendFirstVersion(db, { tenantId, action });
    expect(await verifyAudit(db)).toEqual({ brokenAt: undefined, erased: 0 });
    for (let round = 0; round < 2; round += 1) {
      await eraseFormerTenants(opened, { vacuumFull: false });
      expect(await verifyAudit(db)).toEqual({ brokenAt: undefined, erased: 2 });
    }
    const { entries } = await listAudit(db, { limit: 50 });
    const targets = entries.map(({ target }) => target);
    expect(targets.slice(0, 2).sort()).toEqual(["again", "gone"]);
    // The erased ones are the first two.
    expect(targets.slice(2)).toEqual(["old", "old", "old", "old", "", ""]);
    const own = await listAudit(db, { tenantId: "again", limit: 50 });
    expect(own.entries.map(({ action, target }) => [action, target])).toEqual([["tenant.created", "old"]]);
  });

  test("creates an admin key at the first start only, and stores its hash alone", async () => {
    await using store = await stores.create(kind);
    const first = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    await first.close({ drainMs: 0 });
    const second = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    try {
      expect(first.adminKey).toMatch(/^gbx_/);
      expect(second.adminKey).toBeUndefined();
      expect((await apiOf(second, first.adminKey)("GET", "/v1/me")).status).toBe(200);
    } finally {
      await second.close({ drainMs: 0 });
    }
    await using opened = await openDatabase({
      url: store.options.database,
      dataDir: store.options.dataDir,
      onError() {},
    });
    const rows = await opened.db.selectFrom("api_keys").selectAll().execute();
    expect(JSON.stringify(rows)).not.toContain(first.adminKey?.slice(12));
  });
});
