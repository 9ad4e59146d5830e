// Tests the MCP server with the SDK's client: sandboxed tools in both protocol eras, over HTTP and stdio.
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { serve } from "@hono/node-server";
import { Client, type ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpRequest } from "../../../src/host/mcp/server/authorization/caller.ts";
import { createMcpHandler, type McpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import type { McpHandlerOptions } from "../../../src/host/mcp/server/options.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

const ADD = `
  export const description = "Adds two numbers";
  export const annotations = { title: "Add", readOnlyHint: true };
  export const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
  export const outputSchema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
  export default ({ a, b }) => ({ sum: a + b });`;
const SHOW = `
  import { content, image, text } from "glovebox/tool";
  export default () => content([text("a chart"), image(new Uint8Array([1, 2, 3]), "image/png")]);`;
const STEPS = `export default async (input, ctx) => {
  for (const progress of [1, 2, 2, 3]) ctx.progress({ progress, total: 3, message: "step " + progress });
  console.warn("careful");
  return ctx.tenantId;
};`;
const ASK = `export default async (input, { elicit, sample, roots }) => {
  const [size, place] = await Promise.all([
    elicit({ message: "Which size?", requestedSchema: { type: "object", properties: { size: { type: "integer" } }, required: ["size"] } }),
    roots(),
  ]);
  const said = await sample({ messages: [{ role: "user", content: { type: "text", text: "Say it" } }], maxTokens: 10 });
  return { size: size.content.size, roots: place.roots.length, said: said.content.text };
};`;

/** A tool whose second request would get the name of the first one if names were only counted. */
const TWICE = `export default async (input, { elicit }) => {
  const form = (title) => ({ type: "object", properties: { size: { type: "integer", title } } });
  const answers = await Promise.all([
    elicit({ key: "q2", message: "First?", requestedSchema: form("a") }),
    elicit({ message: "Second?", requestedSchema: form("b") }),
    elicit({ key: "q2", message: "Third?", requestedSchema: form("c") }),
  ]);
  return answers.length;
};`;

const ASKS_ON = `export default async (input, { elicit }) => {
  for (let answers = 0; ; answers += 1) {
    try {
      await elicit({ message: "Well?", requestedSchema: { type: "object", properties: {} } });
    } catch (error) {
      return { answers, rejected: error.message };
    }
  }
};`;
const TALKS = `export default async ({ what, request }, ctx) => await ctx[what](request)`;

let glovebox: Glovebox;
let url: URL;

async function listen(options: McpHandlerOptions): Promise<{ readonly url: URL }> {
  const made = createMcpHandler(glovebox, options);
  const { promise, resolve } = Promise.withResolvers<AddressInfo>();
  const server = serve({ fetch: made.fetch, port: 0, hostname: "127.0.0.1" }, resolve);
  const { port } = await promise;
  closers.push(async () => {
    await made.close();
    (server as unknown as { closeAllConnections(): void }).closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });
  return { url: new URL(`http://127.0.0.1:${port}/mcp`) };
}
const closers: (() => Promise<void>)[] = [];

beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: 120_000 } });
  const global = async (name: string, source: string, capabilities = {}) => {
    await glovebox.addTool({ name, source, overrides: { capabilities } }, { scope: "global" });
  };
  await global("add", ADD);
  await global("show", SHOW);
  await global("steps", STEPS);
  await global("ask", ASK, { elicit: true, sample: true, roots: true });
  await global("twice", TWICE, { elicit: true });
  await global("talks", TALKS, { elicit: true, sample: true });
  await global("asks_on", ASKS_ON, { elicit: true });
  await global("pause", "export default ({ ms }) => new Promise((resolve) => setTimeout(resolve, ms))");
  await global("text", "export const inputSchema = { type: 'string' }; export default (text) => text.length");
  await global("list", "export const outputSchema = { type: 'array' }; export default () => [1, 2]");
  await global("fails", "export default () => { throw new Error('no such thing in /etc/shadow') }");
  const loop = "export default () => { for (;;); }";
  await glovebox.addTool(
    { name: "loop", source: loop, overrides: { limits: { timeoutMs: 100 } } },
    { scope: "global" },
  );
  await glovebox.addTool({ name: "waits", source: loop }, { scope: "global" });
  await glovebox.addTool({ name: "only_acme", source: "export default () => 1" }, { tenantId: "acme" });
  ({ url } = await listen({ tenantOf: ({ request }) => request.headers.get("x-tenant") ?? "default" }));
});
afterAll(async () => {
  for (const close of closers) await close();
  await glovebox.close();
});

interface Connection {
  readonly client: Client;
  readonly logs: unknown[];
}

async function connect(
  kind: "http" | "stdio",
  mode: "auto" | "legacy",
  options: ClientOptions = {},
): Promise<Connection> {
  const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode }, ...options });
  const logs: unknown[] = [];
  if ((options.capabilities ?? capabilities).elicitation !== undefined) {
    client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { size: 3 } }));
    client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///work" }] }));
    client.setRequestHandler("sampling/createMessage", async () => ({
      role: "assistant",
      model: "m",
      content: { type: "text", text: "said" },
    }));
  }
  client.setNotificationHandler("notifications/message", ({ params }) => void logs.push(params));
  if (kind === "http") {
    await client.connect(new StreamableHTTPClientTransport(url));
  } else {
    const [up, down] = [new PassThrough(), new PassThrough()];
    const server = serveMcpStdio(glovebox, { tenantId: "default", stdin: up, stdout: down });
    onTestFinished(() => server.close());
    await client.connect(new StdioServerTransport(down, up));
  }
  onTestFinished(() => client.close());
  return { client, logs };
}

test.for([
  ["2099-01-01", -32_022],
  ["2025-11-25", -32_022],
  ["2026-07-28", undefined],
] as const)("each request over stdio states its protocol revision: %s", async ([requested, code]) => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const server = serveMcpStdio(glovebox, { tenantId: "default", stdin, stdout });
  onTestFinished(() => server.close());
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const request = async (id: number, method: string, revision: string, params: object = {}) => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": revision,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } })}\n`);
    const { value = "" } = await lines.next();
    return JSON.parse(value) as { readonly id: number; readonly result?: unknown; readonly error?: unknown };
  };
  const discovered = await request(1, "server/discover", "2026-07-28");
  expect(discovered.result).toMatchObject({ supportedVersions: ["2026-07-28"] });
  await request(2, "tools/list", "2026-07-28");
  const answer = await request(3, "tools/call", requested, { name: "add", arguments: { a: 1, b: 2 } });
  expect(answer).toMatchObject(
    code === undefined
      ? { id: 3, result: { structuredContent: { sum: 3 } } }
      : { id: 3, error: { code, data: { supported: ["2026-07-28"], requested } } },
  );
});

describe.for([
  ["http", "auto", "2026-07-28"],
  ["http", "legacy", "2025-11-25"],
  ["stdio", "auto", "2026-07-28"],
  ["stdio", "legacy", "2025-11-25"],
] as const)("the MCP server over %s with mode %s (%s)", ([kind, mode, version]) => {
  test("uses the client's protocol revision and lists tools by name", async () => {
    const { client } = await connect(kind, mode);
    expect(client.getNegotiatedProtocolVersion()).toBe(version);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "add",
      "ask",
      "asks_on",
      "fails",
      "list",
      "loop",
      "pause",
      "show",
      "steps",
      "talks",
      "text",
      "twice",
      "waits",
    ]);
    expect(tools[0]).toMatchObject({
      title: "Add",
      description: "Adds two numbers",
      inputSchema: { type: "object", required: ["a", "b"] },
      outputSchema: { type: "object", required: ["sum"] },
      annotations: { readOnlyHint: true },
    });
    expect(tools.find(({ name }) => name === "text")?.inputSchema).toMatchObject({
      properties: { input: { type: "string" } },
      required: ["input"],
    });
  });

  test("calls tools with structured content, text, images, and inputs and outputs that are not objects", async () => {
    const { client } = await connect(kind, mode);
    await client.listTools();
    expect(await client.callTool({ name: "add", arguments: { a: 1, b: 2 } })).toMatchObject({
      structuredContent: { sum: 3 },
      content: [{ type: "text", text: '{"sum":3}' }],
    });
    expect((await client.callTool({ name: "show" })).content).toEqual([
      { type: "text", text: "a chart" },
      { type: "image", data: "AQID", mimeType: "image/png" },
    ]);
    expect((await client.callTool({ name: "text", arguments: { input: "four" } })).content).toMatchObject([
      { text: "4" },
    ]);
    const { structuredContent } = await client.callTool({ name: "list" });
    expect(structuredContent).toEqual(mode === "legacy" ? { result: [1, 2] } : [1, 2]);
  });

  test("returns failures as results and unknown tools as protocol errors", async () => {
    const { client } = await connect(kind, mode);
    for (const [name, code] of [
      ["fails", "TOOL_FAILED"],
      ["loop", "TOOL_TIMEOUT"],
      ["add", "PARAM_INVALID"],
    ] as const) {
      const result = await client.callTool({ name, arguments: {} });
      expect([result.isError, result._meta?.["glovebox/errorCode"]]).toEqual([true, code]);
      expect(JSON.stringify(result.content)).toContain(code);
    }
    await expect(client.callTool({ name: "nope" })).rejects.toMatchObject({
      code: -32_602,
      message: expect.stringContaining("Unknown tool: nope"),
    });
    for (const name of ["only_acme", "no name", "x".repeat(2_000)]) {
      await expect(client.callTool({ name })).rejects.toMatchObject({ code: -32_602 });
    }
    for (const cursor of ["nonsense", "", 5 as unknown as string]) {
      await expect(client.listTools({ cursor })).rejects.toMatchObject({ code: -32_602 });
    }
  });

  test("sends increasing progress, and logs", async () => {
    const { client, logs } = await connect(kind, mode);
    if (mode === "legacy") await client.setLoggingLevel("warning");
    const progress: unknown[] = [];
    const meta = { "io.modelcontextprotocol/logLevel": "warning" };
    const params = { name: "steps", ...(mode === "legacy" ? {} : { _meta: meta }) };
    const result = await client.callTool(params, { onprogress: (one) => progress.push(one) });
    expect(result.content).toMatchObject([{ text: "default" }]);
    expect(progress).toEqual([1, 2, 3].map((n) => ({ progress: n, total: 3, message: `step ${n}` })));
    expect(logs).toMatchObject([{ level: "warning", data: "careful", logger: "tool" }]);
  });

  test("lets tools request input, concurrently and in sequence", async () => {
    const { client } = await connect(kind, mode);
    const { structuredContent } = await client.callTool({ name: "ask" });
    expect(structuredContent).toEqual({ size: 3, roots: 1, said: "said" });
    // Each request gets its own answer, whatever names the tool uses.
    expect((await client.callTool({ name: "twice" })).content).toMatchObject([{ text: "3" }]);
  });

  test("sends no requests to a client without the capability", async () => {
    const { client } = await connect(kind, mode, { capabilities: {} });
    const call = client.callTool({ name: "ask" });
    if (mode === "auto") {
      // Both requests are sent in one turn.
      const data = { requiredCapabilities: { elicitation: {}, roots: {} } };
      return await expect(call).rejects.toMatchObject({ code: -32_021, data });
    }
    const result = await call;
    expect([result.isError, result._meta?.["glovebox/errorCode"]]).toEqual([true, "CAPABILITY_DENIED"]);
  });

  test("notifies its client when tools are added and removed", async () => {
    const { client } = await connect(kind, mode);
    let notifications = 0;
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      notifications += 1;
    });
    if (mode === "auto") await client.listen({ toolsListChanged: true });
    const source = "export default () => 1";
    // A client of 2025 opens its notification stream concurrently with its first requests.
    await expect
      .poll(
        async () => {
          await glovebox.addTool({ name: "late", source }, { tenantId: "default" });
          glovebox.removeTool("late", { tenantId: "default" });
          return notifications;
        },
        { interval: 50 },
      )
      .toBeGreaterThan(0);
  });

  test("stops a tool whose call is cancelled", async () => {
    const { client } = await connect(kind, mode);
    const controller = new AbortController();
    const call = client.callTool({ name: "waits" }, { signal: controller.signal });
    await expect.poll(() => running()).toBe(1);
    controller.abort();
    await expect(call).rejects.toThrow();
    await expect.poll(() => running(), { interval: 5 }).toBe(0);
  });

  test.runIf(mode === "legacy")(
    "lets tools send many requests, and reports a client that fails to answer",
    async () => {
      const { client } = await connect(kind, mode);
      let requests = 0;
      client.setRequestHandler("elicitation/create", async () => {
        requests += 1;
        if (requests > 12) throw new Error("no more");
        return { action: "accept", content: {} };
      });
      const result = await client.callTool({ name: "asks_on" });
      expect(result.structuredContent).toEqual({
        answers: 12,
        rejected: 'The client that called "asks_on" failed to answer "elicit"',
      });
    },
  );

  // In 2026-07-28 no HTTP request is open while the client prepares its answer; a call that is not resumed times out.
  test.runIf(mode === "legacy")("stops a tool whose call is cancelled while it waits for its client", async () => {
    const { client } = await connect(kind, mode);
    const controller = new AbortController();
    client.setRequestHandler("elicitation/create", () => {
      controller.abort();
      return new Promise<never>(() => {});
    });
    const requestedSchema = { type: "object", properties: { size: { type: "integer" } } };
    const args = { what: "elicit", request: { message: "Well?", requestedSchema } };
    await expect(client.callTool({ name: "talks", arguments: args }, { signal: controller.signal })).rejects.toThrow();
    await expect.poll(() => running(), { interval: 5 }).toBe(0);
  });
});

/** Running calls of these tools. */
const COUNTED = ["waits", "talks"];
let open = 0;
const running = (): number => open;
/** Arguments of the calls. */
const contexts: unknown[] = [];
beforeAll(() => {
  const execute = glovebox.router.execute.bind(glovebox.router);
  glovebox.router.execute = async (call, ...rest) => {
    contexts.push(rest[0]);
    if (!COUNTED.includes(call.toolName)) return await execute(call, ...rest);
    open += 1;
    try {
      return await execute(call, ...rest);
    } finally {
      open -= 1;
    }
  };
});

const rpc = (method: string, params: object = {}, id = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });
const MODERN = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} }, sampling: {}, roots: {} },
};
async function post(body: string, headers: Record<string, string> = {}): Promise<Response> {
  const accept = "application/json, text/event-stream";
  return await fetch(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", accept, ...headers },
  });
}
const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
/** Starts a session. */
async function begin(tenant: string, capabilities: object = {}): Promise<string> {
  const begun = await post(rpc("initialize", { ...INITIALIZE, capabilities }), { "x-tenant": tenant });
  await begun.text();
  return begun.headers.get("mcp-session-id") ?? "";
}
const modern = (method: string, params: object = {}, headers: Record<string, string> = {}): Promise<Response> =>
  post(rpc(method, { ...params, _meta: MODERN }), {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...("name" in params ? { "mcp-name": String(params.name) } : {}),
    ...headers,
  });

describe("McpHandler.fetch()", () => {
  test("serves each caller the tools of its tenant", async () => {
    const list = async (tenant: string) => {
      const { result } = (await (await modern("tools/list", {}, { "x-tenant": tenant })).json()) as never;
      return (result as { tools: { name: string }[] }).tools.map(({ name }) => name);
    };
    expect(await list("acme")).toContain("only_acme");
    expect(await list("zeta")).not.toContain("only_acme");
  });

  test("continues the trace of its caller", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const params = { name: "add", arguments: { a: 1, b: 2 }, _meta: { ...MODERN, traceparent, tracestate: "a=b" } };
    const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add" };
    expect((await post(rpc("tools/call", params), headers)).status).toBe(200);
    expect(contexts.at(-1)).toMatchObject({ traceparent, tracestate: "a=b" });
  });

  test.for([
    ["a page of somewhere else", { origin: "https://evil.example" }, 403],
    ["another content type", { "content-type": "text/plain" }, 415],
  ] as const)("rejects %s", async ([, headers, status]) => {
    expect((await modern("tools/list", {}, headers)).status).toBe(status);
  });

  test.for([
    ["GET", {}, 400],
    ["DELETE", {}, 400],
    ["GET", { "mcp-protocol-version": "2026-07-28" }, 405],
    ["DELETE", { "mcp-protocol-version": "2026-07-28" }, 405],
    ["PUT", {}, 405],
    ["OPTIONS", {}, 405],
  ] as const)("answers %s outside of a session with %j: %i", async ([method, headers, status]) => {
    const response = await fetch(url, { method, headers });
    expect([response.status, response.headers.get("allow")]).toEqual([status, status === 405 ? "POST" : null]);
  });

  test.for([
    ["no JSON", "{", 400],
    ["too much", `"${"x".repeat(5 * 1024 * 1024)}"`, 413],
  ] as const)("rejects a body that is %s", async ([, body, status]) => {
    expect((await post(body)).status).toBe(status);
  });

  test("rejects batches in both eras", async () => {
    const one = JSON.parse(rpc("tools/list", { _meta: MODERN }));
    for (const [body, headers] of [
      [JSON.stringify([one, { ...one, id: 2 }]), { "mcp-protocol-version": "2026-07-28" }],
      [`[${rpc("ping")}]`, {}],
    ] as const) {
      const response = await post(body, headers);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: expect.any(Number) } });
    }
  });

  test.for([
    [
      { what: "elicit", request: { mode: "url", message: "x", url: "https://example.com" } },
      { elicitation: { url: {} } },
    ],
    [
      {
        what: "sample",
        request: { messages: [{ role: "user", content: { type: "text", text: "x" } }], maxTokens: 1, tools: [] },
      },
      { sampling: { tools: {} } },
    ],
  ])("names the missing client capabilities for %j", async ([args, requiredCapabilities]) => {
    const answer = await (await modern("tools/call", { name: "talks", arguments: args })).json();
    expect(answer).toMatchObject({ error: { code: -32_021, data: { requiredCapabilities } } });
    expect(running()).toBe(0);
  });

  test("accepts the token of a waiting call once, unchanged, and from its own caller only", async () => {
    const ask = { name: "ask", arguments: {} };
    const first = (await (await modern("tools/call", ask)).json()) as { result: Record<string, never> };
    const { requestState, inputRequests } = first.result as unknown as {
      requestState: string;
      inputRequests: Record<string, { method: string }>;
    };
    expect(
      Object.values(inputRequests)
        .map(({ method }) => method)
        .sort(),
    ).toEqual(["elicitation/create", "roots/list"]);
    const answers = Object.fromEntries(
      Object.entries(inputRequests).map(([key, { method }]) => [
        key,
        method === "roots/list" ? { roots: [] } : { action: "accept", content: { size: 1 } },
      ]),
    );
    const retry = (state: string, headers = {}) =>
      modern("tools/call", { ...ask, requestState: state, inputResponses: answers }, headers);
    const forged = `${requestState.slice(0, -2)}${requestState.endsWith("AA") ? "BB" : "AA"}`;
    for (const response of [await retry(forged), await retry(requestState, { "x-tenant": "acme" })]) {
      expect(await response.json()).toMatchObject({ error: { code: -32_602 } });
    }
    const second = await (await retry(requestState)).json();
    expect(second).toMatchObject({ result: { resultType: "input_required" } });
    expect(await (await retry(requestState)).json()).toMatchObject({ error: { code: -32_602 } });
  });

  test("cancels the longest waiting call of a caller that exceeds its limit", async () => {
    const begin = async (): Promise<string> => {
      const answer = await (await modern("tools/call", { name: "ask", arguments: {} }, { "x-tenant": "waits" })).json();
      return (answer as { readonly result: { readonly requestState: string } }).result.requestState;
    };
    const states: string[] = [];
    for (let count = 0; count < 9; count += 1) states.push(await begin());
    const retry = async (requestState: string | undefined): Promise<unknown> => {
      const params = { name: "ask", arguments: {}, requestState, inputResponses: {} };
      return await (await modern("tools/call", params, { "x-tenant": "waits" })).json();
    };
    expect(await retry(states[0])).toMatchObject({ error: { code: -32_602 } });
    expect(await retry(states[1])).toMatchObject({ result: { resultType: "input_required" } });
  });

  test("does not cancel calls of one session for those of others", async () => {
    const requestedSchema = { type: "object", properties: {} };
    const args = { what: "elicit", request: { message: "Well?", requestedSchema } };
    const next = async (events: ReadableStreamDefaultReader<Uint8Array>): Promise<string> =>
      Buffer.from((await events.read()).value ?? []).toString();
    const waiting = [];
    for (let count = 0; count < 9; count += 1) {
      const headers = { "x-tenant": "crowd", "mcp-session-id": await begin("crowd", { elicitation: {} }) };
      const response = await post(rpc("tools/call", { name: "talks", arguments: args }), headers);
      const events = (response.body as ReadableStream<Uint8Array>).getReader();
      const id = Number(/"id":(\d+)/.exec(await next(events))?.[1]);
      waiting.push({ events, headers, id });
    }
    expect(running()).toBe(9);
    for (const { events, headers, id } of waiting) {
      await post(JSON.stringify({ jsonrpc: "2.0", id, result: { action: "decline" } }), headers);
      expect(await next(events)).toContain('"structuredContent":{"action":"decline"}');
    }
  });

  test("answers a session of another tenant as not found", async () => {
    const id = await begin("acme");
    expect(id).not.toBe("");
    const ping = (tenant: string) => post(rpc("ping"), { "mcp-session-id": id, "x-tenant": tenant });
    const [own, other] = [await ping("acme"), await ping("zeta")];
    expect([own.status, other.status]).toEqual([200, 404]);
    await own.text();
    expect((await post(rpc("ping"))).status).toBe(400);
  });

  test("notifies only clients of the tenant, and once for several changes", async () => {
    const notified: string[] = [];
    for (const tenant of ["acme", "zeta"]) {
      const client = new Client({ name: tenant, version: "1" }, { versionNegotiation: { mode: "auto" } });
      client.setNotificationHandler("notifications/tools/list_changed", () => void notified.push(tenant));
      const requestInit = { headers: { "x-tenant": tenant } };
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
      onTestFinished(() => client.close());
      await client.listen({ toolsListChanged: true });
    }
    for (const name of ["one", "two"]) glovebox.router.register(name, {}, () => 1, { tenantId: "acme" });
    await expect.poll(() => notified).toEqual(["acme"]);
    for (const name of ["one", "two"]) glovebox.removeTool(name, { tenantId: "zeta" });
    glovebox.router.register("three", {}, () => 1, { scope: "global" });
    await expect.poll(() => [...notified].sort()).toEqual(["acme", "acme", "zeta"]);
    for (const name of ["one", "two"]) glovebox.removeTool(name, { tenantId: "acme" });
    glovebox.removeTool("three", { scope: "global" });
  });

  test.for<[who: string, tenantOf: NonNullable<McpHandlerOptions["tenantOf"]>]>([
    ["without a tenant", () => undefined],
    ["whose tenant cannot be determined", () => Promise.reject(new Error("the directory is down"))],
    ["whose tenant is no name", () => ""],
    ["whose tenant has too long a name", () => "x".repeat(1_025)],
    ["whose tenant is no text", () => 5 as unknown as string],
  ])("answers 403 to a caller %s", async ([, tenantOf]) => {
    const onError = () => {
      throw new Error("The listener failed");
    };
    const other = createMcpHandler(glovebox, { tenantOf, onError });
    onTestFinished(() => other.close());
    const headers = { "content-type": "application/json" };
    const response = await other.fetch(new Request(url, { method: "POST", body: rpc("ping"), headers }));
    expect([response.status, await response.text()]).toEqual([403, expect.not.stringContaining("directory")]);
  });

  test("answers 503 once it is closed", async () => {
    const other = createMcpHandler(glovebox, { tenantOf: () => "acme" });
    await other.close();
    for (const body of [rpc("initialize", INITIALIZE), rpc("tools/list", { _meta: MODERN })]) {
      const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
      expect((await other.fetch(new Request(url, { method: "POST", body, headers }))).status).toBe(503);
    }
  });

  test.for(["2025-11-25", "2026-07-28"])("stops a tool whose caller disconnects (%s)", async (version) => {
    const session = version === "2026-07-28" ? {} : { "mcp-session-id": await begin("acme") };
    const controller = new AbortController();
    const meta = version === "2026-07-28" ? { _meta: MODERN } : {};
    const answer = fetch(url, {
      method: "POST",
      signal: controller.signal,
      body: rpc("tools/call", { name: "waits", arguments: {}, ...meta }),
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "x-tenant": "acme",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "waits",
        ...session,
      },
    }).then((response) => response.text());
    await expect.poll(() => running()).toBe(1);
    controller.abort();
    await expect(answer).rejects.toThrow();
    await expect.poll(() => running(), { interval: 5 }).toBe(0);
  });

  describe("sessions", () => {
    const tenantOf = ({ request }: McpRequest) => request.headers.get("x-tenant") ?? undefined;
    const begun = (other: McpHandler) => {
      onTestFinished(() => other.close());
      const send = async (tenant: string, body: string, more = {}): Promise<Response> => {
        const accept = "application/json, text/event-stream";
        const headers = { "content-type": "application/json", accept, "x-tenant": tenant, ...more };
        return await other.fetch(new Request(url, { method: "POST", body, headers }));
      };
      const begin = async (tenant: string, more = {}): Promise<string> => {
        const response = await send(tenant, rpc("initialize", INITIALIZE), more);
        await response.text();
        return response.headers.get("mcp-session-id") ?? String(response.status);
      };
      const ask = (tenant: string, id: string, body = rpc("ping"), more = {}) =>
        send(tenant, body, { "mcp-session-id": id, ...more });
      const ping = async (tenant: string, id: string, more = {}): Promise<number> => {
        const response = await ask(tenant, id, rpc("ping"), more);
        await response.text();
        return response.status;
      };
      return { begin, ask, ping };
    };
    /** Has an id of its own, because an id that is in use in a session is rejected. */
    const pause = (ms: number): string => rpc("tools/call", { name: "pause", arguments: { ms } }, 2);

    test("a new one evicts one of the caller with the most sessions", async () => {
      const { begin, ping } = begun(createMcpHandler(glovebox, { tenantOf, sessions: { max: 4 } }));
      const modest = await begin("modest");
      const greedy: string[] = [];
      for (let n = 0; n < 6; n += 1) greedy.push(await begin("greedy"));
      expect([await ping("modest", modest), await ping("greedy", greedy[0] ?? "")]).toEqual([200, 404]);
      expect(await ping("greedy", greedy[5] ?? "")).toBe(200);
    });

    test("a tenant with many callers evicts its own, and none of a tenant with fewer sessions", async () => {
      const auth: McpHandlerOptions["auth"] = {
        serveMetadata: () => undefined,
        authenticate: (request) => ({
          subject: request.headers.get("x-subject") ?? "",
          scopes: [],
          claims: {},
          expiresAt: Number.POSITIVE_INFINITY,
        }),
      };
      const handler = createMcpHandler(glovebox, { tenantOf, auth, sessions: { max: 4 } });
      const { begin, ping } = begun(handler);
      const modest = [await begin("modest"), await begin("modest")];
      const greedy: string[] = [];
      for (let n = 0; n < 4; n += 1) greedy.push(await begin("greedy", { "x-subject": `key ${n}` }));
      expect([await ping("modest", modest[0] ?? ""), await ping("modest", modest[1] ?? "")]).toEqual([200, 200]);
      expect(await ping("greedy", greedy[3] ?? "", { "x-subject": "key 3" })).toBe(200);
    });

    test("a new one evicts one without running calls, and does not end running calls of its own caller", async () => {
      const { begin, ask, ping } = begun(createMcpHandler(glovebox, { tenantOf, sessions: { max: 2 } }));
      const [used, unused] = [await begin("greedy"), await begin("greedy")];
      const call = await ask("greedy", used, pause(60_000));
      expect(await ping("greedy", unused)).toBe(200);
      const next = await begin("greedy");
      expect([await ping("greedy", used), await ping("greedy", unused)]).toEqual([200, 404]);
      const other = await ask("greedy", next, pause(60_000));
      expect(await begin("greedy")).toBe("503");
      expect(await begin("modest")).toMatch(/^[\da-f-]{36}$/);
      for (const response of [call, other]) await response.body?.cancel();
    });

    test("an idle one ends and its id becomes unknown, but not while a call runs", async () => {
      const { begin, ask, ping } = begun(createMcpHandler(glovebox, { tenantOf, sessions: { idleMs: 6_000 } }));
      const [used, unused] = [await begin("acme"), await begin("acme")];
      // More than twice the idle time, because a busy machine notices the end of a session late.
      const answer = await (await ask("acme", used, pause(13_000))).text();
      expect(answer).toContain('"result"');
      expect([await ping("acme", used), await ping("acme", unused)]).toEqual([200, 404]);
    });

    test("ids begin with a prefix, and one without it is unknown", async () => {
      const { begin, ping } = begun(createMcpHandler(glovebox, { tenantOf, sessions: { idPrefix: "process-1" } }));
      const id = await begin("acme");
      expect(id).toMatch(/^process-1\.[\da-f-]{36}$/);
      expect([await ping("acme", id), await ping("acme", id.split(".")[1] as string)]).toEqual([200, 404]);
    });

    test("an invalid number of sessions is rejected", () => {
      expect(() => createMcpHandler(glovebox, { sessions: { max: 0 } })).toThrow(/options\.sessions/);
    });
  });
});
