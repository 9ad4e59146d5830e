// Queued calls while the database fails: before a call has begun, it goes back to the queue; afterwards, its outcome is stored later. Each runs
// once. On both databases.
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ToolResult } from "../../src/host/index.ts";
import { toFailedResult } from "../../src/server/calls/call-results.ts";
import { toOutcome } from "../../src/server/calls/outcome.ts";
import { CallQueue, type CallQueueDependencies } from "../../src/server/calls/queue/call-queue.ts";
import { RetryTimes } from "../../src/server/calls/queue/retries.ts";
import { CallJournal } from "../../src/server/calls/running/call-journal.ts";
import { type Db, type OpenDatabase, openDatabase } from "../../src/server/database/open-database.ts";
import { toErrorResponse, toUnavailable } from "../../src/server/http/error-response.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { claimCalls, renewLeases } from "../../src/server/records/calls/call-claims.ts";
import { requestCancel } from "../../src/server/records/calls/call-outcomes.ts";
import { type CallRow, findCall, insertCalls } from "../../src/server/records/calls/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type StoreKind, type TestStore, TestStores } from "./support/stores.ts";
import { openTcpProxy } from "./support/tcp-proxy.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const patiently = { timeout: 120_000, interval: 100 };

const queuedRow = (more: Partial<CallRow> = {}): CallRow =>
  endedRow(Date.now(), {
    state: "queued",
    mode: "async",
    effects: "none",
    tool_version: null,
    output: null,
    started_at: null,
    ended_at: null,
    run_at: 0,
    attempts: 0,
    ...more,
  });

const openStore = async ({ options }: TestStore): Promise<OpenDatabase> =>
  await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });

async function open(kind: StoreKind): Promise<AsyncDisposable & { readonly database: OpenDatabase; readonly db: Db }> {
  const store = await stores.create(kind);
  const database = await openStore(store);
  await insertTenant(database.db, { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) });
  return {
    database,
    db: database.db,
    [Symbol.asyncDispose]: async () => {
      await database[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

const rename = async (db: Db, from: string, to: string): Promise<void> => {
  await sql`alter table ${sql.ref(from)} rename to ${sql.ref(to)}`.execute(db);
};

const policy = TenantPolicySchema.parse({});
const notBegun = (row: CallRow): ToolResult => toFailedResult(row, new Error("The database is away"), () => {});
const succeeded = ({ id }: CallRow): ToolResult =>
  ({ callId: id, success: true, output: 1, logs: [], usage: {}, durationMs: 0 }) as unknown as ToolResult;

function makeQueue(
  { db, kind }: OpenDatabase,
  dependencies: Pick<CallQueueDependencies, "run"> & Partial<CallQueueDependencies>,
): CallQueue {
  return new CallQueue({
    db,
    kind,
    onError() {},
    isIdempotent: async () => false,
    toStored: async (_, result) => ({ outcome: toOutcome(result, {}, policy) }),
    ...dependencies,
  });
}

describe.for(STORES)("with %s", (kind) => {
  describe("a server without one of its tables", () => {
    let store: TestStore;
    let server: Server;
    let database: OpenDatabase;
    beforeAll(async () => {
      store = await stores.create(kind);
      server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
      database = await openStore(store);
    });
    afterAll(async () => {
      await database[Symbol.asyncDispose]();
      await server.close({ drainMs: 0 });
      await store[Symbol.asyncDispose]();
    });

    test.for(["tenants", "secrets", "api_keys", "releases", "blobs", "quota_counters"])(
      "a call that cannot begin without the table %s waits until it is back, and runs once",
      async (table) => {
        const { db } = database;
        const api = apiOf(server);
        // The server has read nothing of this tenant's key, release and code before.
        const tenant = `without-${table.replace("_", "-")}`;
        const path = `/v1/tenants/${tenant}`;
        await api("POST", "/v1/tenants", { id: tenant, policy: { quotas: { calls: { day: 100 } } } });
        const source = `export default () => { console.log('ran'); return 1; } // ${table}`;
        expect((await api("POST", `${path}/tools`, { name: "common", source })).status).toBe(201);
        const key = await api<{ id: string }>("POST", `${path}/keys`, { name: "k", scopes: ["calls:run"] });
        // So that the policy is looked up again.
        await api("PATCH", path, { name: "Acme" });
        await rename(db, table, "away");
        const row = queuedRow({ key_id: key.body.id, tenant_id: tenant });
        await insertCalls(db, [row]);
        const read = () => findCall(db, tenant, row.id);
        // Each claim and each return to the queue counts one.
        await expect.poll(async () => (await read())?.fence ?? 0, patiently).toBeGreaterThan(4);
        expect(await read()).toMatchObject({ ended_at: null, error: null });
        await rename(db, "away", table);
        await expect
          .poll(read, patiently)
          .toMatchObject({ state: "succeeded", effects: "complete", attempts: 1, output: "1" });
        const { logs } = (await read()) as CallRow;
        expect(JSON.parse(logs ?? "[]")).toHaveLength(1);
      },
    );

    test("a call with an idempotency key that ends while the database is away returns its output, and keeps it", async () => {
      const { db } = database;
      const api = apiOf(server);
      expect((await api("POST", "/v1/tenants", { id: "keyed" })).status).toBe(201);
      const source = `export const capabilities = { kv: true };
        export const limits = { timeoutMs: 120_000 };
        export default async (_, { kv }) => {
          await kv.set("began", true);
          while ((await kv.get("go")) !== true) await new Promise((resolve) => setTimeout(resolve, 20));
          return "done";
        };`;
      const deployed = await api("POST", "/v1/tenants/keyed/tools", { name: "waits", source, approve: true });
      expect(deployed.status).toBe(201);
      const values = "/v1/tenants/keyed/kv/waits/values";
      const send = () => api("POST", "/v1/tenants/keyed/tools/waits/calls", {}, { "idempotency-key": "k" });
      const answer = send();
      await expect.poll(async () => (await api("GET", `${values}/began`)).status, patiently).toBe(200);
      await rename(db, "calls", "away");
      expect((await api("PUT", `${values}/go`, { value: true })).status).toBe(200);
      await sleep(2_000);
      await rename(db, "away", "calls");
      const { status, body } = await answer;
      expect([status, body]).toMatchObject([200, { state: "succeeded", output: "done" }]);
      expect(await findCall(db, "keyed", String(body.id))).toMatchObject({ state: "succeeded", lease_until: null });
      expect((await send()).body).toMatchObject({ id: body.id, output: "done" });
    });
  });

  test("the outcome of a call that has run is stored when the database takes it again", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const row = queuedRow();
    await insertCalls(db, [row]);
    let runs = 0;
    let tries = 0;
    const queue = makeQueue(database, {
      run: async () => {
        runs += 1;
        return succeeded(row);
      },
      toStored: async (_, result) => {
        tries += 1;
        if (tries < 4) throw new Error("The database is away");
        return { outcome: toOutcome(result, {}, policy) };
      },
    });
    queue.start();
    await expect.poll(async () => (await findCall(db, "acme", row.id))?.state, patiently).toBe("succeeded");
    await queue[Symbol.asyncDispose]();
    expect([runs, tries]).toEqual([1, 4]);
  });

  test("a call that is cancelled while it cannot begin ends, and has no effects", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const row = queuedRow();
    await insertCalls(db, [row]);
    const queue = makeQueue(database, {
      run: async () => {
        // Another server process takes the request to cancel it.
        await requestCancel(db, "acme", row.id);
        return notBegun(row);
      },
    });
    queue.start();
    await expect
      .poll(async () => await findCall(db, "acme", row.id), patiently)
      .toMatchObject({ state: "cancelled", effects: "none", error: expect.stringContaining("before it ran") });
    await queue[Symbol.asyncDispose]();
  });

  test("calls of a server that stops before they begin are left to the next one", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const rows = [queuedRow(), queuedRow()];
    await insertCalls(db, rows);
    const begun = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    const first = makeQueue(database, {
      run: async (row) => {
        begun.resolve();
        await closed.promise;
        return notBegun(row);
      },
    });
    first.start();
    await begun.promise;
    const drained = first.drain();
    closed.resolve();
    await drained;
    await first[Symbol.asyncDispose]();
    const states = async () =>
      (await Promise.all(rows.map(({ id }) => findCall(db, "acme", id)))).map((row) => row?.state);
    expect(await states()).toEqual(["queued", "queued"]);
    const second = makeQueue(database, { run: async (row) => succeeded(row) });
    second.start();
    await expect.poll(states, patiently).toEqual(["succeeded", "succeeded"]);
    await second[Symbol.asyncDispose]();
  });

  test("extends the leases of calls that the process knows, and of no others", async () => {
    await using opened = await open(kind);
    const { db, database } = opened;
    const rows = [queuedRow(), queuedRow()];
    await insertCalls(db, rows);
    const claimed = await claimCalls(database, 2, { owner: "a", until: 1_000 });
    const [known, lost] = claimed as [CallRow, CallRow];
    await renewLeases(db, [known.id], { owner: "a", until: 2_000 });
    const untilOf = async ({ id }: CallRow) => (await findCall(db, "acme", id))?.lease_until;
    expect([await untilOf(known), await untilOf(lost)]).toEqual([2_000, 1_000]);
  });

  test("the journal writes its records when the database takes them again", async () => {
    await using opened = await open(kind);
    const { db } = opened;
    const errors: unknown[] = [];
    let tries = 0;
    const counted = new Proxy(db, {
      get: (target, name) => {
        if (name === "transaction") tries += 1;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    await rename(db, "calls", "away");
    const journal = new CallJournal(counted, (error) => errors.push(error));
    const rows = [endedRow(Date.now()), endedRow(Date.now())];
    for (const row of rows) void journal.add({ row });
    await expect.poll(() => tries, patiently).toBeGreaterThan(3);
    await rename(db, "away", "calls");
    await journal[Symbol.asyncDispose]();
    expect(errors).toEqual([]);
    expect(await Promise.all(rows.map(async ({ id }) => (await findCall(db, "acme", id))?.state))).toEqual([
      "succeeded",
      "succeeded",
    ]);
  });
});

test("a call that cannot begin is tried again after growing times, and its failure counts in the end", () => {
  const times = new RetryTimes();
  const row = queuedRow();
  const failure = notBegun(row) as Extract<ToolResult, { success: false }>;
  const delays: number[] = [];
  let now = 1_000_000;
  for (let at = times.next(row, failure, now); at !== undefined; at = times.next(row, failure, now)) {
    delays.push(at - now);
    now = at;
  }
  expect(delays[0]).toBeGreaterThanOrEqual(250);
  expect(Math.max(...delays)).toBeLessThanOrEqual(37_500);
  expect(now - 1_000_000).toBeGreaterThan(15 * 60_000);
  expect(delays.length).toBeGreaterThan(20);
  // A call that has its result begins from the start if it is ever seen again.
  expect(times.next(row, failure, now)).toBeLessThan(now + 400);
});

test("a server starts although Postgres ends its connections, at any moment of the start", async () => {
  const options = { port: 0, logLevel: "silent" } as const;
  // The first start creates the schema.
  for (const isFirst of [true, false]) {
    await using store = await stores.create("postgres");
    const url = new URL(store.options.database ?? "");
    await using proxy = await openTcpProxy(Number(url.port));
    if (!isFirst) await (await createServer({ ...store.options, ...options })).close({ drainMs: 0 });
    url.port = String(proxy.port);
    let adminKeys = 0;
    for (let pieces = 1, wasCut = true; wasCut; pieces *= 2) {
      proxy.cutAfter(pieces);
      await using server = await createServer({ ...store.options, ...options, database: url.href });
      wasCut = proxy.left === 0;
      proxy.cutAfter(0);
      if (server.adminKey !== undefined) adminKeys += 1;
      expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
      await server.close({ drainMs: 0 });
    }
    // It is shown once, also if the connection was lost while it was stored.
    expect(adminKeys).toBe(isFirst ? 1 : 0);
  }
});

test("requests that meet lost connections to Postgres are answered with 503, and say when to repeat what has no effect", async () => {
  await using store = await stores.create("postgres");
  const url = new URL(store.options.database ?? "");
  await using proxy = await openTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  await using server = await createServer({ ...store.options, database: url.href, port: 0, logLevel: "silent" });
  const api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  proxy.cut();
  // The connections of the pool break at the first use, and new ones are refused.
  for (let attempt = 0; attempt < 3; attempt += 1) {
    for (const [method, path, body] of [
      ["GET", "/v1/tenants"],
      ["POST", "/v1/tenants/acme/tools/none/calls", {}],
    ] as const) {
      const { status, headers, body: answer } = await api(method, path, body);
      expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
      expect(answer).toMatchObject({
        error: { code: "UNAVAILABLE", message: expect.stringMatching(/^The database cannot be used now/) },
      });
    }
  }
  proxy.restore();
  await expect.poll(async () => (await api("GET", "/v1/tenants")).status, patiently).toBe(200);
});

test("a request that may have had its effect when the database was lost does not say when to repeat it", () => {
  const { status, headers, body } = toErrorResponse(toUnavailable("request_1", true), "request_1");
  expect([status, headers, body.error.code]).toEqual([503, {}, "UNAVAILABLE"]);
  expect(body.error.message).toMatch(/may have had its effect/);
});

test("calls survive cut connections to Postgres: each succeeds and runs once", async () => {
  await using store = await stores.create("postgres");
  const url = new URL(store.options.database ?? "");
  await using proxy = await openTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  const runs = new Map<string, number>();
  const counter = createHttpServer((request, response) => {
    const id = (request.url ?? "").slice(1);
    runs.set(id, (runs.get(id) ?? 0) + 1);
    response.end("ok");
  });
  await new Promise<void>((resolve) => counter.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(counter.address() as AddressInfo).port}`;
  await using server = await createServer({ ...store.options, database: url.href, port: 0, logLevel: "silent" });
  const api = apiOf(server);
  const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
  await api("POST", "/v1/tenants", { id: "acme", policy: { egress, limits: { maxQueuedCalls: 1_000 } } });
  const source = `export const capabilities = { fetch: true };
    export default async ({ n }) => { await fetch("${origin}/" + n); return n; }`;
  await api("POST", "/v1/tenants/acme/tools", { name: "common", source, approve: true });
  await using database = await openStore(store);
  const calls = 60;
  const key = (await database.db.selectFrom("api_keys").select("id").executeTakeFirstOrThrow()).id;
  const rows = Array.from({ length: calls }, (_, n) => queuedRow({ input: JSON.stringify({ n }), key_id: key }));
  await insertCalls(database.db, rows);
  for (const share of [0.1, 0.4, 0.7]) {
    // Looks often, so that calls run when the connections are cut.
    await expect.poll(() => runs.size, { ...patiently, interval: 10 }).toBeGreaterThan(calls * share);
    proxy.cut();
    await expect.poll(() => proxy.refused, patiently).toBeGreaterThan(5);
    proxy.restore();
  }
  await expect
    .poll(
      async () => await database.db.selectFrom("calls").select("id").where("ended_at", "is", null).execute(),
      patiently,
    )
    .toEqual([]);
  const ended = await database.db.selectFrom("calls").selectAll().execute();
  expect(ended.filter(({ state }) => state !== "succeeded").map(({ error }) => error)).toEqual([]);
  expect([runs.size, Math.max(...runs.values())]).toEqual([calls, 1]);
  counter.close();
});
