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
import { createServer } from "../../src/server/index.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";

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

test("a server with a full disk answers 503 to what it cannot store or show, and works when there is room", async () => {
  const options = { port: 0, dataDir: newFolder(), logLevel: "silent" } as const;
  const [server, connection] = await withConnection(() => createServer(options));
  onTestFinished(() => server.close({ drainMs: 0 }));
  const api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  const source = "export default ({ text }) => text.length";
  expect((await api("POST", "/v1/tenants/acme/tools", { source, name: "length" })).status).toBe(201);
  const call = (headers = {}) =>
    api<{ id: string }>("POST", "/v1/tenants/acme/tools/length/calls", { input: { text: LONG } }, headers);
  setMaxPages(connection, 2);
  const made = await call();
  expect([made.status, made.body]).toEqual([200, expect.objectContaining({ output: LONG.length })]);
  for (const [reply, code] of [
    [await call({ prefer: "respond-async" }), "UNAVAILABLE"],
    [await api("POST", "/v1/tenants/acme/tools", { source: `${source} // ${LONG}`, name: "other" }), "UNAVAILABLE"],
    // Its record is not stored, so it must not look as if there had been no call.
    [await api("GET", "/v1/tenants/acme/calls"), "OVERLOADED"],
    [await api("GET", `/v1/tenants/acme/calls/${made.body.id}`), "OVERLOADED"],
  ] as const) {
    expect([reply.status, reply.body]).toEqual([503, { error: expect.objectContaining({ code }) }]);
    expect(reply.headers.get("retry-after")).toBe("5");
  }
  const batch = { calls: [{ tool: "length", input: { text: LONG } }] };
  const { body } = await api("POST", "/v1/tenants/acme/calls", batch, { prefer: "respond-async" });
  expect(body).toEqual({
    items: [expect.objectContaining({ state: "rejected", error: expect.objectContaining({ code: "UNAVAILABLE" }) })],
  });
  setMaxPages(connection, undefined);
  await expect
    .poll(async () => (await api("GET", `/v1/tenants/acme/calls/${made.body.id}`)).status, { timeout: 60_000 })
    .toBe(200);
  expect((await call({ prefer: "respond-async" })).status).toBe(202);
});
