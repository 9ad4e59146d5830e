// Functions that a host passes to the MCP server and for upstream MCP servers: a caller that was not admitted runs no tool, a listener
// changes nothing, and the server goes on to answer.
import { PassThrough } from "node:stream";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { afterAll, beforeAll } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpHttpServer } from "../../../src/host/mcp/client/mcp-options.ts";
import { createResourceServer } from "../../../src/host/mcp/server/authorization/auth.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import type { McpHandlerOptions, McpStdioOptions } from "../../../src/host/mcp/server/options.ts";
import { serveMcpStdio } from "../../../src/host/mcp/server/stdio.ts";
import type { McpHost } from "../../../src/host/mcp/server/tools/call-tool.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import {
  ANY_ANSWER,
  type Callback,
  type CallbackRow,
  isHanging,
  type Outcome,
  testCallbacks,
} from "../../support/callback-table.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { startScriptedServer } from "../../support/mcp-http.ts";

const URL_OF_SERVER = "http://127.0.0.1/mcp";
const IDENTIFY_MS = 2_000;
const CALLER = { subject: "ada", scopes: [], expiresAt: Math.floor(Date.now() / 1_000) + 3_600, claims: {} };

/** Global tools; the outcome of a scenario shows whether one ran. */
function openHost(tenancy: "single" | "multi" = "single") {
  let runs = 0;
  const router = new ToolRouter({ tenancy });
  const run = () => {
    runs += 1;
    return {};
  };
  router.register("run", {}, run, { scope: "global" });
  const host: McpHost = {
    router,
    listTools: (options) => router.listTools(options),
    execute: (call, context) => router.execute(call, context),
  };
  return { host, runs: () => runs, [Symbol.asyncDispose]: () => router[Symbol.asyncDispose]() };
}

async function callOverHttp(options: McpHandlerOptions, token = "token"): Promise<Outcome> {
  await using tools = openHost(options.tenantOf === undefined ? "single" : "multi");
  // Shorter than the default of 5 s: each hanging callback is waited for.
  await using handler = createMcpHandler(tools.host, { limits: { identifyMs: IDENTIFY_MS }, ...options });
  const transport = new StreamableHTTPClientTransport(new URL(URL_OF_SERVER), {
    fetch: (url, init) => handler.fetch(new Request(url, init)),
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "legacy" } });
  try {
    await client.connect(transport);
    const { isError } = await client.callTool({ name: "run" });
    return isError === true || tools.runs() !== 1 ? "denied" : "ok";
  } catch {
    if (tools.runs() !== 0) throw new Error("Expected no tool to run for a caller that was not admitted");
    return "denied";
  } finally {
    await client.close();
  }
}

async function callOverStdio(options: McpStdioOptions): Promise<Outcome> {
  await using tools = openHost();
  const [up, down] = [new PassThrough(), new PassThrough()];
  await using _server = serveMcpStdio(tools.host, { ...options, stdin: up, stdout: down });
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "legacy" } });
  try {
    await client.connect(new StdioServerTransport(down, up));
    await client.callTool({ name: "run" });
    return tools.runs() === 1 ? "ok" : "denied";
  } catch {
    return "denied";
  } finally {
    await client.close();
  }
}

/** A line that is not JSON is reported, and the next one is answered. */
async function reportOverStdio(onError: Callback): Promise<Outcome> {
  await using tools = openHost();
  const [up, down] = [new PassThrough(), new PassThrough()];
  await using _server = serveMcpStdio(tools.host, { onError, stdin: up, stdout: down });
  up.write("no JSON\n");
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "legacy" } });
  await client.connect(new StdioServerTransport(down, up));
  await client.callTool({ name: "run" });
  await client.close();
  return tools.runs() === 1 ? "ok" : "denied";
}

/** A request whose tenant cannot be found out is reported; the next one is served. */
async function reportOverHttp(onError: Callback): Promise<Outcome> {
  let requests = 0;
  const tenantOf = (): string => {
    requests += 1;
    if (requests === 1) throw new Error("no database");
    return "acme";
  };
  await using tools = openHost("multi");
  await using handler = createMcpHandler(tools.host, { tenantOf, onError });
  const body = { jsonrpc: "2.0", id: 1, method: "ping" };
  const send = (): Promise<Response> =>
    handler.fetch(
      new Request(URL_OF_SERVER, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
        body: JSON.stringify(body),
      }),
    );
  const [first, second] = [await send(), await send()];
  const isServed = second.status < 500 && second.status !== 403;
  return !first.ok && isServed ? "ok" : "denied";
}

const authenticatedBy = (authenticate: Callback): Promise<Outcome> =>
  callOverHttp({ auth: { serveMetadata: () => undefined, authenticate } });

const verifiedBy = (verify: Callback): Promise<Outcome> =>
  callOverHttp({
    auth: createResourceServer({ resource: URL_OF_SERVER, authorizationServers: ["https://issuer.test"], verify }),
  });

let glovebox: Glovebox;
/** Scenarios that wait run side by side, each with an upstream server of its own. */
let upstreams = 0;
beforeAll(async () => {
  glovebox = await makeGlovebox();
});
afterAll(() => glovebox.close());

/** Calls the one tool of an upstream server; `ask` is what that server requests before it answers. */
async function callUpstream(options: Partial<McpHttpServer>, ask?: string): Promise<Outcome> {
  /** The response to a request of the server: a result, or an error. */
  let answer: { readonly result?: unknown; readonly error?: unknown } | undefined;
  await using server = await startScriptedServer((rpc, response) => {
    if (rpc.method === "tools/list") return { tools: [{ name: "t", inputSchema: { type: "object" } }] };
    if (rpc.method === undefined) answer = rpc as NonNullable<typeof answer>;
    if (rpc.method !== "tools/call") return undefined;
    if (ask === undefined) return { content: [{ type: "text", text: "done" }] };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${ask}\n\n`);
    const poll = setInterval(() => {
      if (answer === undefined) return;
      clearInterval(poll);
      const { error } = answer;
      const end = error === undefined ? { result: { content: [{ type: "text", text: "done" }] } } : { error };
      response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id: rpc.id, ...end })}\n\n`);
    }, 5);
    response.on("close", () => clearInterval(poll));
    return undefined;
  });
  upstreams += 1;
  const name = `up${upstreams}`;
  // A person may take minutes to answer, and the call's clock stands still meanwhile: what ends a wait early is its caller.
  const isLate = Object.values(options).some((option) => typeof option === "function" && isHanging(option as Callback));
  glovebox.mcp.addServer(name, { url: server.url, timeoutMs: isLate ? 1_000 : 30_000, ...options });
  try {
    const result = await glovebox.execute(
      { id: "c1", toolName: `${name}__t`, arguments: {} },
      { signal: AbortSignal.timeout(isLate ? 4_000 : 30_000), timeoutMs: 30_000 },
    );
    return result.success && (ask === undefined || answer?.result !== undefined) ? "ok" : "denied";
  } finally {
    await glovebox.mcp.removeServer(name);
  }
}

const ELICIT = JSON.stringify({
  jsonrpc: "2.0",
  id: 900,
  method: "elicitation/create",
  params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
});
const SAMPLE = JSON.stringify({
  jsonrpc: "2.0",
  id: 901,
  method: "sampling/createMessage",
  params: { messages: [{ role: "user", content: { type: "text", text: "Say it" } }], maxTokens: 10 },
});

const listener = (name: string, run: CallbackRow["run"]): CallbackRow => ({
  name,
  run,
  good: () => undefined,
  bad: "ok",
});

testCallbacks([
  { name: "auth.authenticate", run: authenticatedBy, good: () => CALLER, bad: "denied" },
  {
    name: "auth.serveMetadata",
    run: (serveMetadata) => callOverHttp({ auth: { serveMetadata, authenticate: async () => CALLER } }),
    good: () => undefined,
    bad: "denied",
    except: { "returns undefined": "ok", "returns a promise of undefined": "ok" },
  },
  {
    name: "createResourceServer verify",
    run: verifiedBy,
    good: () => ({ active: true, aud: URL_OF_SERVER, exp: CALLER.expiresAt, sub: "ada" }),
    bad: "denied",
  },
  {
    name: "createMcpHandler tenantOf",
    run: (tenantOf) => callOverHttp({ tenantOf }),
    good: () => "acme",
    bad: "denied",
    // Any text names a tenant.
    except: { "returns text": "ok", "returns a promise of text": "ok", "returns a thenable of text": "ok" },
  },
  listener("createMcpHandler onError", reportOverHttp),
  listener("serveMcpStdio onError", reportOverStdio),
  {
    name: "createMcpHandler register",
    run: (register) => callOverHttp({ register }),
    good: () => undefined,
    bad: "denied",
    except: ANY_ANSWER,
  },
  {
    name: "serveMcpStdio register",
    run: (register) => callOverStdio({ register }),
    good: () => undefined,
    bad: "denied",
    except: ANY_ANSWER,
  },
  {
    name: "mcp.servers.NAME.headersFor",
    run: (headersFor) => callUpstream({ headersFor }),
    good: () => ({ "x-key": "1" }),
    bad: "denied",
  },
  {
    name: "mcp.servers.NAME.authProviderFor",
    run: (authProviderFor) => callUpstream({ authProviderFor }),
    good: () => ({ token: async () => "token" }),
    bad: "denied",
  },
  {
    name: "mcp.servers.NAME.onElicitation",
    run: (onElicitation) => callUpstream({ onElicitation }, ELICIT),
    good: () => ({ action: "accept", content: {} }),
    bad: "denied",
  },
  {
    name: "mcp.servers.NAME.onSampling",
    run: (onSampling) => callUpstream({ onSampling }, SAMPLE),
    good: () => ({ role: "assistant", content: { type: "text", text: "It" }, model: "m" }),
    bad: "denied",
  },
]);
