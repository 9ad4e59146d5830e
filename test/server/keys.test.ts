// Keys that keys create: never with more than their creator has, also in time and in rate.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { insertKey } from "../../src/server/records/tenants/api-keys.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Key {
  readonly id: string;
  readonly key: string;
  readonly expiresAt: number | null;
  readonly rateLimit: object | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme"]);
  const { api } = under;

  test("a tenant cannot have the id of a key, whose counters it would share", async () => {
    const { body: key } = await api<Key>("POST", "/v1/tenants/acme/keys", { name: "counted", scopes: ["calls:run"] });
    const { status, body } = await api<{ error?: { message: string } }>("POST", "/v1/tenants", { id: key.id });
    expect([status, body.error?.message]).toEqual([422, "id: Expected an id that does not begin with key_"]);
  });

  test("a key that is revoked while it sends a body slowly changes nothing", async () => {
    const scopes = ["keys:write", "keys:read"];
    const created = await api<Key>("POST", "/v1/tenants/acme/keys", { name: "stolen", scopes });
    const { hostname, port, host } = new URL(under.server.url);
    const body = JSON.stringify({ name: "hidden", scopes });
    const lines = [`Host: ${host}`, `Authorization: Bearer ${created.body.key}`, "Content-Type: application/json"];
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    const length = Buffer.byteLength(body);
    socket.write(`POST /v1/tenants/acme/keys HTTP/1.1\r\n${lines.join("\r\n")}\r\nContent-Length: ${length}\r\n\r\n`);
    socket.write(body.slice(0, 5));
    // The server has checked the key, and waits for the rest.
    await sleep(1_000);
    expect((await api("DELETE", `/v1/tenants/acme/keys/${created.body.id}`)).status).toBe(200);
    socket.write(body.slice(5));
    const [answer] = await once(socket, "data");
    expect(String(answer)).toMatch(/^HTTP\/1\.1 401 /);
    const { body: keys } = await api<{ items: readonly { name: string }[] }>("GET", "/v1/tenants/acme/keys");
    expect(keys.items.map(({ name }) => name)).not.toContain("hidden");
  });

  test("a key that is revoked while it sends a request over MCP slowly calls no tool", async () => {
    await api("POST", "/v1/tenants/acme/tools", { name: "late", source: "export default () => 1" });
    const waits = "export default () => new Promise((resolve) => setTimeout(resolve, 250_000));";
    await api("POST", "/v1/tenants/acme/tools", { name: "waits", source: waits });
    const scopes = ["calls:run", "tools:read"];
    const created = await api<Key>("POST", "/v1/tenants/acme/keys", { name: "stolen", scopes });
    const { hostname, port, host } = new URL(under.server.url);
    const version = "2026-07-28";
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name: "late",
        arguments: {},
        _meta: {
          "io.modelcontextprotocol/protocolVersion": version,
          "io.modelcontextprotocol/clientInfo": { name: "test", version: "1.0.0" },
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    });
    const lines = [
      ...[`Host: ${host}`, `Authorization: Bearer ${created.body.key}`, "Content-Type: application/json"],
      ...["Accept: application/json, text/event-stream", `MCP-Protocol-Version: ${version}`],
      ...["Mcp-Method: tools/call", "Mcp-Name: late", `Content-Length: ${Buffer.byteLength(body)}`],
    ];
    const callsOf = async (): Promise<readonly unknown[]> =>
      (await api<{ items: readonly unknown[] }>("GET", "/v1/tenants/acme/calls?tool=late")).body.items;
    const send = (): Socket => {
      const socket = connect(Number(port), hostname);
      onTestFinished(() => void socket.destroy());
      socket.write(`POST /v1/tenants/acme/mcp HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
      socket.write(body.slice(0, 5));
      return socket;
    };
    // What is sent is a call: it counts while the key is valid.
    const valid = send();
    await sleep(1_000);
    valid.write(body.slice(5));
    await expect.poll(callsOf).toHaveLength(1);
    const revoked = send();
    await sleep(1_000);
    // It ends when the server has noticed that its sender does not count any more.
    const open = await fetch(`${under.server.url}/v1/tenants/acme/tools/waits/calls`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${created.body.key}`,
        accept: "text/event-stream",
        "content-type": "application/json",
      },
      body: "{}",
    });
    expect((await api("DELETE", `/v1/tenants/acme/keys/${created.body.id}`)).status).toBe(200);
    await open.text().catch(() => {});
    const closed = once(revoked, "close");
    revoked.write(body.slice(5));
    revoked.resume();
    await Promise.race([closed, sleep(5_000)]);
    expect(await callsOf()).toHaveLength(1);
  });

  test.for(["/v1/keys", "/v1/tenants/acme/keys"])(
    "a key of %s passes on neither more time nor a higher rate",
    async (path) => {
      const scopes = ["keys:write", "keys:read"];
      const rateLimit = { calls: 600, per: "minute", burst: 100 };
      const created = await api<Key>("POST", path, { name: "short", scopes, expiresInDays: 2, rateLimit });
      expect(created.status).toBe(201);
      const { expiresAt, key } = created.body;
      const send = (more: object) => apiOf(under.server, key)<Key>("POST", path, { name: "child", scopes, ...more });

      const plain = await send({});
      expect([plain.status, plain.body.expiresAt, plain.body.rateLimit]).toEqual([201, expiresAt, rateLimit]);
      const tighter = { calls: 5, per: "second" };
      const lower = await send({ expiresInMinutes: 5, rateLimit: tighter });
      expect([lower.status, lower.body.rateLimit]).toEqual([201, tighter]);
      expect(lower.body.expiresAt).toBeLessThan(expiresAt as number);

      expect(await send({ expiresInDays: 3 })).toMatchObject({
        status: 403,
        body: { error: { message: expect.stringContaining("expiresInDays: This key expires at") } },
      });
      for (const looser of [
        { calls: 601, per: "minute", burst: 100 },
        { calls: 11, per: "second" },
        // As many in a minute, but more at once.
        { calls: 600, per: "minute" },
      ])
        expect(await send({ rateLimit: looser })).toMatchObject({
          status: 403,
          body: { error: { message: expect.stringContaining("rateLimit: Expected at most that of this key") } },
        });
      // And so do the keys of its keys.
      const grandchild = await apiOf(under.server, plain.body.key)<Key>("POST", path, { name: "of a child", scopes });
      expect([grandchild.body.expiresAt, grandchild.body.rateLimit]).toEqual([expiresAt, rateLimit]);
      // A console session has what its key has.
      const session = await fetch(`${under.server.url}/v1/console/sessions`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: under.server.url },
        body: JSON.stringify({ key }),
      });
      const cookie = (session.headers.get("set-cookie") ?? "").split(";")[0] as string;
      const inSession = await fetch(`${under.server.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: under.server.url, cookie, "x-glovebox-console": "1" },
        body: JSON.stringify({ name: "of a session", scopes }),
      });
      expect(((await inSession.json()) as Key).expiresAt).toBe(expiresAt);
    },
  );

  test("a key without an end or a limit passes on what it is told to", async () => {
    const { body } = await api<Key>("POST", "/v1/tenants/acme/keys", { name: "free", scopes: ["calls:run"] });
    expect([body.expiresAt, body.rateLimit]).toEqual([null, null]);
  });

  test("the keys that a revoked key has created stay valid", async () => {
    const path = "/v1/tenants/acme/keys";
    const scopes = ["keys:write", "keys:read"];
    const parent = await api<Key>("POST", path, { name: "parent", scopes });
    const child = await apiOf(under.server, parent.body.key)<Key>("POST", path, { name: "child", scopes });
    expect((await api("DELETE", `${path}/${parent.body.id}`)).status).toBe(200);
    expect((await apiOf(under.server, parent.body.key)("GET", "/v1/me")).status).toBe(401);
    expect((await apiOf(under.server, child.body.key)("GET", "/v1/me")).status).toBe(200);
    // Which ones they are is in the audit log.
    const { items } = (await api("GET", "/v1/tenants/acme/audit?limit=200")).body as {
      items: { action: string; actor: string; target: string }[];
    };
    const ofParent = items.filter(({ action, actor }) => action === "key.created" && actor === `key:${parent.body.id}`);
    expect(ofParent.map(({ target }) => target)).toEqual([child.body.id]);
  });

  test("lists keys in pages, and limits how many are valid", async () => {
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    await insertTenant(database.db, { id: "many", name: "many", policy: TenantPolicySchema.parse({}) });
    const idOf = (index: number): string => `key_${String(index).padStart(26, "0")}`;
    const row = (index: number) => ({
      id: idOf(index),
      tenantId: "many",
      name: "n",
      prefix: "gbx_",
      hash: `many ${index}`,
      scopes: [],
      expiresAt: index < 3 ? 1_000 : null,
      rateLimit: null,
    });
    for (let index = 0; index < 1_000; index += 1) await insertKey(database.db, row(index));
    const path = "/v1/tenants/many/keys";
    const first = await api<{ items: { id: string }[]; next: string }>("GET", `${path}?limit=2`);
    expect([first.body.items.map(({ id }) => id), first.body.next]).toEqual([[idOf(0), idOf(1)], idOf(1)]);
    const second = await api<{ items: { id: string }[] }>("GET", `${path}?limit=2&cursor=${first.body.next}`);
    expect(second.body.items.map(({ id }) => id)).toEqual([idOf(2), idOf(3)]);
    // The three that have expired make room.
    const create = () => api("POST", path, { name: "new", scopes: ["calls:run"] });
    for (let count = 0; count < 3; count += 1) expect((await create()).status).toBe(201);
    expect(await create()).toMatchObject({
      status: 422,
      body: { error: { message: "A tenant can have at most 1000 valid keys" } },
    });
  });

  test("limits the aliases of a tool", async () => {
    const tools = "/v1/tenants/acme/tools";
    await api("POST", tools, { name: "named", source: "export default () => 1" });
    const set = (alias: string) =>
      api("PUT", `${tools}/named/releases/${alias}`, { versions: [{ version: 1, weight: 1 }] });
    for (let count = 1; count < 100; count += 1) expect((await set(`alias-${count}`)).status).toBe(200);
    expect(await set("alias-100")).toMatchObject({ status: 429, body: { error: { code: "QUOTA_EXCEEDED" } } });
    expect((await set("alias-99")).status).toBe(200);
  });
});
