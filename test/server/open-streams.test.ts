// Responses that stay open: how many there can be, how long they last, and that they end with the right of their sender.
import { once } from "node:events";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/index.ts";
import type { Principal } from "../../src/server/auth/principal.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { type OpenStream, OpenStreams, type StreamLimits } from "../../src/server/http/open-streams.ts";
import { createServer, type Server, type ServerOptions } from "../../src/server/index.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { apiOf } from "./support/api.ts";
import { STORES, type StoreKind, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one[Symbol.asyncDispose]();
});

const TOOL = `export const description = "Waits for a person";
export const annotations = { destructiveHint: true };
export default () => { console.log("ran"); return 1; };`;
/** A busy machine does not reach it. */
const LIMITS = { ...PATIENT_LIMITS, timeoutMs: 300_000 };
const EVENTS = { accept: "text/event-stream" };

interface Setup {
  readonly server: Server;
  readonly api: ReturnType<typeof apiOf>;
  /** Path of the events of a call that waits for an approval. */
  readonly events: string;
  readonly approve: () => Promise<void>;
}

async function setUp(kind: StoreKind, options: ServerOptions = {}): Promise<Setup> {
  const store = await stores.create(kind);
  const server = await createServer({ ...store.options, limits: LIMITS, port: 0, logLevel: "silent", ...options });
  opened.push(store, server);
  const api = apiOf(server);
  for (const id of ["acme", "beta"]) expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
  const deployed = await api("POST", "/v1/tenants/acme/tools", { name: "wait", source: TOOL, approve: true });
  expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
  const { status, body } = await api("POST", "/v1/tenants/acme/tools/wait/calls", { input: {} });
  expect([status, body.state]).toEqual([202, "waiting_for_approval"]);
  return {
    server,
    api,
    events: `/v1/tenants/acme/calls/${body.id}/events`,
    approve: async () => {
      const path = `/v1/tenants/acme/approvals/${body.approvalId}/approve`;
      expect((await api("POST", path, {})).status).toBe(200);
    },
  };
}

interface Key {
  readonly id: string;
  readonly key: string;
}

async function createKey(api: Setup["api"], more: object = {}): Promise<Key> {
  const scopes = ["calls:read", "calls:run", "tools:read", "tenants:export"];
  const { status, body } = await api("POST", "/v1/tenants/acme/keys", { name: "test", scopes, ...more });
  expect(status).toBe(201);
  return body as unknown as Key;
}

const open = async (server: Server, path: string, headers: Readonly<Record<string, string>>): Promise<Response> =>
  await fetch(`${server.url}${path}`, { headers });
const bearer = ({ key }: { readonly key: string }): { readonly authorization: string } => ({
  authorization: `Bearer ${key}`,
});

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } },
};

/** Opens the stream of notifications of a new MCP session. */
async function listen(server: Server, key: Key, endpoint = "mcp"): Promise<Response> {
  const url = `${server.url}/v1/tenants/acme/${endpoint}`;
  const headers = { ...bearer(key), accept: "application/json, text/event-stream" };
  const begun = await fetch(url, {
    method: "POST",
    body: JSON.stringify(INITIALIZE),
    headers: { ...headers, "content-type": "application/json" },
  });
  expect(begun.status).toBe(200);
  await begun.text();
  const session = begun.headers.get("mcp-session-id") ?? "";
  return await fetch(url, { headers: { ...bearer(key), ...EVENTS, "mcp-session-id": session } });
}

describe("the number of streams", () => {
  test("is limited per key and per tenant, and a stream that ends makes room", async () => {
    const { server, api, events } = await setUp("sqlite", { maxStreamsPerKey: 2, maxStreamsPerTenant: 3 });
    const [one, two] = [await createKey(api), await createKey(api)];
    const first = await open(server, events, bearer(one));
    const second = await listen(server, one);
    expect([first.status, second.status]).toEqual([200, 200]);
    for (const path of [events, "/v1/tenants/acme/export", "/v1/tenants/acme/mcp"]) {
      const third = await open(server, path, { ...bearer(one), ...EVENTS });
      expect([path, third.status, third.headers.get("retry-after")]).toEqual([path, 429, "5"]);
      expect(await third.json()).toMatchObject({ error: { code: "RATE_LIMITED", details: { limit: 2 } } });
    }
    // A streamed call is denied before it begins, and other requests of the key are not denied.
    const streamed = await fetch(`${server.url}/v1/tenants/acme/tools/wait/calls`, {
      method: "POST",
      body: "{}",
      headers: { ...bearer(one), ...EVENTS, "content-type": "application/json" },
    });
    expect(streamed.status).toBe(429);
    expect((await open(server, "/v1/tenants/acme/tools", bearer(one))).status).toBe(200);

    expect((await open(server, events, bearer(two))).status).toBe(200);
    const fourth = await open(server, events, bearer(two));
    expect([fourth.status, await fourth.json()]).toEqual([
      429,
      expect.objectContaining({
        error: expect.objectContaining({ message: "This tenant may have 3 streams open at a time" }),
      }),
    ]);
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    await first.body?.cancel();
    await expect.poll(async () => (await open(server, events, bearer(two))).status).toBe(200);
  });

  test("does not grow with requests that fail, or that are answered with a value", async () => {
    const { server, api } = await setUp("sqlite", { maxStreamsPerKey: 1 });
    const key = await createKey(api);
    for (let index = 0; index < 3; index += 1) {
      const none = await open(server, `/v1/tenants/acme/calls/call_${"0".repeat(26)}/events`, bearer(key));
      expect(none.status).toBe(404);
      const exported = await open(server, "/v1/tenants/acme/export", bearer(key));
      expect(exported.status).toBe(200);
      expect(await exported.text()).toContain('"end"');
    }
  });
});

describe("a stream that reaches its longest time", () => {
  test("ends cleanly, and the client goes on where it was", async () => {
    const { server, api, events, approve } = await setUp("sqlite", { maxStreamMs: 1_000 });
    const key = await createKey(api);
    const raw = await open(server, events, bearer(key));
    expect(await raw.text()).toBe("");
    await (await listen(server, key)).text();

    const client = createClient({ url: server.url, key: key.key }).tenant("acme");
    const seen: string[] = [];
    const watching = (async () => {
      for await (const { event } of client.watch(events.split("/").at(-2) ?? "")) seen.push(event);
    })();
    const calling = (async () => {
      const names: string[] = [];
      for await (const { event } of client.stream("wait", { input: {} })) names.push(event);
      return names;
    })();
    // Longer than one stream lasts.
    await (await open(server, events, bearer(key))).text();
    await approve();
    await vi.waitFor(async () => {
      const { body } = await api<{ items: { id: string }[] }>("GET", "/v1/tenants/acme/approvals?state=pending");
      expect(body.items).toHaveLength(1);
      await api("POST", `/v1/tenants/acme/approvals/${body.items[0]?.id}/approve`, {});
    });
    await watching;
    expect(seen.at(-1)).toBe("result");
    const names = await calling;
    expect([names[0], names[1], names.at(-1)]).toEqual(["started", "approval", "result"]);
  });
});

describe.for(STORES)("with %s, a stream ends", (kind) => {
  test("a stream ends when its key is revoked, at every endpoint", async () => {
    const { server, api, events } = await setUp(kind);
    const key = await createKey(api);
    const streams = [
      await open(server, events, bearer(key)),
      await listen(server, key),
      await listen(server, key, "code-mode/mcp"),
      await fetch(`${server.url}/v1/tenants/acme/tools/wait/calls`, {
        method: "POST",
        body: "{}",
        headers: { ...bearer(key), ...EVENTS, "content-type": "application/json" },
      }),
    ];
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const other = await open(server, events, bearer(await createKey(api)));
    expect((await api("DELETE", `/v1/tenants/acme/keys/${key.id}`)).status).toBe(200);
    const texts = await Promise.all(streams.map((stream) => stream.text()));
    expect(texts.join("")).not.toContain("event: result");
    // The stream of another key goes on.
    const next = other.body?.getReader().read();
    expect(await Promise.race([next?.then(() => "ended"), Promise.resolve("open")])).toBe("open");
  });

  test("a stream ends when its console session ends, also if the key remains", async () => {
    const { server, api, events } = await setUp(kind);
    const key = await createKey(api);
    const signedIn = await fetch(`${server.url}/v1/console/sessions`, {
      method: "POST",
      body: JSON.stringify({ key: key.key }),
      headers: { "content-type": "application/json" },
    });
    const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? "";
    const stream = await open(server, events, { cookie });
    expect(stream.status).toBe(200);
    const own = apiOf(server, key.key);
    const { body } = await own<{ items: { id: string }[] }>("GET", "/v1/console/sessions");
    expect((await own("DELETE", `/v1/console/sessions/${body.items[0]?.id}`)).status).toBe(200);
    expect(await stream.text()).toBe("");
    expect((await own("GET", "/v1/me")).status).toBe(200);
  });

  test("a stream ends when its tenant is deleted", async () => {
    const { server, api, events } = await setUp(kind);
    const stream = await open(server, events, bearer({ key: server.adminKey ?? "" }));
    expect(stream.status).toBe(200);
    expect((await api("DELETE", "/v1/tenants/acme")).status).toBe(200);
    expect(await stream.text()).toBe("");
  });
});

test("with two servers, a key that one of them revokes has no stream at the other", async () => {
  const { server, api, events } = await setUp("postgres");
  const key = await createKey(api);
  const { database, dataDir } = server.config;
  const other = await createServer({ port: 0, logLevel: "silent", dataDir, ...(database && { database }) });
  opened.push(other);
  const stream = await open(other, events, bearer(key));
  expect(stream.status).toBe(200);
  expect((await api("DELETE", `/v1/tenants/acme/keys/${key.id}`)).status).toBe(200);
  expect(await stream.text()).toBe("");
});

describe("the streams of a process", () => {
  const owner = (more: Partial<Principal> = {}): Principal => ({
    keyId: "jwt:user",
    tenantId: "acme",
    scopes: new Set(),
    rateLimit: null,
    expiresAt: null,
    ...more,
  });
  const ended = (stream: OpenStream): Promise<unknown> => once(stream.signal, "abort");
  const setUpStreams = async (limits: Partial<StreamLimits> = {}) => {
    const store = await stores.create("sqlite");
    const database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
    opened.push(store, database);
    const tenant = { id: "acme", name: "acme", policy: TenantPolicySchema.parse({}) };
    await insertTenant(database.db, tenant);
    let now = 1_000_000;
    const clock = { ...database.clock, now: () => now };
    const all = { perTenant: 10, perKey: 10, total: 10, maxMs: 60_000, ...limits };
    const streams = new OpenStreams({ db: database.db, clock }, all, (error) => {
      throw error;
    });
    return { streams, setNow: (at: number) => (now = at) };
  };

  test("end when their token has expired; the response of a call a minute later", async () => {
    const { streams, setNow } = await setUpStreams();
    using _all = streams;
    const principal = owner({ expiresAt: 2_000_000 });
    const [notifications, call, unlimited] = [
      streams.open(principal, "acme"),
      streams.open(principal, "acme"),
      streams.open(owner(), "acme"),
    ];
    notifications.limitTime();
    setNow(2_000_000);
    await ended(notifications);
    expect([call.signal.aborted, unlimited.signal.aborted]).toEqual([false, false]);
    setNow(2_060_000);
    await ended(call);
    expect(unlimited.signal.aborted).toBe(false);
  });

  test("are limited in total, so that connections for other requests remain", async () => {
    const { streams } = await setUpStreams({ total: 2 });
    using _all = streams;
    const [first] = [streams.open(owner(), "acme"), streams.open(owner(), "acme")];
    expect(() => streams.open(owner({ keyId: "jwt:other" }), "acme")).toThrow(
      expect.objectContaining({ code: "UNAVAILABLE", retryAfterSeconds: 5 }),
    );
    first.end();
    streams.open(owner({ keyId: "jwt:other" }), "acme");
  });
});
