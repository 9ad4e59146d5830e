// The OpenAPI document of the MCP endpoints and of triggers against a real server: each request is one that the document describes, and each
// response has a status, a type and a body that it names.
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

interface Content {
  readonly [type: string]: { readonly schema: object };
}
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: {
    readonly [status: string]: {
      readonly content?: Content;
      readonly headers?: { readonly [name: string]: unknown };
    };
  };
}
interface OpenApi {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
  readonly components: object;
}
interface Sent {
  readonly body?: unknown;
  readonly headers?: { readonly [name: string]: string };
  /** Whether the document describes the body. @default true */
  readonly isValid?: boolean;
}
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: { readonly [name: string]: unknown };
}

const MAX_BODY_BYTES = 65_536;
const folder = mkdtempSync(join(tmpdir(), "glovebox-protocol-documents-"));
const MCP = "/v1/tenants/{tenant}/mcp";
const JSON_AND_STREAM = { accept: "application/json, text/event-stream" };
const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
let server: Server;
let document: OpenApi;

beforeAll(async () => {
  server = await createServer({
    port: 0,
    dataDir: folder,
    logLevel: "silent",
    limits: PATIENT_LIMITS,
    maxBodyBytes: MAX_BODY_BYTES,
  });
  document = (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApi;
  await manage("/v1/tenants", { id: "acme" });
  await manage("/v1/tenants/acme/tools", { name: "echo", source: "export default (input) => input;" });
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

async function manage(path: string, body: object, method = "POST"): Promise<{ readonly [name: string]: unknown }> {
  const headers = { authorization: `Bearer ${server.adminKey}`, "content-type": "application/json" };
  const response = await fetch(`${server.url}${path}`, { method, headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
  return (await response.json()) as { readonly [name: string]: unknown };
}

/** Expects a value to be what a schema of the document describes. */
function expectDocumented(schema: object, value: unknown): void {
  const compiled = compileSchema({ ...schema, components: document.components });
  expect([value, compiled.validate(value, { budgetMs: 10_000 })]).toMatchObject([value, { valid: true }]);
}

/** Sends a request, and compares it and its response with the document. */
async function send(method: string, path: string, { body, headers = {}, isValid = true }: Sent = {}): Promise<Answer> {
  const operation = document.paths[path]?.[method.toLowerCase()] as Operation;
  const names = (operation.parameters ?? []).filter((one) => one.in === "header").map(({ name }) => name);
  const own = Object.keys(headers).filter((name) => !["accept", "authorization", "content-type"].includes(name));
  expect(names).toEqual(expect.arrayContaining(own));
  if (body !== undefined && isValid)
    expectDocumented(operation.requestBody?.content["application/json"]?.schema ?? { not: {} }, body);
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(`${server.url}${path.replace("{tenant}", "acme")}`, {
    method,
    headers: {
      authorization: `Bearer ${server.adminKey}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: text }),
  });
  return await check(operation, response);
}

async function check({ responses }: Operation, response: Response): Promise<Answer> {
  const documented = responses[response.status];
  expect([response.status, documented]).toEqual([response.status, expect.anything()]);
  for (const name of ["mcp-session-id", "retry-after"]) {
    const known = Object.keys(documented?.headers ?? {}).map((one) => one.toLowerCase());
    if (response.headers.has(name)) expect(known).toContain(name);
  }
  const type = response.headers.get("content-type")?.split(";")[0] ?? "";
  const isStream = type === "text/event-stream";
  const text = await response.text();
  if (text === "") {
    expect(documented?.content).toBeUndefined();
    return { status: response.status, headers: response.headers, body: {} };
  }
  const { schema } = documented?.content?.[type] ?? { schema: { not: {} } };
  if (!isStream) {
    expectDocumented(schema, JSON.parse(text));
    return { status: response.status, headers: response.headers, body: JSON.parse(text) };
  }
  expectDocumented(schema, text);
  const data = [...text.matchAll(/^data: (.+)$/gm)].map(([, line = ""]) => JSON.parse(line) as unknown);
  const last = data.at(-1) as Answer["body"];
  // The last event is the response, as JSON would have it.
  const json = documented?.content?.["application/json"]?.schema;
  if (json !== undefined) expectDocumented(json, last);
  return { status: response.status, headers: response.headers, body: last };
}

const rpc = (method: string, params?: object, id: number | undefined = 1): object => ({
  jsonrpc: "2.0",
  method,
  ...(id === undefined ? {} : { id }),
  ...(params === undefined ? {} : { params }),
});

test.for([MCP, "/v1/tenants/{tenant}/code-mode/mcp"])("sessions of 2025 at %s are as documented", async (path) => {
  const clientInfo = { name: "raw", version: "1" };
  const initialize = rpc("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
  const begun = await send("POST", path, { body: initialize, headers: JSON_AND_STREAM });
  const session = begun.headers.get("mcp-session-id") ?? "";
  expect([begun.status, session.length]).toEqual([200, 36]);
  const headers = { ...JSON_AND_STREAM, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" };
  const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };
  expect((await send("POST", path, { body: initialized, headers })).status).toBe(202);
  const { body: listed } = await send("POST", path, { body: rpc("tools/list", {}, 2), headers });
  expect(listed).toMatchObject({ id: 2, result: { tools: expect.any(Array) } });
  const unknown = await send("POST", path, { body: rpc("nonsense", {}, 3), headers });
  expect([unknown.status, unknown.body]).toMatchObject([200, { error: { code: -32_601 } }]);

  const status = async (method: string, sent: Sent): Promise<number> => (await send(method, path, sent)).status;
  expect(await status("POST", { body: rpc("ping"), headers: { ...headers, accept: "application/json" } })).toBe(406);
  expect(await status("POST", { body: rpc("ping"), headers: JSON_AND_STREAM })).toBe(400);
  expect(await status("POST", { body: rpc("ping"), headers: { ...headers, "mcp-session-id": "other" } })).toBe(404);
  expect(
    await status("POST", { body: rpc("ping"), headers: { ...headers, "mcp-protocol-version": "1999-01-01" } }),
  ).toBe(400);
  expect(await status("GET", { headers: { ...headers, accept: "application/json" } })).toBe(406);
  expect(await status("GET", { headers: { ...headers, "mcp-session-id": "other" } })).toBe(404);
  expect(await status("GET", { headers: { accept: "text/event-stream" } })).toBe(400);

  const stop = new AbortController();
  const stream = await fetch(`${server.url}${path.replace("{tenant}", "acme")}`, {
    headers: { authorization: `Bearer ${server.adminKey}`, ...headers },
    signal: stop.signal,
  });
  expect([stream.status, stream.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  expect(Object.keys(document.paths[path]?.get?.responses[200]?.content ?? {})).toEqual(["text/event-stream"]);
  expect(await status("GET", { headers })).toBe(409);
  stop.abort();

  expect(await status("DELETE", { headers })).toBe(200);
  expect(await status("DELETE", { headers })).toBe(404);
  expect(await status("DELETE", {})).toBe(400);
});

test("requests of 2026-07-28 are as documented", async () => {
  const headersOf = (method: string, name?: string) => ({
    ...JSON_AND_STREAM,
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(name === undefined ? {} : { "mcp-name": name }),
  });
  const ask = (method: string, params: object = {}, name?: string): Promise<Answer> =>
    send("POST", MCP, { body: rpc(method, { ...params, _meta: MODERN_META }), headers: headersOf(method, name) });
  expect((await ask("tools/list")).body).toMatchObject({ result: { tools: [{ name: "echo" }] } });
  const called = await ask("tools/call", { name: "echo", arguments: { a: 1 } }, "echo");
  expect(called.body).toMatchObject({ id: 1, result: { content: [{ type: "text", text: '{"a":1}' }] } });
  const unknown = await ask("nonsense");
  expect([unknown.status, unknown.body]).toMatchObject([404, { error: { code: -32_601 } }]);
  const differs = await send("POST", MCP, {
    body: rpc("tools/list", { _meta: MODERN_META }),
    headers: headersOf("tools/call", "echo"),
  });
  expect(differs.status).toBe(400);
  for (const method of ["GET", "DELETE"]) {
    const { status, headers } = await send(method, MCP, {
      headers: { ...JSON_AND_STREAM, "mcp-protocol-version": "2026-07-28" },
    });
    expect([method, status, headers.get("allow")]).toEqual([method, 405, "POST"]);
  }
});

test("requests to MCP that are rejected are answered as documented", async () => {
  const body = rpc("ping");
  const limited = (await manage("/v1/tenants/acme/keys", { name: "reader", scopes: ["tools:read"] })).key;
  const cases: readonly (readonly [number, Sent])[] = [
    [400, { body: "{", isValid: false }],
    [400, { body: [body], isValid: false }],
    [401, { body, headers: { authorization: "Bearer none" } }],
    [403, { body, headers: { authorization: `Bearer ${limited}` } }],
    [413, { body: rpc("ping", { text: "x".repeat(MAX_BODY_BYTES) }) }],
    [415, { body, headers: { "content-type": "text/plain" } }],
  ];
  for (const [status, sent] of cases) expect((await send("POST", MCP, sent)).status).toBe(status);
  // A message that the document does not describe is not accepted either.
  const operation = document.paths[MCP]?.post as Operation;
  const compiled = compileSchema({
    ...(operation.requestBody?.content["application/json"]?.schema ?? {}),
    components: document.components,
  });
  for (const message of [{ ...body, more: 1 }, { ...body, jsonrpc: "1.0" }, { ...body, id: 1.5 }, {}, []]) {
    expect(compiled.validate(message, { budgetMs: 10_000 }).valid).toBe(false);
    expect((await send("POST", MCP, { body: message, isValid: false })).status).toBe(400);
  }
});

test("requests to triggers are as documented", async () => {
  const hook = "/hooks/{trigger}";
  const secret = "a-secret-of-github-0123";
  const trigger = await manage("/v1/tenants/acme/triggers", {
    name: "github",
    tool: "echo",
    verification: "github",
    secret,
  });
  const operation = document.paths[hook]?.post as Operation;
  const names = (operation.parameters ?? []).filter((one) => one.in === "header").map(({ name }) => name);
  expect(names).toEqual(["webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256"]);
  const sign = (text: string): string => `sha256=${createHmac("sha256", secret).update(text).digest("hex")}`;
  const call = async (text: string, path = String(trigger.path), signature = sign(text)): Promise<number> => {
    const headers = { "x-hub-signature-256": signature };
    return (await check(operation, await fetch(`${server.url}${path}`, { method: "POST", headers, body: text })))
      .status;
  };
  const body = JSON.stringify({ ref: "main" });
  expectDocumented(operation.requestBody?.content["application/json"]?.schema ?? { not: {} }, JSON.parse(body));
  expect(await call(body)).toBe(202);
  expect(await call(body)).toBe(202);
  expect(await call(body, undefined, "sha256=00")).toBe(401);
  expect(await call(body, `/hooks/trigger_${"0".repeat(26)}`)).toBe(401);
  expect(await call(body, "/hooks/trigger")).toBe(422);
  expect(await call("{")).toBe(400);
  expect(await call("[]")).toBe(422);
  expect(await call(JSON.stringify({ text: "x".repeat(1024 * 1024) }))).toBe(413);
  // The same id with another body.
  const standard = await manage("/v1/tenants/acme/triggers", { name: "standard", tool: "echo" });
  const key = Buffer.from(String(standard.secret).slice("whsec_".length), "base64");
  const send = async (text: string): Promise<number> => {
    const time = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac("sha256", key).update(`msg_1.${time}.${text}`).digest("base64");
    const headers = { "webhook-id": "msg_1", "webhook-timestamp": time, "webhook-signature": `v1,${signature}` };
    const response = await fetch(`${server.url}${standard.path}`, { method: "POST", headers, body: text });
    return (await check(operation, response)).status;
  };
  expect([await send(body), await send(body), await send('{"ref":"other"}')]).toEqual([202, 202, 409]);
  await manage("/v1/tenants/acme", { policy: { maxStoredBytes: 0 } }, "PATCH");
  expect(await call('{"ref":"next"}')).toBe(429);
  expect(Object.keys(operation.responses).sort()).toEqual(["202", "400", "401", "409", "413", "422", "429"]);
});
