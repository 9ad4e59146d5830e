// A tenant's tools over MCP and in OpenAI's format, with the keys of the API, from a real server.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

const folder = mkdtempSync(join(tmpdir(), "glovebox-tenant-mcp-"));
const SOURCE = `export const description = "Adds";
export const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
export default ({ a, b }) => a + b;`;
let server: Server;
let keys: { readonly acme: string; readonly beta: string };

async function api(method: string, path: string, body?: unknown, key = server.adminKey): Promise<unknown> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return await response.json();
}

async function createKey(tenant: string): Promise<string> {
  const scopes = ["calls:run", "tools:read", "calls:read"];
  return ((await api("POST", `/v1/tenants/${tenant}/keys`, { name: "mcp", scopes })) as { key: string }).key;
}

async function connect(tenant: string, key: string, endpoint = "mcp"): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  const url = new URL(`${server.url}/v1/tenants/${tenant}/${endpoint}`);
  await client.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${key}` } } }) as never,
  );
  return client;
}

beforeAll(async () => {
  server = await createServer({ port: 0, dataDir: folder, logLevel: "silent", limits: PATIENT_LIMITS });
  for (const id of ["acme", "beta"]) await api("POST", "/v1/tenants", { id });
  keys = { acme: await createKey("acme"), beta: await createKey("beta") };
  await api("POST", "/v1/tenants/acme/tools", { source: SOURCE, name: "add" });
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

test("an MCP client lists and calls the tools of its key's tenant, and the call is recorded", async () => {
  const client = await connect("acme", keys.acme);
  try {
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["add"]);
    const result = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    expect(result.content).toEqual([expect.objectContaining({ type: "text", text: "3" })]);
  } finally {
    await client.close();
  }
  const { items } = (await api("GET", "/v1/tenants/acme/calls", undefined, keys.acme)) as {
    items: { tool: string; output: unknown; state: string }[];
  };
  expect(items).toEqual([
    expect.objectContaining({ tool: "add", output: 3, state: "succeeded", input: { a: 1, b: 2 } }),
  ]);
});

test("a key of another tenant reaches no tools over MCP", async () => {
  await expect(connect("acme", keys.beta)).rejects.toThrow();
  const client = await connect("beta", keys.beta);
  try {
    expect((await client.listTools()).tools).toEqual([]);
    const result = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } }).catch((error: unknown) => error);
    expect(JSON.stringify(result) + String(result)).not.toContain('"3"');
  } finally {
    await client.close();
  }
});

test("code mode serves three tools, whose code calls the tenant's tools, and records both", async () => {
  const client = await connect("acme", keys.acme, "code-mode/mcp");
  try {
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["get_run", "run_code", "search_tools"]);
    const found = await client.callTool({ name: "search_tools", arguments: { query: "add" } });
    expect(JSON.stringify(found.content)).toContain("tools.add(input: {");
    const code = "const sums = await Promise.all([1, 2].map((n) => tools.add({ a: n, b: 10 }))); return sums";
    const result = await client.callTool({ name: "run_code", arguments: { code } });
    expect(result.structuredContent).toMatchObject({
      status: "ok",
      value: [11, 12],
      calls: [{ tool: "add", count: 2 }],
    });
    const wrong = await client.callTool({ name: "run_code", arguments: { code: "return await tools.add({ a: 1 })" } });
    expect(wrong.structuredContent).toMatchObject({ status: "rejected" });
  } finally {
    await client.close();
  }
  await expect
    .poll(async () => {
      const { items } = (await api("GET", "/v1/tenants/acme/calls?tool=run_code", undefined, keys.acme)) as {
        items: { tool: string; state: string; output: { status: string } }[];
      };
      return items.map(({ state, output }) => [state, output.status]).sort();
    })
    .toEqual([
      ["succeeded", "ok"],
      ["succeeded", "rejected"],
    ]);
  await expect(connect("acme", keys.beta, "code-mode/mcp")).rejects.toThrow();
});

test("the tools in OpenAI's format have the names and schemas of the live versions", async () => {
  const { tools, names } = (await api("GET", "/v1/tenants/acme/openai/tools", undefined, keys.acme)) as {
    tools: { type: string; name: string; parameters: { required: string[] } }[];
    names: Record<string, string>;
  };
  expect(tools.map(({ type, name }) => [type, name])).toEqual([["function", "add"]]);
  expect(tools[0]?.parameters.required).toEqual(["a", "b"]);
  expect(names).toEqual({ add: "add" });
});

test("lists in OpenAI's format and over MCP come in pages, and a call needs no list", async () => {
  const path = "/v1/tenants/acme/tools";
  for (const name of ["many.a", "many.b", "many.c"]) {
    const source = `export default () => ${JSON.stringify(name)};`;
    expect(await api("POST", path, { name, source })).toMatchObject({ release: { alias: "live" } });
  }
  const names: string[] = [];
  let cursor: string | null = null;
  do {
    const query = cursor === null ? "?limit=2" : `?limit=2&cursor=${cursor}`;
    const page = (await api("GET", `/v1/tenants/acme/openai/tools${query}`, undefined, keys.acme)) as {
      names: Record<string, string>;
      next: string | null;
    };
    expect(Object.keys(page.names).length).toBeLessThanOrEqual(2);
    names.push(...Object.values(page.names));
    cursor = page.next;
  } while (cursor !== null);
  expect(names.toSorted()).toEqual(["add", "many.a", "many.b", "many.c"]);
  const client = await connect("acme", keys.acme);
  expect(await client.callTool({ name: "many.b", arguments: {} })).toMatchObject({
    content: [{ text: expect.stringContaining("many.b") }],
  });
  expect((await client.listTools()).tools.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  await client.close();
});
