// Files of SQLite that cannot grow, as on a full disk. SQLite ends the transaction by itself then: the cause must reach the operator, and the
// store works again when there is room.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import { SqliteRunStore } from "../../src/host/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { TenantPolicySchema } from "../../src/server/records/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants.ts";

const FULL = "database or disk is full";
const LONG = "x".repeat(1024 * 1024);

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-full-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Calls a function that opens a file of SQLite, and returns what it returns, and the connection. */
async function withConnection<Store>(open: () => Store): Promise<readonly [Awaited<Store>, DatabaseSync]> {
  const exec = vi.spyOn(DatabaseSync.prototype, "exec");
  try {
    const store = await open();
    return [store, exec.mock.contexts[0] as DatabaseSync];
  } finally {
    exec.mockRestore();
  }
}

const setMaxPages = (connection: DatabaseSync, pages: number | undefined): void => {
  const { page_count: count } = connection.prepare("PRAGMA page_count").get() as { readonly page_count: number };
  connection.exec(`PRAGMA max_page_count = ${pages === undefined ? 1_000_000 : count + pages}`);
};

test("a transaction of the server's database fails with the cause, and the next one succeeds when there is room", async () => {
  const dataDir = newFolder();
  const [database, connection] = await withConnection(() => openDatabase({ url: undefined, dataDir, onError() {} }));
  onTestFinished(() => database[Symbol.asyncDispose]());
  const insert = (id: string): Promise<unknown> =>
    database.db
      .transaction()
      .execute((db) => insertTenant(db, { id, name: LONG, policy: TenantPolicySchema.parse({}) }));
  setMaxPages(connection, 2);
  await expect(insert("first")).rejects.toThrow(FULL);
  setMaxPages(connection, undefined);
  await insert("second");
  const rows = await database.db.selectFrom("tenants").select("id").execute();
  expect(rows).toEqual([{ id: "second" }]);
});

test("a run store fails with the cause, and works when there is room", async () => {
  const path = join(newFolder(), "runs.sqlite");
  const [store, connection] = await withConnection(() => new SqliteRunStore({ path }));
  onTestFinished(() => store[Symbol.dispose]());
  const run = { tenantId: "acme", kind: "tool", toolName: "long", toolVersion: undefined, input: LONG } as const;
  const times = { createdAt: 0, expiresAt: 1_000, leaseUntil: 1_000 };
  const create = (id: string): Promise<string> => store.create({ id, ...run, ...times }, 10);
  setMaxPages(connection, 2);
  await expect(create("first")).rejects.toThrow(FULL);
  setMaxPages(connection, undefined);
  expect(await create("second")).toBe("created");
});
