// The console's sessions: a cookie that stands for an API key, and what it may be used for.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Workers } from "../../src/client/index.ts";
import { PLATFORM_SCOPES, SCOPES } from "../../src/server/auth/scopes.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, type TestStore, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  let store: TestStore;
  let server: Server;
  let api: ReturnType<typeof apiOf>;

  beforeAll(async () => {
    store = await stores.create(kind);
    server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    api = apiOf(server);
    await api("POST", "/v1/tenants", { id: "acme" });
  });
  afterAll(async () => {
    await server.close({ drainMs: 0 });
    await store[Symbol.asyncDispose]();
  });

  const send = (method: string, path: string, headers: { readonly [name: string]: string }, body?: object) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  async function signIn(key: string | undefined): Promise<string> {
    const response = await send("POST", "/v1/console/sessions", { "user-agent": "test" }, { key });
    expect(response.status).toBe(201);
    return response.headers.get("set-cookie")?.split(";")[0] ?? "";
  }
  const newKey = async (scopes: readonly string[], more: object = {}) =>
    (await api<{ id: string; key: string }>("POST", "/v1/keys", { name: "k", scopes, ...more })).body;

  test("the cookie cannot be read by scripts, and is not sent by other sites", async () => {
    const response = await send("POST", "/v1/console/sessions", {}, { key: server.adminKey });
    const cookie = response.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/^glovebox_session=[A-Za-z0-9_-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/);
    expect(await response.text()).not.toContain(cookie.slice(17, 60));
  });

  test("the cookie is for encrypted connections only, where the server has a name", async () => {
    await using named = await createServer({
      ...(await stores.create(kind)).options,
      port: 0,
      logLevel: "silent",
      allowHosts: ["tools.example.com"],
    });
    const { request } = await import("node:http");
    const header = await new Promise<string>((resolve, reject) => {
      const headers = { host: "tools.example.com", "content-type": "application/json" };
      request(`${named.url}/v1/console/sessions`, { method: "POST", headers }, (response) => {
        response.resume();
        resolve(String(response.headers["set-cookie"]?.[0]));
      })
        .on("error", reject)
        .end(JSON.stringify({ key: named.adminKey }));
    });
    expect(header).toContain("; Secure");
  });

  test("a sign-in counts as a request of its key, and one too many leaves nothing behind", async () => {
    const { id, key } = await newKey(["tenants:read"], { rateLimit: { calls: 1, per: "minute", burst: 2 } });
    const first = await send("POST", "/v1/console/sessions", {}, { key });
    expect([first.status, first.headers.get("ratelimit")]).toEqual([201, expect.stringContaining('"key";r=1')]);
    expect((await send("GET", "/v1/me", { authorization: `Bearer ${key}` })).status).toBe(200);
    const denied = await send("POST", "/v1/console/sessions", {}, { key });
    expect([denied.status, denied.headers.get("set-cookie")]).toEqual([429, null]);
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
    const { body } = await api<{ items: { action: string; actor: string }[] }>("GET", "/v1/audit?limit=100");
    const own = body.items.filter(({ actor, action }) => actor === `key:${id}` && action === "console.signed_in");
    expect(own).toHaveLength(1);
  });

  test.for(["gbx_wrong", `gbx_${"a".repeat(43)}`, "", "Bearer x"])("%j does not sign in", async (key) => {
    const response = await send("POST", "/v1/console/sessions", {}, { key });
    expect([401, 422]).toContain(response.status);
    expect(response.headers.get("set-cookie")).toBeNull();
  });

  test("stands for its key, with the same scopes", async () => {
    const { key } = await newKey(["tenants:read"]);
    const cookie = await signIn(key);
    expect((await send("GET", "/v1/tenants", { cookie })).status).toBe(200);
    expect((await send("GET", "/v1/audit", { cookie })).status).toBe(403);
    const me = (await (await send("GET", "/v1/me", { cookie })).json()) as { readonly scopes: readonly string[] };
    expect(me.scopes).toEqual(["tenants:read"]);
  });

  test("changes nothing without the header that other origins cannot send", async () => {
    const cookie = await signIn(server.adminKey);
    const body = { id: "forged" };
    expect((await send("POST", "/v1/tenants", { cookie }, body)).status).toBe(403);
    const crossSite = { cookie, "x-glovebox-console": "1", origin: "https://evil.example.com" };
    expect((await send("POST", "/v1/tenants", crossSite, body)).status).toBe(403);
    expect((await api("GET", "/v1/tenants/forged")).status).toBe(404);
    expect(
      (await send("POST", "/v1/tenants", { cookie, "x-glovebox-console": "1" }, { id: `made-${kind}` })).status,
    ).toBe(201);
  });

  test("two cookies, a changed one, and one next to a wrong key count as none", async () => {
    const cookie = await signIn(server.adminKey);
    const token = cookie.split("=")[1] as string;
    const changed = `glovebox_session=${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}`;
    for (const given of [`${cookie}; ${cookie}`, changed, "glovebox_session=", "glovebox_session=x y"]) {
      expect((await send("GET", "/v1/me", { cookie: given })).status).toBe(401);
    }
    expect((await send("GET", "/v1/me", { cookie, authorization: "Bearer gbx_wrong" })).status).toBe(401);
  });

  test("are listed and ended by their own key only", async () => {
    const { key } = await newKey(["tenants:read"]);
    const [first, second] = [await signIn(key), await signIn(key)];
    const list = async (cookie: string) =>
      (
        (await (await send("GET", "/v1/console/sessions", { cookie })).json()) as {
          items: readonly { id: string; isCurrent: boolean; userAgent: string }[];
        }
      ).items;
    const items = await list(first);
    expect(items.map(({ isCurrent }) => isCurrent)).toEqual([false, true]);
    expect(items[0]?.userAgent).toBe("test");
    const path = `/v1/console/sessions/${items[0]?.id}`;
    expect((await api("DELETE", path)).status).toBe(404);
    expect((await send("DELETE", path, { cookie: first, "x-glovebox-console": "1" })).status).toBe(200);
    expect((await send("GET", "/v1/me", { cookie: second })).status).toBe(401);
    expect((await send("GET", "/v1/me", { cookie: first })).status).toBe(200);
    const own = (await list(first))[0]?.id;
    const ended = await send("DELETE", `/v1/console/sessions/${own}`, { cookie: first, "x-glovebox-console": "1" });
    expect(ended.headers.get("set-cookie")).toContain("Max-Age=0");
    expect((await send("GET", "/v1/me", { cookie: first })).status).toBe(401);
  });

  test("end with their key, and with its tenant", async () => {
    const { id, key } = await newKey(["tenants:read"]);
    const cookie = await signIn(key);
    await api("DELETE", `/v1/keys/${id}`);
    expect((await send("GET", "/v1/me", { cookie })).status).toBe(401);
    await api("POST", "/v1/tenants", { id: "brief" });
    const { body } = await api<{ key: string }>("POST", "/v1/tenants/brief/keys", {
      name: "k",
      scopes: ["tenants:read"],
    });
    const own = await signIn(body.key);
    expect((await send("GET", "/v1/tenants/brief", { cookie: own })).status).toBe(200);
    await api("DELETE", "/v1/tenants/brief");
    expect((await send("GET", "/v1/me", { cookie: own })).status).toBe(401);
  });

  test("an operator lists those of all keys, in pages, and ends one at once", async () => {
    await api("POST", "/v1/tenants", { id: "listed" });
    const own = await api<{ id: string; key: string }>("POST", "/v1/tenants/listed/keys", {
      name: "k",
      scopes: ["tenants:read", "keys:read", "keys:write"],
    });
    const cookie = await signIn(own.body.key);
    await signIn(server.adminKey);
    type Session = { readonly id: string; readonly keyId: string; readonly tenantId: string | null };
    const all: Session[] = [];
    for (let query = "?limit=1"; query !== ""; ) {
      const { body } = await api<{ items: Session[]; next: string | null }>("GET", `/v1/sessions${query}`);
      expect(body.items.length).toBeLessThanOrEqual(1);
      all.push(...body.items);
      query = body.next === null ? "" : `?limit=1&cursor=${body.next}`;
    }
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    const found = all.find(({ keyId }) => keyId === own.body.id);
    expect([found?.tenantId, all.some(({ tenantId }) => tenantId === null)]).toEqual(["listed", true]);
    const path = `/v1/sessions/${found?.id}`;
    // A key of a tenant has no part of it, whatever its scopes are.
    for (const [method, url] of [
      ["GET", "/v1/sessions"],
      ["DELETE", path],
    ] as const)
      expect((await apiOf(server, own.body.key)(method, url)).status).toBe(403);
    expect((await send("GET", "/v1/tenants/listed", { cookie })).status).toBe(200);
    expect((await api("DELETE", path)).status).toBe(200);
    expect((await send("GET", "/v1/tenants/listed", { cookie })).status).toBe(401);
    expect((await api("DELETE", path)).status).toBe(404);
    const { body: audit } = await api<{ items: readonly object[] }>("GET", "/v1/tenants/listed/audit");
    expect(audit.items).toContainEqual(expect.objectContaining({ action: "console.signed_out", target: found?.id }));
  });

  test("one key has at most fifty sessions, of which the oldest end", async () => {
    const { key } = await newKey(["tenants:read"]);
    const first = await signIn(key);
    for (let n = 0; n < 50; n += 1) await signIn(key);
    const last = await signIn(key);
    expect((await send("GET", "/v1/me", { cookie: last })).status).toBe(200);
    const { items } = (await (await send("GET", "/v1/console/sessions", { cookie: last })).json()) as {
      items: readonly object[];
    };
    expect(items).toHaveLength(50);
    // With SQLite, a session that is in memory can be used for a second more.
    await expect.poll(async () => (await send("GET", "/v1/me", { cookie: first })).status).toBe(401);
  });

  test("a key can expire after minutes, for an embedded page", async () => {
    const { body } = await api<{ expiresAt: number }>("POST", "/v1/tenants/acme/keys", {
      name: "k",
      scopes: ["calls:read"],
      expiresInMinutes: 5,
    });
    expect(body.expiresAt - Date.now()).toBeGreaterThan(4 * 60_000);
    expect(body.expiresAt - Date.now()).toBeLessThanOrEqual(5 * 60_000);
    const both = { name: "k", scopes: ["calls:read"], expiresInMinutes: 5, expiresInDays: 1 };
    expect((await api("POST", "/v1/tenants/acme/keys", both)).status).toBe(422);
  });

  describe("what the console reads", () => {
    const tools = "/v1/tenants/acme/tools";
    interface Summary {
      readonly calls: number;
      readonly failed: number;
    }

    beforeAll(async () => {
      const source = "export default ({ fails, text }) => { if (fails) throw new Error('no'); return text; };";
      expect((await api("POST", tools, { name: "maybe", source })).status).toBe(201);
      for (let n = 0; n < 8; n += 1) {
        await api("POST", `${tools}/maybe/calls`, { input: { fails: n % 2 === 0, text: `50%_of!${n}` } });
      }
    });

    test("an overview has the calls of the time, and what fails", async () => {
      interface Overview {
        readonly total: Summary;
        readonly buckets: readonly Summary[];
        readonly tools: readonly (Summary & { readonly tool: string })[];
        readonly problems: readonly { readonly kind: string; readonly target: string; readonly count: number }[];
      }
      const { body } = await api<Overview>("GET", "/v1/tenants/acme/overview?buckets=10");
      expect([body.total.calls, body.total.failed, body.buckets.length]).toEqual([8, 4, 10]);
      expect(body.buckets.reduce((sum, { calls }) => sum + calls, 0)).toBe(8);
      expect(body.tools).toEqual([expect.objectContaining({ tool: "maybe", calls: 8, failed: 4 })]);
      expect(body.problems).toEqual([expect.objectContaining({ kind: "tool_failing", target: "maybe", count: 4 })]);
      const { body: all } = await api<Overview>("GET", "/v1/overview");
      expect(all.total.calls).toBe(8);
      const { body: none } = await api<Overview>("GET", `/v1/tenants/made-${kind}/overview`);
      expect([none.total.calls, none.problems]).toEqual([0, []]);
    });

    test("calls can be found by version, duration and text, whatever characters it has", async () => {
      const count = async (query: string) =>
        (await api<{ items: readonly object[] }>("GET", `/v1/tenants/acme/calls?${query}`)).body.items.length;
      expect(await count("version=1")).toBe(8);
      expect(await count("version=2")).toBe(0);
      expect(await count("minMs=600000")).toBe(0);
      expect(await count(`text=${encodeURIComponent("50%_OF!3")}`)).toBe(1);
      expect(await count(`text=${encodeURIComponent("50x_of")}`)).toBe(0);
      expect(await count(`text=${encodeURIComponent("%")}`)).toBe(8);
      expect((await api<{ items: readonly object[] }>("GET", "/v1/calls?limit=5")).body.items).toHaveLength(5);
    });

    test("versions have their source and what became of their calls", async () => {
      const { body } = await api<{ files: object; entry: string }>("GET", `${tools}/maybe/versions/1/source`);
      expect(Object.keys(body.files)).toEqual([body.entry]);
      expect((await api("GET", `${tools}/maybe/versions/9/source`)).status).toBe(404);
      const { body: stats } = await api<{ items: readonly Summary[] }>("GET", `${tools}/maybe/stats`);
      expect(stats.items).toEqual([expect.objectContaining({ version: 1, calls: 8, failed: 4 })]);
    });

    test("a draft runs once with its logs, and leaves nothing", async () => {
      const draft = (body: object) =>
        api<{ success: boolean; output: unknown; error?: { code: string } }>(
          "POST",
          "/v1/tenants/acme/drafts/calls",
          body,
        );
      const { body } = await draft({
        source: "export default ({ n }) => { console.log('hi'); return n + 1; };",
        input: { n: 1 },
      });
      expect(body).toMatchObject({ success: true, output: 2, logs: [{ message: "hi" }] });
      expect((await draft({ source: "export default () => {" })).status).toBe(422);
      const { body: failed } = await draft({ source: "export default () => { throw new Error('no'); };" });
      expect([failed.success, failed.error?.code]).toEqual([false, "TOOL_FAILED"]);
      const { body: list } = await api<{ items: readonly { name: string }[] }>("GET", tools);
      expect(list.items.map(({ name }) => name)).toEqual(["maybe"]);
      const { body: calls } = await api<{ items: readonly object[] }>("GET", "/v1/tenants/acme/calls");
      expect(calls.items).toHaveLength(8);
      const { body: audit } = await api<{ items: readonly object[] }>("GET", "/v1/tenants/acme/audit?limit=2");
      expect(audit.items).toMatchObject([
        { action: "draft.ran", details: { outcome: "TOOL_FAILED" } },
        { action: "draft.ran", details: { outcome: "ok" } },
      ]);
    });

    test("a draft gets no capability that its author may not approve", async () => {
      const source =
        "export const capabilities = { kv: {} }; export default async (_, ctx) => { await ctx.kv.set('a', 1); return 1; };";
      const { body: created } = await api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
        name: "author",
        scopes: ["tools:deploy"],
      });
      const path = "/v1/tenants/acme/drafts/calls";
      expect((await apiOf(server, created.key)("POST", path, { source })).status).toBe(403);
      expect((await api("POST", path, { source })).body).toMatchObject({ success: true, output: 1 });
    });

    test("the audit log can be verified, and the processes be listed", async () => {
      const verification = (await api("GET", "/v1/audit/verification")).body;
      expect(verification).toEqual({ isIntact: true, brokenAt: null, erased: expect.any(Number) });
      const { body } = await api<Workers>("GET", "/v1/workers");
      expect([body.pid, body.runningTotal]).toEqual([process.pid, 0]);
      expect(body.workers).toContainEqual({
        pid: expect.any(Number),
        language: "javascript",
        use: "tenant",
        state: "idle",
        tenantIds: ["acme"],
        isolates: { running: 0, warm: expect.any(Number), sessions: 0 },
        rssBytes: expect.any(Number),
      });
    });

    test("a tenant's key sees no process, because the list names other tenants", async () => {
      const { body } = await api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
        name: "all",
        scopes: SCOPES.filter((scope) => !PLATFORM_SCOPES.has(scope)),
      });
      const answer = await apiOf(server, body.key)<{ error: { code: string } }>("GET", "/v1/workers");
      expect([answer.status, JSON.stringify(answer.body).includes("tenantIds")]).toEqual([403, false]);
    });

    test("a running call can be watched by another client, and its lines come in order", async () => {
      const source =
        "export default async () => { for (let n = 0; n < 30; n += 1) { console.log('line ' + n); await new Promise((r) => setTimeout(r, 10)); } return 'done'; };";
      await api("POST", tools, { name: "talks", source });
      const { body: queued } = await api<{ id: string }>(
        "POST",
        `${tools}/talks/calls`,
        {},
        { prefer: "respond-async" },
      );
      const response = await fetch(`${server.url}/v1/tenants/acme/calls/${queued.id}/events`, {
        headers: { authorization: `Bearer ${server.adminKey}` },
      });
      const events = (await response.text()).trim().split("\n\n");
      const lines = events
        .filter((event) => event.startsWith("event: log"))
        .map((event) => /line \d+/.exec(event)?.[0]);
      expect(events.at(-1)).toMatch(/^event: result\ndata: .*"state":"succeeded"/);
      // A call that has ended before it was watched has its lines in the result only.
      expect(lines).toEqual(Array.from({ length: lines.length }, (_, n) => `line ${n}`));
      expect((await api("GET", `/v1/tenants/acme/calls/call_${"0".repeat(26)}/events`)).status).toBe(404);
      expect((await api("GET", `/v1/tenants/made-${kind}/calls/${queued.id}/events`)).status).toBe(404);
    });
  });
});

test("a filter that matches nothing reads a part of a large list only, and says where to go on", async () => {
  const { openDatabase } = await import("../../src/server/database/open-database.ts");
  const { insertTenant } = await import("../../src/server/records/tenants/tenants.ts");
  const { insertCalls } = await import("../../src/server/records/calls/calls.ts");
  const { listCalls } = await import("../../src/server/records/calls/call-list.ts");
  const store = await stores.create("sqlite");
  await using database = await openDatabase({
    ...store.options,
    url: undefined,
    dataDir: store.options.dataDir as string,
    onError: () => {},
  });
  const { db } = database;
  await insertTenant(db, { id: "acme", name: "acme", policy: {} as never });
  const rowOf = (n: number) => endedRow(n, { tool_name: n === 5 ? "rare" : "common" });
  await insertCalls(
    db,
    Array.from({ length: 25_000 }, (_, n) => rowOf(n + 1)),
  );
  const first = await listCalls(db, "acme", { tool: "rare", limit: 10 });
  expect(first.rows).toEqual([]);
  const second = await listCalls(db, "acme", { tool: "rare", limit: 10, before: first.next as string });
  expect(second.rows.map(({ created_at }) => created_at)).toEqual([5]);
  expect(second.next).toBeNull();
  const all = await listCalls(db, "acme", { limit: 10 });
  expect([all.rows.length, all.next]).toEqual([10, all.rows.at(-1)?.id]);
});
