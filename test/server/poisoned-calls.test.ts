// Calls with text that a database cannot store: they must not stop the records of other calls. On both databases.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, describe, expect, test } from "vitest";
import { CallJournal } from "../../src/server/calls/running/call-journal.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { createServer, type Server } from "../../src/server/index.ts";
import { type CallRow, findCall } from "../../src/server/records/calls/calls.ts";
import { TenantPolicySchema } from "../../src/server/records/tenants/tenant-policy.ts";
import { insertTenant } from "../../src/server/records/tenants/tenants.ts";
import { apiOf } from "./support/api.ts";
import { endedRow } from "./support/call-row.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** Text that compresses badly, so that it does not fit into an index. */
const long = Array.from({ length: 4_000 }, (_, index) => ((index * 7_919) % 251).toString(36)).join("");

async function connect({ url }: Server, key: string, endpoint: string): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${url}/v1/tenants/acme/${endpoint}`), {
      requestInit: { headers: { authorization: `Bearer ${key}` } },
    }) as never,
  );
  return client;
}

describe.for(STORES)("with %s", (kind) => {
  test.for([
    ["a NUL in its session id", { session_id: "a\u0000b" }],
    ["a NUL in its tool's name and its key's id", { tool_name: "a\u0000b", key_id: "a\u0000b" }],
    ["a name that does not fit into an index", { tool_name: long }],
    ["a usage that no column can store", { usage: '{"cpuMs":"many"}' }],
  ] as const)(
    "the journal stores a call with %s without what cannot be stored, and the others as they are",
    async ([, more]) => {
      await using store = await stores.create(kind);
      await using database = await openDatabase({
        url: store.options.database,
        dataDir: store.options.dataDir,
        onError() {},
      });
      const { db } = database;
      for (const id of ["acme", "beta"]) await insertTenant(db, { id, name: id, policy: TenantPolicySchema.parse({}) });
      const errors: unknown[] = [];
      const journal = new CallJournal(db, (error) => errors.push(error));
      const now = Date.now();
      const failed = {
        state: "failed",
        output: null,
        error: '{"code":"TOOL_UNAVAILABLE","message":"No tool"}',
      } as const;
      const poisoned = endedRow(now, { ...failed, ...more });
      const others = [endedRow(now, { tenant_id: "beta" }), endedRow(now, { tenant_id: "beta", output: "2" })];
      for (const row of [others[0], poisoned, others[1]]) void journal.add({ row: row as CallRow });
      await journal.flush();
      for (const row of others) expect(await findCall(db, "beta", row.id)).toMatchObject({ output: row.output });
      const stored = (await findCall(db, "acme", poisoned.id)) as CallRow;
      expect(stored).toMatchObject({ state: "failed", effects: poisoned.effects, ended_at: poisoned.ended_at });
      expect(JSON.parse(stored.error ?? "{}")).toMatchObject({ code: "TOOL_UNAVAILABLE" });
      const usage = await db
        .selectFrom("usage")
        .select(["tenant_id", "outcome", "calls"])
        .orderBy("tenant_id")
        .execute();
      expect(usage).toEqual([
        { tenant_id: "acme", outcome: "TOOL_UNAVAILABLE", calls: 1 },
        { tenant_id: "beta", outcome: "ok", calls: 2 },
      ]);
      // SQLite stores some of them as they are.
      const isOdd = stored.session_id === poisoned.session_id && stored.tool_name === poisoned.tool_name;
      expect(errors.length).toBe(isOdd && !("usage" in more) ? 0 : 1);
      await journal[Symbol.asyncDispose]();
    },
  );

  test("a request cannot add such a call: the call of another tenant is recorded", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    for (const id of ["acme", "beta"]) {
      expect((await api("POST", "/v1/tenants", { id })).status).toBe(201);
      const tool = { name: "one", source: "export default () => 1;" };
      expect((await api("POST", `/v1/tenants/${id}/tools`, tool)).status).toBe(201);
    }
    const path = "/v1/tenants/acme/tools/one/calls";
    const rejected = await api<{ error: { code: string; message: string } }>("POST", path, { sessionId: "a\u0000b" });
    expect([rejected.status, rejected.body.error.code]).toEqual([422, "INVALID"]);
    expect(rejected.body.error.message).toContain("sessionId: ");
    const { body: key } = await api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
      name: "mcp",
      scopes: ["calls:run", "tools:read", "calls:read"],
    });
    const client = await connect(server, key.key, "mcp");
    const calling = ["a\u0000b", "\ud800", "a\nb", long].map((name) =>
      client.callTool({ name, arguments: {} }).catch((thrown: unknown) => thrown),
    );
    expect((await api("POST", "/v1/tenants/beta/tools/one/calls", {})).body).toMatchObject({ output: 1 });
    for (const error of await Promise.all(calling))
      expect(error).toMatchObject({ message: expect.stringContaining("Unknown tool") });
    const cursor = Buffer.from("a\u0000b").toString("base64url");
    await expect(client.listTools({ cursor })).rejects.toMatchObject({ code: -32_602 });
    await client.close();
    const codeMode = await connect(server, key.key, "code-mode/mcp");
    const unknown = await codeMode.callTool({ name: "get_run", arguments: { id: "a\u0000b" } });
    expect(JSON.stringify(unknown)).toContain("PARAM_INVALID");
    await codeMode.close();
    const { body } = await api<{ items: { output: unknown }[] }>("GET", "/v1/tenants/beta/calls");
    expect(body.items).toEqual([expect.objectContaining({ output: 1 })]);
    const { body: own } = await api<{ items: { tool: string }[] }>("GET", "/v1/tenants/acme/calls");
    expect(own.items.map(({ tool }) => tool)).toEqual(["get_run"]);
  });

  test("a call that makes a call of an impossible name is recorded", async () => {
    await using store = await stores.create(kind);
    await using server = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const api = apiOf(server);
    await api("POST", "/v1/tenants", { id: "acme" });
    const source = `export const capabilities = { tools: true, kv: true };
      export default async ({ name }, ctx) => {
        await ctx.kv.set("a\\u0000b", "a\\u0000b");
        console.log("a\\u0000b");
        try { await ctx.tools[name]({}); } catch (error) { return error.message; }
      };`;
    expect((await api("POST", "/v1/tenants/acme/tools", { name: "calls", source, approve: true })).status).toBe(201);
    for (const name of ["a\u0000b", "a\nb", long]) {
      const { status, body } = await api("POST", "/v1/tenants/acme/tools/calls/calls", { input: { name } });
      expect([status, body.state, body.error]).toEqual([200, "succeeded", null]);
    }
    const { body } = await api<{ items: { tool: string }[] }>("GET", "/v1/tenants/acme/calls?nested=true");
    expect(body.items.filter(({ tool }) => tool === "calls")).toHaveLength(3);
    for (const { tool } of body.items) expect(tool).toMatch(/^[A-Za-z0-9_.-]{1,128}$/);
  });
});
