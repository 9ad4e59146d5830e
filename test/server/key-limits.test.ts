// Limits of the calls of a key, in addition to those of its tenant: for each way of calling, on both databases, and over two replicas.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createId } from "../../src/server/ids.ts";
import { apiOf } from "./support/api.ts";
import { connectCodeMode } from "./support/code-mode-client.ts";
import { type Api, useReplicas } from "./support/replicas.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Denied {
  readonly error: { readonly message: string; readonly details: object };
}

interface Use {
  readonly limit: number | null;
  readonly used: number;
}
interface Key {
  readonly id: string;
  readonly key: string;
  readonly use: {
    readonly quotas: readonly { readonly name: string; readonly used: number; readonly remaining: number }[];
    readonly concurrency: Use;
    readonly waiting: Use;
    readonly queue: Use;
  };
}
interface Call {
  readonly id: string;
  readonly state: string;
  readonly error: { readonly code: string; readonly message: string; readonly details: Record<string, unknown> } | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

const TOOLS: { readonly [name: string]: string } = {
  one: "export default () => 1;",
  outer: `export const capabilities = { tools: true };
    export default async (_, ctx) => {
      try { return await ctx.tools.one({}); } catch (error) { return error.message; }
    };`,
  busy: "export default () => { for (let n = 0; n < 1e8; n += 1); return 1; };",
  slow: "export default async () => { await new Promise((done) => setTimeout(done, 600_000)); };",
};
const SCOPES = ["calls:run", "calls:read", "calls:cancel", "tools:read", "keys:write", "keys:read"];

async function deploy(api: Api, tenant: string): Promise<void> {
  for (const [name, source] of Object.entries(TOOLS))
    expect((await api("POST", `/v1/tenants/${tenant}/tools`, { name, source, approve: true })).status).toBe(201);
}

async function createKey(api: Api, tenant: string, limits: object): Promise<Key> {
  const given = { name: "limited", scopes: SCOPES, ...limits };
  const { status, body } = await api<Key>("POST", `/v1/tenants/${tenant}/keys`, given);
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

const useOf = async (api: Api, tenant: string, { id }: Key): Promise<Key["use"]> =>
  (await api<Key>("GET", `/v1/tenants/${tenant}/keys/${id}`)).body.use;

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme"]);
  const { api } = under;
  const as = ({ key }: Key): Api => apiOf(under.server, key);
  const calls = "/v1/tenants/acme/tools/one/calls";
  beforeAll(() => deploy(api, "acme"));

  const ways: readonly (readonly [string, (send: Api, key: Key) => Promise<unknown>])[] = [
    ["a synchronous call", (send) => send("POST", calls, {})],
    [
      "an asynchronous call",
      async (send) => {
        const { body } = await send<Call>("POST", calls, {}, { prefer: "respond-async" });
        await expect
          .poll(async () => (await send<Call>("GET", `/v1/tenants/acme/calls/${body.id}`)).body.state)
          .toBe("succeeded");
      },
    ],
    [
      "a streamed call",
      async (_send, { key }) => {
        const headers = {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          accept: "text/event-stream",
        };
        const response = await fetch(`${under.server.url}${calls}`, { method: "POST", headers, body: "{}" });
        expect(await response.text()).toContain('"state":"succeeded"');
      },
    ],
    ["a call of a batch", (send) => send("POST", "/v1/tenants/acme/calls", { calls: [{ tool: "one" }] })],
    [
      "a call over MCP",
      async (_send, { key }) => {
        const client = new Client({ name: "test", version: "1.0.0" });
        const requestInit = { headers: { authorization: `Bearer ${key}` } };
        const url = new URL(`${under.server.url}/v1/tenants/acme/mcp`);
        await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
        await client.callTool({ name: "one", arguments: {} });
        await client.close();
      },
    ],
  ];
  test.for(ways)("%s counts for the key, and none is allowed when its quota is used up", async ([, call]) => {
    const key = await createKey(api, "acme", { quotas: { calls: { month: 1 } } });
    const send = as(key);
    await call(send, key);
    expect((await useOf(api, "acme", key)).quotas).toEqual([
      expect.objectContaining({ name: "calls:month", limit: 1, used: 1, remaining: 0 }),
    ]);
    const denied = await send<Denied>("POST", calls, {});
    expect([denied.status, denied.headers.get("ratelimit")?.split(";t=")[0]]).toEqual([429, '"key-calls-month";r=0']);
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(denied.body.error).toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: expect.stringContaining(
        `The caller "${key.id}" has used its quota of 1 call for this month (quotas.calls.month)`,
      ),
      details: { reason: "quota_used_up", quota: "calls", period: "month", limit: 1, callerId: key.id },
    });
    // It would fill the queue until next month.
    const later = await send<Denied>("POST", calls, {}, { prefer: "respond-async" });
    expect([later.status, later.headers.get("ratelimit")?.split(";t=")[0]]).toEqual([429, '"key-calls-month";r=0']);
    const [message] = denied.body.error.message.split(";");
    expect(later.body.error).toMatchObject({
      message: expect.stringContaining(message as string),
      details: { ...denied.body.error.details, retryAfterMs: expect.any(Number) },
    });
    const batch = await send<{ items: Call[] }>("POST", "/v1/tenants/acme/calls", { calls: [{ tool: "one" }] });
    expect(batch.body.items.map(({ error }) => error?.details.callerId)).toEqual([key.id]);
    const batchLater = { calls: [{ tool: "one" }] };
    expect((await send("POST", "/v1/tenants/acme/calls", batchLater, { prefer: "respond-async" })).status).toBe(429);
    // Other keys go on.
    expect((await api("POST", calls, {})).status).toBe(200);
  });

  test("counts the calls that a call of the key makes, and those of code", async () => {
    const key = await createKey(api, "acme", { quotas: { calls: { month: 2 } } });
    const nested = (await as(key)("POST", "/v1/tenants/acme/tools/outer/calls", {})).body;
    expect(nested.output, JSON.stringify(nested)).toBe(1);
    expect((await as(key)("POST", calls, {})).status).toBe(429);

    const ofCode = await createKey(api, "acme", { quotas: { calls: { month: 2 } } });
    await using client = await connectCodeMode(under.server.url, "acme", ofCode.key);
    const code = "await tools.one({}); await tools.one({});";
    expect(JSON.stringify(await client.run(code))).toContain("quotas.calls.month");
  });

  test("charges CPU time to the key", async () => {
    const key = await createKey(api, "acme", { quotas: { cpuMs: { month: 5 } } });
    expect((await as(key)("POST", "/v1/tenants/acme/tools/busy/calls", {})).status).toBe(200);
    const denied = await as(key)<{ error: Call["error"] }>("POST", calls, {});
    expect([denied.status, denied.body.error?.details]).toEqual([
      429,
      expect.objectContaining({ quota: "cpuMs", callerId: key.id }),
    ]);
  });

  test("a call that the quota of the key rejects is not charged to the tenant", async () => {
    const key = await createKey(api, "acme", { quotas: { calls: { month: 0 } } });
    const policy = { quotas: { calls: { month: 1_000 } } };
    expect((await api("PATCH", "/v1/tenants/acme", { policy })).status).toBe(200);
    const usedOf = async () => (await api<Key["use"]>("GET", "/v1/tenants/acme/quotas")).body.quotas[0]?.used;
    const before = await usedOf();
    expect((await as(key)("POST", calls, {})).status).toBe(429);
    expect(await usedOf()).toBe(before);
    expect((await api("PATCH", "/v1/tenants/acme", { policy: {} })).status).toBe(200);
  });

  test("limits how many calls of the key run and wait, and shows both", async () => {
    const limits = { maxConcurrentCalls: 1, maxQueuedCalls: 1 };
    const key = await createKey(api, "acme", { limits });
    const send = as(key);
    const slow = () => send<Call>("POST", "/v1/tenants/acme/tools/slow/calls", {});
    const running = slow();
    await expect.poll(async () => (await useOf(api, "acme", key)).concurrency).toEqual({ limit: 1, used: 1 });
    const waiting = slow();
    await expect.poll(async () => (await useOf(api, "acme", key)).waiting).toEqual({ limit: 1, used: 1 });
    const denied = await send("POST", calls, {});
    expect([denied.status, denied.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(denied.body.error).toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: expect.stringContaining("limits.maxConcurrentCalls of the key"),
      details: { reason: "too_many_calls", callerId: key.id, limit: "maxConcurrentCalls", allowed: 1 },
    });
    // The tenant has room, and says what it uses.
    expect((await api("POST", calls, {})).status).toBe(200);
    const { body: ofTenant } = await api<Key["use"]>("GET", "/v1/tenants/acme/quotas");
    expect([ofTenant.concurrency, ofTenant.queue.used]).toEqual([{ limit: 64, used: 1 }, 0]);
    for (const call of [running, waiting]) {
      await expect.poll(async () => (await useOf(api, "acme", key)).concurrency.used).toBe(1);
      const { body } = await api<{ items: { id: string; tool: string }[] }>("GET", "/v1/tenants/acme/running-calls");
      const id = body.items.find(({ tool }) => tool === "slow")?.id ?? "";
      await api("POST", `/v1/tenants/acme/calls/${id}/cancel`);
      expect((await call).body.error?.code).toBe("CANCELLED");
    }
    await expect.poll(async () => (await useOf(api, "acme", key)).concurrency.used).toBe(0);
  });

  test("an asynchronous call waits for its turn, and the key's queue has a limit", async () => {
    const key = await createKey(api, "acme", { limits: { maxConcurrentCalls: 1 }, maxAsyncCalls: 2 });
    const send = as(key);
    const later = (tool: string, body: object = {}) =>
      send<Call>("POST", `/v1/tenants/acme/tools/${tool}/calls`, body, { prefer: "respond-async" });
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const first = (await later("one")).body;
    await expect
      .poll(async () => (await send<Call>("GET", `/v1/tenants/acme/calls/${first.id}`)).body.state)
      .toBe("succeeded");
    await expect.poll(async () => (await useOf(api, "acme", key)).queue).toEqual({ limit: 2, used: 0 });
    // Calls that are due in an hour stay in the queue.
    const row = await database.db.selectFrom("calls").selectAll().where("id", "=", first.id).executeTakeFirstOrThrow();
    const runAt = Date.now() + 3_600_000;
    const waiting = [1, 2].map(() => ({
      ...row,
      id: createId("call"),
      state: "queued" as const,
      run_at: runAt,
      ended_at: null,
    }));
    await database.db.insertInto("calls").values(waiting).execute();
    await expect.poll(async () => (await useOf(api, "acme", key)).queue).toEqual({ limit: 2, used: 2 });
    // The count of the queue is used for a second.
    await expect.poll(async () => (await later("one")).status).toBe(429);
    const { body } = await later("one");
    expect(body.error).toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: expect.stringContaining(`The queue of the key "${key.id}" has 2 of at most 2 calls`),
      details: { callerId: key.id, limit: "maxAsyncCalls" },
    });
    await database.db
      .deleteFrom("calls")
      .where(
        "id",
        "in",
        waiting.map(({ id }) => id),
      )
      .execute();
  });

  test("rejects limits that are not whole numbers, and rounds those of an earlier release down", async () => {
    const given = { name: "fraction", scopes: SCOPES, limits: { maxConcurrentCalls: 1.5 } };
    expect(await api("POST", "/v1/tenants/acme/keys", given)).toMatchObject({
      status: 422,
      body: { error: { message: expect.stringContaining("limits.maxConcurrentCalls") } },
    });
    const key = await createKey(api, "acme", { limits: { maxConcurrentCalls: 1 } });
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const limits = JSON.stringify({ limits: { maxConcurrentCalls: 1.5 } });
    await database.db.updateTable("api_keys").set({ limits }).where("id", "=", key.id).execute();
    expect((await as(key)("POST", "/v1/tenants/acme/tools/one/calls", {})).status).toBe(200);
    expect((await useOf(api, "acme", key)).concurrency.limit).toBe(1);
  });

  test("a key passes on no higher limits, and what it leaves out stays", async () => {
    const key = await createKey(api, "acme", {
      limits: { maxConcurrentCalls: 4 },
      quotas: { calls: { month: 9, day: 5 } },
    });
    const child = (limits: object) =>
      as(key)<Record<string, unknown>>("POST", "/v1/tenants/acme/keys", {
        name: "child",
        scopes: ["calls:run"],
        ...limits,
      });
    expect((await child({ quotas: { calls: { day: 2 }, cpuMs: { day: 7 } } })).body).toMatchObject({
      limits: { maxConcurrentCalls: 4 },
      quotas: { calls: { month: 9, day: 2 }, cpuMs: { day: 7 } },
      maxAsyncCalls: null,
    });
    for (const [higher, path] of [
      [{ limits: { maxConcurrentCalls: 5 } }, "limits.maxConcurrentCalls"],
      [{ quotas: { calls: { month: 10 } } }, "quotas.calls.month"],
    ] as const)
      expect(await child(higher)).toMatchObject({
        status: 403,
        body: { error: { message: expect.stringContaining(`${path}: Expected at most that of this key`) } },
      });
    expect((await child({ limits: { timeoutMs: 5 } })).status).toBe(422);
  });

  test("nothing of a key's counters remains when its tenant is deleted", async () => {
    expect((await api("POST", "/v1/tenants", { id: "gone" })).status).toBe(201);
    await deploy(api, "gone");
    const key = await createKey(api, "gone", { quotas: { calls: { month: 5 } } });
    expect((await as(key)("POST", "/v1/tenants/gone/tools/one/calls", {})).status).toBe(200);
    expect((await api("DELETE", "/v1/tenants/gone")).status).toBe(200);
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const counters = database.db.selectFrom("quota_counters").selectAll().where("tenant_id", "=", key.id);
    expect(await counters.execute()).toEqual([]);
  });
});

describe("two replicas with one Postgres", () => {
  const replicas = useReplicas(stores, 2, ["acme"]);
  const [one, two] = replicas.apis as [Api, Api];
  beforeAll(() => deploy(one, "acme"));

  test("share the limits of a key", async () => {
    // The time for which a call waits for a slot.
    const policy = { limits: { queueMs: 500, timeoutMs: 300_000 } };
    expect((await one("PATCH", "/v1/tenants/acme", { policy })).status).toBe(200);
    const key = await createKey(one, "acme", { limits: { maxConcurrentCalls: 2, maxQueuedCalls: 0 } });
    const [first, second] = replicas.servers.map((server) => apiOf(server, key.key)) as [Api, Api];
    const slow = (send: Api) => send<Call>("POST", "/v1/tenants/acme/tools/slow/calls", {});
    const running = [slow(first)];
    await expect.poll(async () => (await useOf(two, "acme", key)).concurrency.used).toBe(1);
    running.push(slow(second));
    await expect.poll(async () => (await useOf(one, "acme", key)).concurrency.used).toBe(2);
    for (const send of [first, second]) {
      const call = send<Call>("POST", "/v1/tenants/acme/tools/one/calls", {});
      expect([(await call).status, (await call).body.error?.details.reason]).toEqual([429, "too_many_calls"]);
    }
    for (const api of [one, two]) {
      const { body } = await api<{ items: { id: string }[] }>("GET", "/v1/tenants/acme/running-calls");
      for (const { id } of body.items) await api("POST", `/v1/tenants/acme/calls/${id}/cancel`);
    }
    for (const call of running) expect((await call).body.error?.code).toBe("CANCELLED");
  });

  test("share the quota of a key", async () => {
    const key = await createKey(one, "acme", { quotas: { calls: { month: 4 } } });
    const sends = replicas.servers.map((server) => apiOf(server, key.key));
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        (sends[index % 2] as Api)("POST", "/v1/tenants/acme/tools/one/calls", {}),
      ),
    );
    expect(replies.map(({ status }) => status).toSorted()).toEqual([...Array(4).fill(200), ...Array(6).fill(429)]);
  });
});
