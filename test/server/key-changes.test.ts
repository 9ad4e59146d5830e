// Changes of the limits of a key: what they replace, who may make them, and when they apply, on both databases and over two replicas.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { apiOf } from "./support/api.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Key {
  readonly id: string;
  readonly key: string;
  readonly limits: object | null;
}
interface Denied {
  readonly error?: { readonly code: string; readonly message: string };
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const KEYS = "/v1/tenants/acme/keys";
const CALLS = "/v1/tenants/acme/tools/one/calls";
const SLOW = "/v1/tenants/acme/tools/slow/calls";
const SCOPES = ["calls:run", "calls:read", "keys:write", "keys:read"];

async function deploy(api: Api): Promise<void> {
  const slow = "export default async () => { await new Promise((done) => setTimeout(done, 600_000)); };";
  for (const [name, source] of [
    ["one", "export default () => 1;"],
    ["slow", slow],
  ])
    expect((await api("POST", "/v1/tenants/acme/tools", { name, source, approve: true })).status).toBe(201);
  // Calls wait for what the test does next.
  const policy = { limits: { queueMs: 120_000, timeoutMs: 300_000 } };
  expect((await api("PATCH", "/v1/tenants/acme", { policy })).status).toBe(200);
}

async function createKey(api: Api, limits: object = {}): Promise<Key> {
  const { status, body } = await api<Key>("POST", KEYS, { name: "limited", scopes: SCOPES, ...limits });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

async function change(api: Api, { id }: Key, changes: object): Promise<Key> {
  const { status, body } = await api<Key>("PATCH", `${KEYS}/${id}`, changes);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

async function usedBy(api: Api, { id }: Key): Promise<{ readonly running: number; readonly waiting: number }> {
  const { body } = await api<{ use: { concurrency: { used: number }; waiting: { used: number } } }>(
    "GET",
    `${KEYS}/${id}`,
  );
  return { running: body.use.concurrency.used, waiting: body.use.waiting.used };
}

/** Cancels the slow calls that run in a server. */
async function cancelSlow(api: Api): Promise<void> {
  const { body } = await api<{ items: { id: string; tool: string }[] }>("GET", "/v1/tenants/acme/running-calls");
  for (const { id, tool } of body.items) if (tool === "slow") await api("POST", `/v1/tenants/acme/calls/${id}/cancel`);
}

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme", "beta"]);
  const { api } = under;
  const as = ({ key }: Pick<Key, "key">): Api => apiOf(under.server, key);
  beforeAll(() => deploy(api));

  test("replaces what is given, removes what is null, and keeps what is left out", async () => {
    const key = await createKey(api, {
      rateLimit: { calls: 5, per: "minute" },
      quotas: { calls: { month: 9, day: 5 } },
      maxAsyncCalls: 3,
    });
    const changed = await change(api, key, { quotas: { calls: { day: 7 } }, maxAsyncCalls: null });
    expect(changed).toMatchObject({
      id: key.id,
      rateLimit: { calls: 5, per: "minute" },
      limits: null,
      maxAsyncCalls: null,
      quotas: { calls: { day: 7 } },
    });
    expect(changed).not.toHaveProperty("key");
    expect((await api<{ quotas: object }>("GET", `${KEYS}/${key.id}`)).body.quotas).toEqual({ calls: { day: 7 } });
    const { body } = await api<{ items: readonly object[] }>("GET", "/v1/tenants/acme/audit?limit=5");
    expect(body.items).toContainEqual(
      expect.objectContaining({
        action: "key.changed",
        target: key.id,
        details: { rateLimit: { calls: 5, per: "minute" }, quotas: { calls: { day: 7 } } },
      }),
    );
  });

  test("rejects a change of nothing, and unknown limits", async () => {
    const key = await createKey(api);
    for (const body of [{}, { name: "other" }, { limits: { timeoutMs: 5 } }, { rateLimit: { calls: 0, per: "day" } }])
      expect((await api("PATCH", `${KEYS}/${key.id}`, body)).status).toBe(422);
  });

  test("a changed rate applies to the next request", async () => {
    const key = await createKey(api);
    await change(api, key, { rateLimit: { calls: 1, per: "minute" } });
    expect((await as(key)("GET", KEYS)).status).toBe(200);
    expect((await as(key)("GET", KEYS)).status).toBe(429);
    await change(api, key, { rateLimit: null });
    expect((await as(key)("GET", KEYS)).status).toBe(200);
  });

  test("a raised quota allows calls again, and a lowered one denies them", async () => {
    const key = await createKey(api, { quotas: { calls: { month: 1 } } });
    expect((await as(key)("POST", CALLS, {})).status).toBe(200);
    expect((await as(key)("POST", CALLS, {})).status).toBe(429);
    await change(api, key, { quotas: { calls: { month: 2 } } });
    expect((await as(key)("POST", CALLS, {})).status).toBe(200);
    await change(api, key, { quotas: null });
    expect((await as(key)("POST", CALLS, {})).status).toBe(200);
    await change(api, key, { quotas: { calls: { month: 2 } } });
    expect((await as(key)("POST", CALLS, {})).status).toBe(429);
  });

  test.for([
    ["a raised limit", { limits: { maxConcurrentCalls: 2 } }],
    ["no limit any more", { limits: null }],
  ] as const)("%s lets a call that waits run", async ([, changes]) => {
    const key = await createKey(api, { limits: { maxConcurrentCalls: 1 } });
    const running = as(key)("POST", SLOW, {});
    await expect.poll(() => usedBy(api, key)).toEqual({ running: 1, waiting: 0 });
    const waiting = as(key)("POST", CALLS, {});
    await expect.poll(() => usedBy(api, key)).toEqual({ running: 1, waiting: 1 });
    await change(api, key, changes);
    expect((await waiting).status).toBe(200);
    await cancelSlow(api);
    await running;
  });

  test("a lowered limit lets running calls go on, and applies to the next ones", async () => {
    const key = await createKey(api, { limits: { maxConcurrentCalls: 2, maxQueuedCalls: 0 } });
    const running = [as(key)("POST", SLOW, {}), as(key)("POST", SLOW, {})];
    await expect.poll(() => usedBy(api, key)).toEqual({ running: 2, waiting: 0 });
    await change(api, key, { limits: { maxConcurrentCalls: 1, maxQueuedCalls: 0 } });
    expect((await as(key)("POST", CALLS, {})).status).toBe(429);
    await cancelSlow(api);
    await Promise.all(running);
    await expect.poll(async () => (await as(key)("POST", CALLS, {})).status).toBe(200);
    await change(api, key, { limits: { maxConcurrentCalls: 3 } });
    expect((await as(key)("POST", CALLS, {})).status).toBe(200);
  });

  test("a key that was revoked, has expired, does not exist or belongs to another tenant does not change", async () => {
    const [revoked, expired, others] = [await createKey(api), await createKey(api), await createKey(api)];
    expect((await api("DELETE", `${KEYS}/${revoked.id}`)).status).toBe(200);
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const { db } = database;
    await db.updateTable("api_keys").set({ expires_at: 1 }).where("id", "=", expired.id).execute();
    const send = async (path: string) => {
      const { status, body } = await api<Denied>("PATCH", path, { maxAsyncCalls: 1 });
      return [status, body.error?.code];
    };
    expect(await send(`${KEYS}/${revoked.id}`)).toEqual([409, "CONFLICT"]);
    expect(await send(`${KEYS}/${expired.id}`)).toEqual([409, "CONFLICT"]);
    expect(await send(`${KEYS}/key_${"0".repeat(26)}`)).toEqual([404, "NOT_FOUND"]);
    expect(await send(`/v1/tenants/beta/keys/${others.id}`)).toEqual([404, "NOT_FOUND"]);
    expect(await send(`/v1/keys/${others.id}`)).toEqual([404, "NOT_FOUND"]);
    const { limits } = await db
      .selectFrom("api_keys")
      .selectAll()
      .where("id", "=", revoked.id)
      .executeTakeFirstOrThrow();
    expect(limits).toBeNull();
  });

  test("a key with limits raises none above its own, and removes none", async () => {
    const own = { rateLimit: { calls: 50, per: "second" }, limits: { maxConcurrentCalls: 4 } };
    const sender = await createKey(api, own);
    const lower = await createKey(api, { rateLimit: { calls: 1, per: "second" }, limits: { maxConcurrentCalls: 1 } });
    const send = (key: Key, changes: object) => as(sender)<Denied>("PATCH", `${KEYS}/${key.id}`, changes);
    for (const key of [sender, lower])
      for (const [changes, name] of [
        [{ rateLimit: null }, "rateLimit"],
        [{ rateLimit: { calls: 51, per: "second" } }, "rateLimit"],
        [{ limits: null }, "limits.maxConcurrentCalls"],
        [{ limits: { maxConcurrentCalls: 5 } }, "limits.maxConcurrentCalls"],
      ] as const) {
        const { status, body } = await send(key, changes);
        expect([status, body.error?.message]).toEqual([
          403,
          expect.stringContaining(`${name}: Expected at most that of this key`),
        ]);
      }
    expect((await send(lower, own)).status).toBe(200);
    // With the limits of the one and without those of the other, a key would have none.
    const other = await createKey(api, { quotas: { calls: { month: 1 } } });
    expect((await send(other, { quotas: null })).status).toBe(403);
    expect((await send(other, { quotas: { calls: { month: 0 } } })).status).toBe(200);
    expect((await send(sender, { limits: { maxConcurrentCalls: 3 } })).status).toBe(200);
    expect((await send(sender, { limits: { maxConcurrentCalls: 4 } })).status).toBe(403);
  });

  test("changes a key of the platform", async () => {
    const { body } = await api<Key>("POST", "/v1/keys", { name: "k", scopes: SCOPES });
    const changed = await api<Key>("PATCH", `/v1/keys/${body.id}`, { limits: { maxConcurrentCalls: 1 } });
    expect([changed.status, changed.body.limits]).toEqual([200, { maxConcurrentCalls: 1 }]);
  });

  test("the client changes a key", async () => {
    const key = await createKey(api);
    const client = createClient({ url: under.server.url, key: under.server.adminKey ?? "" });
    expect(await client.tenant("acme").updateKey(key.id, { maxAsyncCalls: 4 })).toMatchObject({ maxAsyncCalls: 4 });
  });
});

describe("two replicas with one Postgres", () => {
  const replicas = useReplicas(stores, 2, ["acme"]);
  const [one, two] = replicas.apis as [Api, Api];
  beforeAll(() => deploy(one));

  test("apply a change that was made at the other one", async () => {
    const key = await createKey(one, { quotas: { calls: { month: 1 } } });
    const [, second] = replicas.servers.map((server) => apiOf(server, key.key)) as [Api, Api];
    expect((await second("POST", CALLS, {})).status).toBe(200);
    expect((await second("POST", CALLS, {})).status).toBe(429);
    await change(one, key, { quotas: { calls: { month: 5 } } });
    await expect.poll(async () => (await second("POST", CALLS, {})).status).toBe(200);
    await change(one, key, { rateLimit: { calls: 1, per: "minute" } });
    const statuses = [await second("GET", KEYS), await second("GET", KEYS)].map(({ status }) => status);
    expect(statuses).toEqual([200, 429]);
  });

  test("let a call run that waits at the other one", async () => {
    const key = await createKey(one, { limits: { maxConcurrentCalls: 1 } });
    const [, second] = replicas.servers.map((server) => apiOf(server, key.key)) as [Api, Api];
    const running = second("POST", SLOW, {});
    await expect.poll(() => usedBy(one, key)).toEqual({ running: 1, waiting: 0 });
    const waiting = second("POST", CALLS, {});
    await expect.poll(() => usedBy(one, key)).toEqual({ running: 1, waiting: 1 });
    await change(one, key, { limits: { maxConcurrentCalls: 2 } });
    expect((await waiting).status).toBe(200);
    await cancelSlow(two);
    await running;
  });
});
