// The audit log: every change leaves one record, and a changed or removed record breaks the chain.
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer } from "../../src/server/index.ts";
import { findBrokenAuditRow } from "../../src/server/records/audit.ts";
import { apiOf } from "./support/api.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

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
    expect(await findBrokenAuditRow(db)).toBeUndefined();
    await db.updateTable("audit").set({ actor: "key:other" }).where("sequence", "=", 4).execute();
    expect(await findBrokenAuditRow(db)).toBe(4);
    await db.deleteFrom("audit").where("sequence", "=", 3).execute();
    expect(await findBrokenAuditRow(db)).toBe(4);
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
