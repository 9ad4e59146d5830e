// The values of tools, exports, batches, and backups of the server's database, on both databases.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { DatabaseKvStore } from "../../src/server/kv/database-kv-store.ts";
import { readQueueId } from "../../src/server/records/calls/queued-calls.ts";
import { restoreBackup, writeBackup } from "../../src/server/transfer/backup.ts";
import { checkDatabase } from "../../src/server/transfer/check.ts";
import { readRows, TABLES, type TableRow } from "../../src/server/transfer/table-rows.ts";
import { testKvStore } from "../host/capabilities/kv-store-conformance.ts";
import { apiOf } from "./support/api.ts";
import { collect } from "./support/collect.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const MASTER_KEY = Buffer.alloc(32, 3).toString("base64");
const VALUE = "a-secret-value-of-the-data-test";
const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

for (const kind of STORES) {
  testKvStore(`the key-value store in ${kind}`, async () => {
    const store = await stores.create(kind);
    const database = await openDatabase({ url: store.options.database, dataDir: store.options.dataDir, onError() {} });
    return Object.assign(new DatabaseKvStore(database, async () => {}), {
      [Symbol.asyncDispose]: async () => {
        await database[Symbol.asyncDispose]();
        await store[Symbol.asyncDispose]();
      },
    });
  });
}

interface Spaces {
  readonly items: readonly object[];
  readonly next: string | null;
}

/** Returns the rows of all tables in a form that is the same for each kind of database. */
async function readAll({
  db,
}: Awaited<ReturnType<typeof openDatabase>>): Promise<{ readonly [table: string]: readonly object[] }> {
  const rows: { [table: string]: readonly object[] } = {};
  for (const table of TABLES.filter((name) => name !== "quota_counters"))
    rows[table] = (await collect(readRows(db, table))).map((row: TableRow) =>
      Object.fromEntries(
        Object.entries(row)
          // The time of a key's last use is stored later.
          .filter(([name]) => name !== "last_used_at")
          .map(([name, value]) => [name, value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value]),
      ),
    );
  return rows;
}

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let api: ReturnType<typeof apiOf>;
  let folder: string;
  const tenant = "/v1/tenants/acme";
  const open = (options: TestStore["options"]) =>
    openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "glovebox-data-"));
    store = await stores.create(kind);
    const limits = { ...store.options.limits, kvValueBytes: 4_096 };
    server = await createServer({ ...store.options, limits, port: 0, logLevel: "silent", masterKey: MASTER_KEY });
    api = apiOf(server);
    for (const id of ["acme", "beta"]) await api("POST", "/v1/tenants", { id });
    const source = `export const capabilities = { kv: {} };
      export default async ({ key, value }, ctx) => {
        if (value !== undefined) await ctx.kv.set(key, value);
        return await ctx.kv.get(key);
      }`;
    for (const id of ["acme", "beta"])
      expect((await api("POST", `/v1/tenants/${id}/tools`, { name: "keep", source, approve: true })).status).toBe(201);
    await api("PUT", `${tenant}/secrets/token`, { value: VALUE, hosts: ["api.example.com"] });
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  const call = (input: object, id = "acme") => api("POST", `/v1/tenants/${id}/tools/keep/calls`, { input });

  test("shows, sets and deletes the values of a tool, which the tool sees", async () => {
    await call({ key: "a/1", value: { n: 1 } });
    await call({ key: "a/2", value: "two" });
    await call({ key: "theirs", value: 1 }, "beta");
    expect((await api("GET", `${tenant}/kv`)).body).toMatchObject({ items: [{ tool: "keep", keys: 2 }] });
    const page = await api<{ items: { key: string; value: unknown }[]; next: string | null }>(
      "GET",
      `${tenant}/kv/keep?prefix=a/&limit=1`,
    );
    expect(page.body).toMatchObject({ items: [{ key: "a/1", value: { n: 1 } }], next: "a/1" });
    const set = await api("PUT", `${tenant}/kv/keep/values/a%2F1`, { value: { n: 2 } });
    expect(set.status).toBe(200);
    expect((await call({ key: "a/1" })).body.output).toEqual({ n: 2 });
    const stale = await api("PUT", `${tenant}/kv/keep/values/a%2F1`, { value: 3, ifVersion: "other" });
    expect(stale.status).toBe(409);
    expect((await api("DELETE", `${tenant}/kv/keep/values/a%2F2`)).status).toBe(200);
    expect((await api("GET", `${tenant}/kv/keep/values/a%2F2`)).status).toBe(404);
    expect((await api("GET", `${tenant}/kv/keep/values/theirs`)).status).toBe(404);
  });

  test("exports all values of a tool, and nothing of others", async () => {
    {
      await using database = await open(store.options);
      const kv = new DatabaseKvStore(database, async () => {});
      const data = new Uint8Array([1, 2, 3]);
      const write = { kind: "bytes", data, quota: { keys: 10, bytes: 1_000 } } as const;
      expect(await kv.set({ tenantId: "acme", tool: "tenant/many" }, "bytes", write)).toMatchObject({
        status: "stored",
      });
    }
    // More than one page of the store.
    for (let n = 0; n < 205; n += 1) {
      const path = `${tenant}/kv/many/values/key-${String(n).padStart(4, "0")}`;
      expect((await api("PUT", path, { value: n })).status).toBe(200);
    }
    const acme = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
    const response = await acme.exportValues("many");
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await response.text()).trimEnd().split("\n");
    const values = lines.map((line) => JSON.parse(line) as { type: string; key?: string; value?: unknown });
    expect(values.at(-1)).toEqual({ type: "end", keys: 206 });
    expect(values[0]).toMatchObject({ type: "value", key: "bytes", value: null, base64: "AQID" });
    expect(values.slice(1, -1).map(({ key, value }) => [key, value])).toEqual(
      Array.from({ length: 205 }, (_, n) => [`key-${String(n).padStart(4, "0")}`, n]),
    );
    const foreign = await api<{ key: string }>("POST", "/v1/tenants/beta/keys", { name: "k", scopes: ["kv:read"] });
    const beta = createClient({ url: server.url, key: foreign.body.key }).tenant("acme");
    await expect(beta.exportValues("many")).rejects.toMatchObject({ status: 404 });
    expect(await (await acme.exportValues("none")).text()).toBe('{"type":"end","keys":0}\n');
  });

  test("stores values only for tools, or for those that have kept some, and no empty spaces", async () => {
    const spaces = async () => {
      await using database = await open(store.options);
      const rows = await database.db.selectFrom("kv_spaces").select(["tool"]).where("tenant_id", "=", "acme").execute();
      return rows.map(({ tool }) => tool);
    };
    const source = "export default () => 1";
    const path = `${tenant}/kv/former/values/key`;
    for (const method of ["PUT", "DELETE"])
      expect((await api(method, path, method === "PUT" ? { value: 1 } : undefined)).status).toBe(
        method === "PUT" ? 422 : 404,
      );
    expect(await spaces()).not.toContain("tenant/former");
    expect((await api("POST", `${tenant}/tools`, { name: "former", source })).status).toBe(201);
    expect((await api("PUT", path, { value: 1 })).status).toBe(200);
    expect((await api("DELETE", `${tenant}/tools/former`)).status).toBe(200);
    expect((await api("PUT", path, { value: 2 })).status).toBe(200);
    // The policy of the tenant has no limit, and the server has one.
    const tooLong = await api("PUT", path, { value: "v".repeat(5_000) });
    expect([tooLong.status, JSON.stringify(tooLong.body)]).toEqual([422, expect.stringContaining("4096 bytes")]);
    expect((await api("GET", path)).body.value).toBe(2);
    expect((await api("DELETE", path)).status).toBe(200);
    expect(await spaces()).not.toContain("tenant/former");
    expect((await api("PUT", path, { value: 3 })).status).toBe(422);
  });

  test("lists the tools that keep values by pages", async () => {
    const { body: all } = await api<Spaces>("GET", `${tenant}/kv`);
    expect(all).toMatchObject({ items: [{ tool: "keep" }, { tool: "many", keys: 206 }], next: null });
    const { body: first } = await api<Spaces>("GET", `${tenant}/kv?limit=1`);
    expect(first).toEqual({ items: all.items.slice(0, 1), next: "keep" });
    const { body: second } = await api<Spaces>("GET", `${tenant}/kv?limit=1&cursor=${first.next}`);
    expect(second).toEqual({ items: all.items.slice(1), next: null });
  });

  test("changes no value without an entry in the audit log", async () => {
    const path = `${tenant}/kv/keep/values/audited`;
    expect((await api("PUT", path, { value: 1 })).status).toBe(200);
    {
      await using database = await open(store.options);
      const rename = (from: string, to: string) => database.db.schema.alterTable(from).renameTo(to).execute();
      await rename("audit", "audit_away");
      try {
        expect((await api("PUT", path, { value: 2 })).status).toBe(500);
        expect((await api("DELETE", path)).status).toBe(500);
      } finally {
        await rename("audit_away", "audit");
      }
    }
    expect((await api("GET", path)).body.value).toBe(1);
    const actions = async () => {
      const { body } = await api<{ items: { action: string; target: string }[] }>("GET", `${tenant}/audit?limit=100`);
      return body.items.filter(({ target }) => target === "keep:audited").map(({ action }) => action);
    };
    expect((await api("PUT", path, { value: 3, ifVersion: "other" })).status).toBe(409);
    expect(await actions()).toEqual(["kv.set"]);
    expect((await api("DELETE", path)).status).toBe(200);
    expect((await api("DELETE", path)).status).toBe(404);
    expect(await actions()).toEqual(["kv.deleted", "kv.set"]);
  });

  test("keeps large inputs and outputs apart from the list, and shows them with their call", async () => {
    const source = "export default ({ text, times }) => text.repeat(times ?? 1)";
    await api("POST", `${tenant}/tools`, { name: "large", source });
    const text = "words and ".repeat(5_000);
    const post = (input: object, headers = {}) => api("POST", `${tenant}/tools/large/calls`, { input }, headers);
    const now = await post({ text });
    expect([now.status, now.body.output, now.body.omitted]).toEqual([200, text, []]);
    const key = { "idempotency-key": "large-1" };
    const first = await post({ text }, key);
    expect((await post({ text }, key)).body).toMatchObject({ id: first.body.id, output: text, omitted: [] });
    const queued = await post({ text }, { prefer: "respond-async" });
    const stored = (id: unknown) => api("GET", `${tenant}/calls/${id}`);
    await expect.poll(async () => (await stored(queued.body.id)).body.state).toBe("succeeded");
    for (const id of [now.body.id, first.body.id, queued.body.id])
      expect((await stored(id)).body).toMatchObject({ input: { text }, output: text, omitted: [] });
    const { body } = await api<{ items: { input: unknown; output: unknown; omitted: string[] }[] }>(
      "GET",
      `${tenant}/calls?tool=large`,
    );
    expect(body.items.map(({ input, output, omitted }) => [input, output, omitted])).toEqual(
      Array.from({ length: 3 }, () => [null, null, ["input", "output"]]),
    );
  });

  test("returns and keeps the content parts of an output, with bytes as base64 and without secrets", async () => {
    const source = `import { audio, content, image, text } from "glovebox/tool";
      export default ({ size }) => content([
        text("password: hunter2hunter2"), image(new Uint8Array(size).fill(7), "image/png"), audio(new Uint8Array([1, 2]), "audio/wav"),
      ], { done: true });`;
    expect((await api("POST", `${tenant}/tools`, { name: "draws", source })).status).toBe(201);
    interface Parts {
      readonly id: string;
      readonly output: unknown;
      readonly content: readonly object[];
    }
    const { body: call } = await api<Parts>("POST", `${tenant}/tools/draws/calls`, { input: { size: 3 } });
    expect(call).toMatchObject({
      output: { done: true },
      content: [
        { type: "text", text: "password: hunter2hunter2" },
        { type: "image", data: "BwcH", mimeType: "image/png" },
        { type: "audio", data: "AQI=", mimeType: "audio/wav" },
      ],
    });
    const { body: stored } = await api<Parts>("GET", `${tenant}/calls/${call.id}`);
    expect(stored.content.slice(1)).toEqual(call.content.slice(1));
    expect(JSON.stringify(stored)).not.toContain("hunter2hunter2");
    // Also of a queued call. Bytes above the limit of what is stored are left out.
    const queued = await api<Parts>(
      ...([
        "POST",
        `${tenant}/tools/draws/calls`,
        { input: { size: 3_500_000 } },
        { prefer: "respond-async" },
      ] as const),
    );
    await expect
      .poll(async () => (await api<Parts>("GET", `${tenant}/calls/${queued.body.id}`)).body.content?.[1])
      .toEqual({ type: "image", mimeType: "image/png", isOmitted: true });
    const list = await api<{ items: Parts[] }>("GET", `${tenant}/calls?tool=draws`);
    expect(list.body.items.map(({ content }) => content)).toEqual([undefined, undefined]);
  });

  test("makes a batch of calls, and returns each with its own state", async () => {
    const { status, body } = await api<{ items: { state: string; output: unknown; tool: string }[] }>(
      "POST",
      `${tenant}/calls`,
      {
        calls: [
          { tool: "keep", input: { key: "b", value: 1 } },
          { tool: "none" },
          { tool: "keep", input: { key: "b" } },
        ],
      },
    );
    expect(status).toBe(200);
    expect(body.items.map(({ tool, state }) => [tool, state])).toEqual([
      ["keep", "succeeded"],
      ["none", "failed"],
      ["keep", "succeeded"],
    ]);
    const later = await api<{ items: { id: string }[] }>(
      "POST",
      `${tenant}/calls`,
      { calls: [{ tool: "keep", input: { key: "b" }, idempotencyKey: "once" }] },
      { prefer: "respond-async" },
    );
    expect(later.status).toBe(202);
    const again = await api<{ items: { id: string }[] }>(
      "POST",
      `${tenant}/calls`,
      {
        calls: [{ tool: "keep", input: { key: "b" }, idempotencyKey: "once" }],
      },
      { prefer: "respond-async" },
    );
    expect(again.body.items[0]?.id).toBe(later.body.items[0]?.id);
    const twice = { tool: "keep", idempotencyKey: "same" };
    expect((await api("POST", `${tenant}/calls`, { calls: [twice, twice] })).status).toBe(422);
    expect((await api("POST", `${tenant}/calls`, { calls: [] })).status).toBe(422);
  });

  test("exports everything of a tenant, and nothing of another, without secrets", async () => {
    // A delivery that has failed: its error is text, where a call's is JSON.
    const webhook = { url: "http://hooks.invalid/hook", events: ["call.failed"] };
    const { id } = (await api<{ readonly id: string }>("POST", `${tenant}/webhooks`, webhook)).body;
    expect((await api("POST", `${tenant}/webhooks/${id}/test`)).status).toBe(202);
    const deliveries = `${tenant}/webhooks/${id}/deliveries`;
    const errorOf = async () =>
      (await api<{ readonly items: readonly { readonly error: string | null }[] }>("GET", deliveries)).body.items[0]
        ?.error;
    await expect.poll(errorOf).toEqual(expect.any(String));
    const error = await errorOf();
    const response = await fetch(`${server.url}${tenant}/export`, {
      headers: { authorization: `Bearer ${server.adminKey}` },
    });
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const text = await response.text();
    const lines = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { type: string; [name: string]: unknown });
    const end = lines.at(-1) as unknown as { type: string; counts: Record<string, number> };
    expect(end.type).toBe("end");
    for (const [type, count] of Object.entries(end.counts))
      expect([type, lines.filter((line) => line.type === type).length]).toEqual([type, count]);
    const types = new Set(lines.map(({ type }) => type));
    for (const type of ["tenants", "tool_versions", "blobs", "secrets", "calls", "usage", "audit", "kv_entries"])
      expect(types).toContain(type);
    expect(lines.find(({ type }) => type === "calls")).toMatchObject({ input: expect.any(Object) });
    expect(lines.find(({ type }) => type === "deliveries")).toMatchObject({ error, body: { type: "webhook.test" } });
    expect(text).not.toContain("beta");
    expect(text).not.toContain(VALUE);
    expect(text).not.toContain("sealed");
  });

  test("a backup is restored into a database of either kind, and runs there", async () => {
    const file = join(folder, "backup.gz");
    let rows: object = {};
    {
      await using database = await open(store.options);
      // The calls of earlier tests have ended: what they store later is not in the backup.
      await vi.waitFor(async () => {
        const open = database.db.selectFrom("calls").select("id").where("state", "in", ["queued", "running"]);
        expect(await open.execute()).toEqual([]);
      });
      // Webhooks go on while the backup is written: it is compared with rows that did not change meanwhile.
      for (let before: unknown; !isDeepStrictEqual(before, rows); ) {
        before = await readAll(database);
        const counts = await writeBackup(database, file);
        expect(counts.tenants).toBe(2);
        rows = await readAll(database);
      }
    }
    expect(gunzipSync(readFileSync(file)).includes(VALUE)).toBe(false);
    for (const other of STORES) {
      const target = await stores.create(other);
      {
        await using database = await open(target.options);
        await restoreBackup(database, file);
        expect((await checkDatabase(database)).problems).toEqual([]);
        await expect(restoreBackup(database, file)).rejects.toThrow("The database is not empty");
        expect(await readAll(database)).toEqual(rows);
      }
      await using restored = await createServer({
        ...target.options,
        port: 0,
        logLevel: "silent",
        masterKey: MASTER_KEY,
      });
      expect(restored.adminKey).toBeUndefined();
      const onRestored = apiOf(restored, server.adminKey);
      const { body } = await onRestored("POST", `${tenant}/tools/keep/calls`, { input: { key: "a/1" } });
      expect(body.output).toEqual({ n: 2 });
      await target[Symbol.asyncDispose]();
    }
  });

  test("a restored copy does not take calls from the work queue of the original", async () => {
    const [original, copy] = [await stores.create(kind), await stores.create(kind)];
    const file = join(folder, "queue.gz");
    await using from = await open(original.options);
    const queueId = await readQueueId(from.db);
    await writeBackup(from, file);
    await using to = await open(copy.options);
    await restoreBackup(to, file);
    expect(await readQueueId(to.db)).not.toBe(queueId);
    expect(await readQueueId(from.db)).toBe(queueId);
  });

  test("rejects a backup of an earlier schema, whose rows the migrations since then have not changed", async () => {
    const text = gunzipSync(readFileSync(join(folder, "backup.gz"))).toString();
    const file = join(folder, "earlier.gz");
    writeFileSync(file, gzipSync(text.replace(/,"\d{4}-[a-z-]+"\]/, "]")));
    const target = await stores.create(kind);
    await using database = await open(target.options);
    await expect(restoreBackup(database, file)).rejects.toThrow(
      /made by an earlier version \(without \d{4}-.*Restore it with that version/,
    );
  });

  test("rejects a backup that is damaged, cut off or of another program, and changes nothing", async () => {
    const file = join(folder, "backup.gz");
    const text = gunzipSync(readFileSync(file)).toString();
    const lines = text.trimEnd().split("\n");
    const zipped = readFileSync(file);
    const damaged: readonly (readonly [string, Buffer])[] = [
      ["cut", zipped.subarray(0, zipped.length / 2)],
      ["hardly begun", zipped.subarray(0, 12)],
      ["plain", Buffer.from(text)],
      ["no end", gzipSync(`${lines.slice(0, -1).join("\n")}\n`)],
      ["changed", gzipSync(text.replace('"acme"', '"amce"'))],
      ["more", gzipSync(`${text}${lines[1]}\n`)],
      ["without a row", gzipSync(`${[...lines.slice(0, 2), ...lines.slice(3)].join("\n")}\n`)],
      ["other", gzipSync('{"format":"other"}\n')],
      ["later", gzipSync(text.replace('"0002-operations"', '"0099-later"'))],
      ["empty", gzipSync("")],
      ["a table", gzipSync(`${lines[0]}\n{"table":"kysely_migration","row":{}}\n`)],
    ];
    const target = await stores.create(kind);
    await using database = await open(target.options);
    for (const [name, bytes] of damaged) {
      const path = join(folder, "damaged.gz");
      writeFileSync(path, bytes);
      const error = await restoreBackup(database, path).then(
        () => undefined,
        (thrown: Error) => thrown,
      );
      expect([name, error?.message]).toEqual([name, expect.any(String)]);
      for (const table of TABLES)
        expect([name, table, await collect(readRows(database.db, table))]).toEqual([name, table, []]);
    }
  });

  test("finds what was changed in the database by hand", async () => {
    const target = await stores.create(kind);
    {
      await using database = await open(target.options);
      await restoreBackup(database, join(folder, "backup.gz"));
      await database.db.updateTable("audit").set({ target: "someone else" }).where("sequence", "=", 2).execute();
      await database.db.deleteFrom("blobs").execute();
      const { problems } = await checkDatabase(database);
      expect(problems).toContain("The audit log was changed: entry 2 does not match its hash or the entry before it");
      expect(problems).toContain("The bundle of acme/keep@1 is missing");
    }
    await target[Symbol.asyncDispose]();
  });
});
