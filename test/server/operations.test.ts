// Secrets, usage, quotas and rate limits of the server, on both databases.
import { readdirSync, readFileSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { DatabaseQuotaStore, type QuotaWarning } from "../../src/server/quotas/database-quota-store.ts";
import { parseMasterKey } from "../../src/server/secrets/master-key.ts";
import { rotateMasterKey } from "../../src/server/secrets/rotate-master-key.ts";
import { testQuotaStore } from "../host/tenants/quota-store-conformance.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const KEY_A = Buffer.alloc(32, 1).toString("base64");
const KEY_B = Buffer.alloc(32, 2).toString("hex");
const VALUE = "s3cret-value-of-the-test-0123456789";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

for (const kind of STORES) {
  testQuotaStore(`the quota store in ${kind}`, async () => {
    const store = await stores.create(kind);
    const { db } = await openDatabase({ url: store.options.database, dataDir: store.options.dataDir, onError() {} });
    let time = 1_000_000_000_000;
    return {
      store: new DatabaseQuotaStore({ db, kind, now: () => time }),
      advance: (ms) => {
        time += ms;
      },
      now: () => time,
    };
  });
}

test("a server in a program leaves its Request and Response as they are", async () => {
  const before = [globalThis.Request, globalThis.Response];
  await using store = await stores.create("sqlite");
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  expect(globalThis.Request).toBe(before[0]);
  expect(globalThis.Response).toBe(before[1]);
});

test("a server that stops accepts calls for a while after /readyz has failed", async () => {
  await using store = await stores.create("sqlite");
  await using server = await createServer({ ...store.options, port: 0, logLevel: "silent", stopDelayMs: 10_000 });
  const api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  const isReady = async (): Promise<boolean> => (await fetch(`${server.url}/readyz`)).ok;
  expect(await isReady()).toBe(true);
  const closing = server.close();
  // No request has failed because the server no longer listens: it says first that it stops.
  expect(await isReady()).toBe(false);
  const call = await api("POST", "/v1/tenants/acme/tools/missing/calls", {});
  expect(call.body).toMatchObject({ error: { code: "TOOL_UNAVAILABLE", details: { reason: "not_found" } } });
  await closing;
  await expect(fetch(`${server.url}/readyz`)).rejects.toThrow();
});

test("a server that stops gives durable runs and calls drainMs together, and then ends both", async () => {
  await using store = await stores.create("sqlite");
  const server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
  const api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  const drainMs = 4_000;
  // The run takes all of that time. After twice as long, the call would have ended by itself.
  for (const [name, ms] of [
    ["run", 120_000],
    ["call", 1.75 * drainMs],
  ] as const) {
    const source = `export const capabilities = { kv: true };
      export const limits = { timeoutMs: 300_000 };
      export default async (_, { kv }) => {
        await kv.set("began", true);
        await new Promise((resolve) => setTimeout(resolve, ${ms}));
      };`;
    expect((await api("POST", "/v1/tenants/acme/tools", { name, source, approve: true })).status).toBe(201);
  }
  const began = async (name: string): Promise<void> =>
    await expect
      .poll(async () => (await api("GET", `/v1/tenants/acme/kv/${name}/values/began`)).status, { timeout: 60_000 })
      .toBe(200);
  const headers = { prefer: "respond-async" };
  expect((await api("POST", "/v1/tenants/acme/runs", { tool: "run" }, headers)).status).toBe(202);
  await began("run");
  const answer = api("POST", "/v1/tenants/acme/tools/call/calls", {});
  await began("call");
  await server.close({ drainMs });
  expect((await answer).body).toMatchObject({ state: "cancelled", error: { code: "CANCELLED" } });
});

describe("the master key", () => {
  const owner = { table: "secrets", tenantId: "acme", name: "token" } as const;

  test("opens what it has sealed, for the same row only", () => {
    const key = parseMasterKey(KEY_A, "key");
    const sealed = key.seal(VALUE, owner);
    expect(key.open(sealed, owner)).toBe(VALUE);
    expect(sealed.includes(VALUE)).toBe(false);
    for (const other of [
      { ...owner, tenantId: "beta" },
      { ...owner, name: "other" },
      { ...owner, table: "webhooks" as const },
    ])
      expect(() => key.open(sealed, other)).toThrow("cannot be decrypted");
    expect(() => parseMasterKey(KEY_B, "key").open(sealed, owner)).toThrow("cannot be decrypted");
  });

  test("rejects a sealed value in which any byte was changed", () => {
    const key = parseMasterKey(KEY_A, "key");
    const sealed = key.seal(VALUE, owner);
    for (let index = 0; index < sealed.length; index += 1) {
      const changed = Buffer.from(sealed);
      changed[index] = (changed[index] as number) ^ 1;
      expect(() => key.open(changed, owner)).toThrow("cannot be decrypted");
    }
    expect(() => key.open(Buffer.alloc(0), owner)).toThrow("cannot be decrypted");
  });

  test.for(["", "short", "x".repeat(64), Buffer.alloc(31).toString("base64"), Buffer.alloc(33).toString("hex")])(
    "rejects %j as a key",
    (text) => {
      expect(() => parseMasterKey(text, "options.masterKey")).toThrow("options.masterKey: Expected 32 bytes");
    },
  );
});

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let api: ReturnType<typeof apiOf>;
  /** Created by the first start only. */
  let adminKey: string;
  let upstream: HttpServer;
  let origin: string;
  const received: (string | undefined)[] = [];
  const tenant = "/v1/tenants/acme";
  const start = (more: object = {}): Promise<Server> =>
    createServer({ ...store.options, port: 0, logLevel: "silent", masterKey: KEY_A, ...more });

  beforeAll(async () => {
    upstream = createHttpServer((request, response) => {
      received.push(request.headers.authorization);
      response.end("ok");
    });
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
    store = await stores.create(kind);
    server = await start();
    adminKey = server.adminKey as string;
    api = apiOf(server);
    const egress = { allow: [{ to: origin, addresses: ["127.0.0.0/8"] }] };
    expect((await api("POST", "/v1/tenants", { id: "acme", policy: { egress } })).status).toBe(201);
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    upstream.close();
    await store[Symbol.asyncDispose]();
  });

  const source = () => `
    export const capabilities = { fetch: true, secrets: ["token"] };
    export default async (input, ctx) => {
      const token = await ctx.secrets.use("token");
      const response = await fetch("${origin}/", { headers: { authorization: "Bearer " + token } });
      return { text: await response.text(), token };
    }`;

  test("a tool sends a secret to its host, and nothing that the server stores or returns contains the value", async () => {
    const set = await api("PUT", `${tenant}/secrets/token`, { value: VALUE, hosts: [origin] });
    expect(set.status).toBe(200);
    expect(set.body).toMatchObject({ name: "token", hosts: [origin] });
    expect((await api("POST", `${tenant}/tools`, { name: "send", source: source(), approve: true })).status).toBe(201);
    const { status, body } = await api("POST", `${tenant}/tools/send/calls`, {});
    expect([status, (body.output as { text: string }).text]).toEqual([200, "ok"]);
    expect(received).toContain(`Bearer ${VALUE}`);
    for (const path of ["/secrets", "/calls", "/audit", "/usage", "/tools/send"])
      expect(JSON.stringify((await api("GET", `${tenant}${path}`)).body)).not.toContain(VALUE);
    for (const name of readdirSync(store.options.dataDir).filter((file) => file.includes("sqlite")))
      expect(readFileSync(join(store.options.dataDir, name)).includes(VALUE)).toBe(false);
  });

  test("a changed secret is used by the next call, and a deleted one by none", async () => {
    const next = `${VALUE}-next`;
    await api("PUT", `${tenant}/secrets/token`, { value: next, hosts: [origin] });
    expect((await api("POST", `${tenant}/tools/send/calls`, {})).status).toBe(200);
    expect(received.at(-1)).toBe(`Bearer ${next}`);
    expect((await api("DELETE", `${tenant}/secrets/token`)).status).toBe(200);
    expect((await api("DELETE", `${tenant}/secrets/token`)).status).toBe(404);
    const { body } = await api<{ error: { message: string } }>("POST", `${tenant}/tools/send/calls`, {});
    expect(body.error.message).toContain('this tool has no secret "token"');
  });

  test("rejects a policy and a secret that every call would fail with", async () => {
    const egress = { allow: ["https://bad host"] };
    const changed = await api("PATCH", tenant, { policy: { egress } });
    expect([changed.status, JSON.stringify(changed.body)]).toEqual([422, expect.stringContaining("egress.allow")]);
    const set = await api("PUT", `${tenant}/secrets/other`, { value: VALUE, hosts: ["bad host"] });
    expect([set.status, JSON.stringify(set.body)]).toEqual([422, expect.stringContaining("secrets.other.hosts")]);
    expect(JSON.stringify(set.body)).not.toContain(VALUE);
  });

  test("another key can take over by rotation, and a wrong or missing key stops the start", async () => {
    await api("PUT", `${tenant}/secrets/token`, { value: VALUE, hosts: [origin] });
    await server.close({ drainMs: 0 });
    await expect(start({ masterKey: KEY_B })).rejects.toThrow("not the one that this database's secrets");
    await expect(start({ masterKey: undefined })).rejects.toThrow("master key that is not configured");
    {
      const { dataDir, database: url } = store.options;
      await using database = await openDatabase({ dataDir, url, onError() {} });
      const [from, to] = [parseMasterKey(KEY_A, "from"), parseMasterKey(KEY_B, "to")];
      expect(await rotateMasterKey(database.db, from, to)).toBe(1);
      await expect(rotateMasterKey(database.db, from, to)).rejects.toThrow("cannot be decrypted");
    }
    server = await start({ masterKey: KEY_B });
    api = apiOf(server, adminKey);
    expect((await api("POST", `${tenant}/tools/send/calls`, {})).status).toBe(200);
    expect(received.at(-1)).toBe(`Bearer ${VALUE}`);
  });

  test("counts usage by tool, hour and outcome, and exports it as JSON and CSV", async () => {
    await api("POST", `${tenant}/tools`, {
      name: "counted",
      source: "export default ({ fail }) => { if (fail) throw new Error('no'); return 1; }",
    });
    for (const fail of [false, true, false]) await api("POST", `${tenant}/tools/counted/calls`, { input: { fail } });
    const queued = await api("POST", `${tenant}/tools/counted/calls`, {}, { prefer: "respond-async" });
    await expect.poll(async () => (await api("GET", `${tenant}/calls/${queued.body.id}`)).body.state).toBe("succeeded");
    const { body } = await api<{ items: { outcome: string; calls: number; cpuMs: number; hour: number }[] }>(
      "GET",
      `${tenant}/usage?tool=counted`,
    );
    const sum = (outcome: string): number =>
      body.items.filter((row) => row.outcome === outcome).reduce((all, { calls }) => all + calls, 0);
    expect([sum("ok"), sum("TOOL_FAILED")]).toEqual([3, 1]);
    for (const { hour } of body.items) expect(hour % 3_600_000).toBe(0);
    const { body: totals } = await api<typeof body>("GET", `${tenant}/usage?tool=counted&by=total`);
    const [failed, ok] = totals.items;
    expect(totals.items.map(({ outcome, calls }) => [outcome, calls])).toEqual([
      ["TOOL_FAILED", 1],
      ["ok", 3],
    ]);
    expect(ok?.hour).toBe(body.items.find(({ outcome }) => outcome === "ok")?.hour);
    expect(failed?.cpuMs).toBeGreaterThan(0);
    const response = await fetch(`${server.url}${tenant}/usage?format=csv&tool=counted`, {
      headers: { authorization: `Bearer ${adminKey}` },
    });
    expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    const [head, ...lines] = (await response.text()).trimEnd().split("\r\n");
    expect(head).toBe("hour,tool,outcome,calls,cpuMs,wallMs,inputBytes,outputBytes,egressBytesIn,egressBytesOut");
    expect(lines).toHaveLength(body.items.length);
    expect(lines[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z,"counted","/);
    expect((await api("GET", `${tenant}/usage?from=2&until=1`)).status).toBe(422);
  });

  test.for([{}, { prefer: "respond-async" }])("counts the duration of a call, with the headers %o", async (headers) => {
    const name = `pausing-${Object.keys(headers).length}`;
    const source = "export default () => new Promise((resolve) => setTimeout(resolve, 100));";
    await api("POST", `${tenant}/tools`, { name, source });
    const { body: call } = await api("POST", `${tenant}/tools/${name}/calls`, {}, headers);
    await expect.poll(async () => (await api("GET", `${tenant}/calls/${call.id}`)).body.state).toBe("succeeded");
    const usage = () => api<{ items: { wallMs: number }[] }>("GET", `${tenant}/usage?tool=${name}`);
    await expect.poll(async () => (await usage()).body.items.length).toBe(1);
    // Less than the pause, because a clock counts whole ms.
    expect((await usage()).body.items[0]?.wallMs).toBeGreaterThanOrEqual(95);
  });

  test("a quota survives a restart, and says what is left", async () => {
    await api("POST", "/v1/tenants", { id: "small", policy: { quotas: { calls: { month: 3 } } } });
    await api("POST", "/v1/tenants/small/tools", { name: "one", source: "export default () => 1" });
    const call = () => api("POST", "/v1/tenants/small/tools/one/calls", {});
    const first = await call();
    expect(first.status).toBe(200);
    expect(first.headers.get("ratelimit-policy")).toMatch(/^"calls-month";q=3;w=\d+$/);
    expect(first.headers.get("ratelimit")).toMatch(/^"calls-month";r=2;t=\d+$/);
    await call();
    await server.close({ drainMs: 0 });
    server = await start({ masterKey: KEY_B });
    api = apiOf(server, adminKey);
    expect((await call()).status).toBe(200);
    const denied = await call();
    expect([denied.status, (denied.body.error as { code: string }).code]).toEqual([429, "QUOTA_EXCEEDED"]);
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
    const { body } = await api("GET", "/v1/tenants/small/quotas");
    expect(body).toMatchObject({
      quotas: [{ name: "calls:month", limit: 3, used: 3, remaining: 0 }],
      tools: { used: 1 },
      storedBytes: { used: expect.any(Number) },
    });
  });

  test("limits the bytes of a tenant's code", async () => {
    await api("POST", "/v1/tenants", { id: "tiny", policy: { maxStoredBytes: 2_000 } });
    const big = `export default () => ${JSON.stringify("x".repeat(4_000))}`;
    const { status, body } = await api("POST", "/v1/tenants/tiny/tools", { name: "big", source: big });
    expect([status, JSON.stringify(body)]).toEqual([
      429,
      expect.stringContaining("stored 0 of 2000 bytes (policy.maxStoredBytes)"),
    ]);
  });

  test("limits the requests of a key", async () => {
    const { body } = await api<{ key: string }>("POST", `${tenant}/keys`, {
      name: "slow",
      scopes: ["tools:read"],
      rateLimit: { calls: 2, per: "minute" },
    });
    const limited = apiOf(server, body.key);
    const replies = [await limited("GET", `${tenant}/tools`), await limited("GET", `${tenant}/tools`)];
    expect(replies.map(({ status, headers }) => [status, headers.get("ratelimit")?.split(";")[1]])).toEqual([
      [200, "r=1"],
      [200, "r=0"],
    ]);
    const denied = await limited("GET", `${tenant}/tools`);
    expect([denied.status, denied.headers.get("ratelimit-policy")]).toEqual([429, '"key";q=2;w=60']);
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await api("GET", `${tenant}/tools`)).status).toBe(200);
  });

  test("lists the limits of the key and of its tenant in one response", async () => {
    const policy = { rateLimit: { calls: 100, per: "second" }, quotas: { calls: { day: 50 } } };
    expect((await api("POST", "/v1/tenants", { id: "both", policy })).status).toBe(201);
    const source = "export default () => 1;";
    expect((await api("POST", "/v1/tenants/both/tools", { name: "one", source })).status).toBe(201);
    const { body } = await api<{ key: string }>("POST", "/v1/tenants/both/keys", {
      name: "limited",
      scopes: ["calls:run"],
      rateLimit: { calls: 3, per: "minute" },
    });
    const limited = apiOf(server, body.key);
    const paths = ["/v1/tenants/both/tools/one/calls", "/v1/tenants/both/calls"];
    const bodies = [{ input: {} }, { calls: [{ tool: "one", input: {} }] }];
    for (const [index, path] of paths.entries()) {
      const { status, headers } = await limited("POST", path, bodies[index]);
      expect([path, status, headers.get("ratelimit-policy")]).toEqual([
        ...[path, 200, '"key";q=3;w=60, "rate";q=100;w=1, "calls-day";q=50;w=86400'],
      ]);
      expect(headers.get("ratelimit")).toMatch(
        new RegExp(`^"key";r=${2 - index};t=\\d+, "rate";r=\\d+;t=\\d+, "calls-day";r=`),
      );
    }
  });

  test("warns once when a window reaches 80 % of its limit", async () => {
    const { dataDir, database: url } = store.options;
    await using database = await openDatabase({ dataDir, url, onError() {} });
    const warnings: QuotaWarning[] = [];
    const quotas = new DatabaseQuotaStore({ db: database.db, kind, onWarning: (warning) => warnings.push(warning) });
    const endsAt = Date.now() + 60_000;
    const charge = { kind: "window", tenantId: "acme", name: "calls:month:0", amount: 1, limit: 10, endsAt } as const;
    for (let count = 0; count < 12; count += 1) await quotas.consume([charge]);
    expect(warnings).toEqual([{ tenantId: "acme", name: "calls:month", used: 8, limit: 10 }]);
    // Amounts that are charged afterwards are noticed by the next check.
    const cpu = { ...charge, name: "cpuMs:month:0", amount: 9, limit: undefined };
    await quotas.consume([cpu]);
    for (let count = 0; count < 2; count += 1) await quotas.consume([{ ...cpu, amount: 0, limit: 10 }]);
    expect(warnings.at(-1)).toEqual({ tenantId: "acme", name: "cpuMs:month", used: 9, limit: 10 });
    expect(warnings).toHaveLength(2);
  });
});
