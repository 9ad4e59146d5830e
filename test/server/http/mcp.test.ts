// A tenant's tools over MCP and in OpenAI's format, with the keys of the API, from a real server.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServer, type Server } from "../../../src/server/index.ts";

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

async function connect(tenant: string, key: string): Promise<Client> {
  const client = new Client({ name: "test", version: "1.0.0" });
  const url = new URL(`${server.url}/v1/tenants/${tenant}/mcp`);
  await client.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${key}` } } }) as never,
  );
  return client;
}

beforeAll(async () => {
  server = await createServer({ port: 0, dataDir: folder, logLevel: "silent" });
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

test("the tools in OpenAI's format have the names and schemas of the live versions", async () => {
  const { tools, names } = (await api("GET", "/v1/tenants/acme/openai/tools", undefined, keys.acme)) as {
    tools: { type: string; name: string; parameters: { required: string[] } }[];
    names: Record<string, string>;
  };
  expect(tools.map(({ type, name }) => [type, name])).toEqual([["function", "add"]]);
  expect(tools[0]?.parameters.required).toEqual(["a", "b"]);
  expect(names).toEqual({ add: "add" });
});
