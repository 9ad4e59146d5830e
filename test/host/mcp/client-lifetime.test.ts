// Tests the lifetime of upstream connections: which tenant owns them, when they are replaced, and that nothing remains after closing.
import { fileURLToPath } from "node:url";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { UpstreamServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { startScriptedServer, startToolServer } from "../../support/mcp-http.ts";
import { RecordingServer } from "../../support/oauth-servers.ts";
import { treeOf } from "../../support/process-tree.ts";

const TOOLS = fileURLToPath(new URL("../../support/mcp-server-script.ts", import.meta.url));
const STUBBORN = fileURLToPath(new URL("../../support/mcp-stubborn-script.ts", import.meta.url));
/** A program starts slowly on a busy machine. */
const connectTimeoutMs = 120_000;
const tools = { command: process.execPath, args: [TOOLS], connectTimeoutMs } as const;
const stubborn = (how: string): UpstreamServerOptions => ({
  command: process.execPath,
  args: [STUBBORN, how],
  connectTimeoutMs,
});

interface RpcRequest {
  readonly id?: number;
  readonly method?: string;
}
const RESULTS: { readonly [method: string]: unknown } = {
  initialize: {
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "scripted", version: "0" },
  },
  "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: "done" }] },
};

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const call = (
  glovebox: Glovebox,
  toolName: string,
  context: CallContext = {},
  args: object = {},
): Promise<ToolResult> => glovebox.execute({ id: "c1", toolName, arguments: args }, context);

let glovebox: Glovebox;
/** Creates a Glovebox with several tenants. */
let multi: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  multi = await makeGlovebox({ tenancy: "multi" });
});
afterAll(async () => {
  await glovebox.close();
  await multi.close();
});

/** Adds a server called `up` to the shared Glovebox, until it is disposed. */
function withServer(options: UpstreamServerOptions, host = glovebox): AsyncDisposable {
  host.mcp.addServer("up", options);
  return { [Symbol.asyncDispose]: async () => void (await host.mcp.removeServer("up")) };
}

describe("glovebox.close()", () => {
  test.concurrent.for(["deaf", "loop"])("ends a server that ignores signals: %s", async (how, { expect }) => {
    const glovebox = await makeGlovebox({ mcp: { servers: { up: stubborn(how) } } });
    const running = how === "loop" ? call(glovebox, "up__t") : undefined;
    if (how === "deaf") expect(codeOf(await call(glovebox, "up__t"))).toBe("ok");
    await expect.poll(() => glovebox.mcp.servers()[0]?.pid).toBeTypeOf("number");
    const pid = glovebox.mcp.servers()[0]?.pid ?? 0;
    await glovebox.close();
    // It does not wait for a server for longer than 3 s.
    await expect.poll(() => isAlive(pid)).toBe(false);
    if (running !== undefined) expect(codeOf(await running)).toBe("CANCELLED");
  });

  test.concurrent("ends a server that is still connecting, and later calls fail with a clear error", async ({
    expect,
  }) => {
    const glovebox = await makeGlovebox({
      mcp: { servers: { up: { ...stubborn("mute"), connectTimeoutMs: 60_000 } } },
    });
    const running = call(glovebox, "up__t");
    await expect.poll(() => glovebox.mcp.servers()[0]?.state).toBe("connecting");
    await glovebox.close();
    expect(codeOf(await running)).toBe("CANCELLED");
    expect(codeOf(await call(glovebox, "up__t"))).toBe("TOOL_UNAVAILABLE");
    expect(() => glovebox.mcp.addServer("late", tools)).toThrow(/closed/);
  });
});

describe("an HTTP session", () => {
  test("an HTTP session whose end the server never confirms leaves no open request", async () => {
    const open = new Set<string>();
    await using server = await RecordingServer.start(({ method, body }, response) => {
      const rpc = body === "" ? {} : (JSON.parse(body) as RpcRequest);
      response.on("close", () => open.delete(method));
      if (method !== "POST") {
        open.add(method);
        if (method === "GET") response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        return new Promise(() => {});
      }
      if (rpc.id === undefined) return void response.writeHead(202).end();
      response.setHeader("mcp-session-id", "s1");
      return { jsonrpc: "2.0", id: rpc.id, result: RESULTS[rpc.method ?? ""] ?? {} };
    });
    const up = withServer({ url: `${server.origin}/mcp`, protocol: "legacy" });
    expect(codeOf(await call(glovebox, "up__t"))).toBe("ok");
    await expect.poll(() => [...open]).toEqual(["GET"]);
    await up[Symbol.asyncDispose]();
    expect(server.paths).toContain("DELETE /mcp");
    await expect.poll(() => [...open]).toEqual([]);
  });
});

describe("a connection", () => {
  test("fails if the server says too much about itself", async () => {
    const results = {
      ...RESULTS,
      initialize: { ...(RESULTS.initialize as object), instructions: "x".repeat(300_000) },
    };
    await using server = await RecordingServer.start(({ body }, response) => {
      const { id, method = "" } = body === "" ? {} : (JSON.parse(body) as RpcRequest);
      if (id === undefined) return void response.writeHead(202).end();
      const result = results[method as keyof typeof results];
      const answer = result === undefined ? { error: { code: -32_601, message: "Method not found" } } : { result };
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
    });
    await using _ = withServer({ url: `${server.origin}/mcp` });
    expect(errorOf(await call(glovebox, "up__t"))).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect(glovebox.mcp.servers()[0]).toMatchObject({
      connections: 0,
      lastError: { message: expect.stringContaining("could not be connected") },
    });
  });

  test("a connection to a program that exits on server/discover uses the older protocol", async () => {
    await using _up = withServer(stubborn("quit"));
    expect(codeOf(await call(glovebox, "up__t"))).toBe("ok");
    expect(glovebox.mcp.servers()[0]).toMatchObject({ protocolVersion: "2025-06-18", connections: 1 });
  });

  test("a connection to a program without the required protocol fails, with an error about connecting", async () => {
    await using _up = withServer({ ...stubborn("old"), protocol: "2026-07-28" });
    expect(errorOf(await call(glovebox, "up__t")).message).toBe('The MCP server "up" could not be connected');
  });

  test("a connection that takes too long fails, and its program is killed", async () => {
    await using _up = withServer({ ...stubborn("mute"), connectTimeoutMs: 700 });
    const error = errorOf(await call(glovebox, "up__t", { timeoutMs: 120_000 }));
    expect(error).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: 'The MCP server "up" could not be connected within 700 ms (connectTimeoutMs)',
    });
  });

  test("is awaited only until the call's timeout, and continues for the next call", async () => {
    await using _up = withServer(tools);
    expect(codeOf(await call(glovebox, "up__pid", { timeoutMs: 1 }))).toBe("TOOL_TIMEOUT");
    expect(codeOf(await call(glovebox, "up__pid"))).toBe("ok");
    expect(glovebox.mcp.servers()[0]).toMatchObject({ connections: 1 });
  });

  test("is shared by concurrent calls", async () => {
    await using _up = withServer({ ...tools, scope: "global" }, multi);
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) => call(multi, "up__pid", { tenantId: `t${n}` })),
    );
    expect(new Set(results.map(outputOf)).size).toBe(1);
    expect(multi.mcp.servers()[0]).toMatchObject({ connections: 1 });
  });

  test("is separate for each tenant with perTenant", async () => {
    const envFor = (tenantId: string): { [name: string]: string } => ({ WHOSE: tenantId });
    await using _up = withServer({ ...tools, scope: "global", envFor }, multi);
    const whose = async (tenantId: string): Promise<unknown> => {
      const result = await call(multi, "up__environment", { tenantId });
      return (JSON.parse(String(outputOf(result))) as { readonly WHOSE: string }).WHOSE;
    };
    expect(await Promise.all([whose("a"), whose("b"), whose("a")])).toEqual(["a", "b", "a"]);
    expect(multi.mcp.servers().map(({ tenantId, connections }) => [tenantId, connections])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
    expect(codeOf(await call(multi, "up__die", { tenantId: "a" }))).toBe("TOOL_UNAVAILABLE");
    expect(await whose("b")).toBe("b");
    expect(multi.mcp.servers().map(({ tenantId, failures }) => [tenantId, failures])).toEqual([
      ["a", 1],
      ["b", 0],
    ]);
  });

  test("a connection that is lost repeatedly is reopened with growing delays", async () => {
    await using glovebox = await makeGlovebox({ health: false, mcp: { servers: { up: tools } } });
    for (let n = 0; n < 3; n += 1) expect(codeOf(await call(glovebox, "up__die"))).toBe("TOOL_UNAVAILABLE");
    const [status] = glovebox.mcp.servers();
    expect(status).toMatchObject({ failures: 3, connections: 3, lastError: { message: "The connection was lost" } });
    expect(status?.state).toBe("waiting");
    // A short delay is awaited.
    expect(codeOf(await call(glovebox, "up__pid"))).toBe("ok");
    // A successful call resets the count of failures.
    expect(glovebox.mcp.servers()[0]).toMatchObject({ state: "connected", failures: 0 });
    expect(glovebox.health()).toMatchObject([{ sourceId: "up", state: "closed" }]);
  });

  test("a connection to a program that no longer answers is replaced, without effect on other servers", async () => {
    await using _up = withServer({ ...tools, timeoutMs: 7_000 });
    glovebox.mcp.addServer("other", tools);
    const other = outputOf(await call(glovebox, "other__pid"));
    expect(codeOf(await call(glovebox, "up__pid"))).toBe("ok");
    const up = () => glovebox.mcp.servers().find(({ server }) => server === "up");
    // The program itself, which is a descendant of the wrapper.
    const deaf = treeOf(up()?.pid ?? 0).at(-1) ?? 0;
    process.kill(deaf, "SIGSTOP");
    for (let n = 0; n < 2; n += 1) expect(codeOf(await call(glovebox, "up__pid"))).toBe("TOOL_TIMEOUT");
    expect(codeOf(await call(glovebox, "up__pid", { timeoutMs: 120_000 }))).toBe("ok");
    expect(up()).toMatchObject({ connections: 2, state: "connected" });
    await expect.poll(() => isAlive(deaf)).toBe(false);
    expect(outputOf(await call(glovebox, "other__pid"))).toBe(other);
    await glovebox.mcp.removeServer("other");
  });

  test("a connection to a program that is slow but sends messages is kept", async () => {
    await using _up = withServer({ ...tools, timeoutMs: 7_000 });
    const pid = outputOf(await call(glovebox, "up__pid"));
    const { connections } = glovebox.mcp.servers()[0] ?? {};
    for (let n = 0; n < 2; n += 1) {
      const slow = call(glovebox, "up__hang", {}, { id: "slow" });
      expect(outputOf(await call(glovebox, "up__pid"))).toBe(pid);
      expect(codeOf(await slow)).toBe("TOOL_TIMEOUT");
    }
    expect(glovebox.mcp.servers()[0]).toMatchObject({ connections });
  });

  test("a connection whose calls keep failing opens its circuit", async () => {
    await using server = await startScriptedServer(({ method }, response) => {
      if (method === "tools/list") return { tools: [{ name: "t", inputSchema: { type: "object" } }] };
      if (method === "tools/call") response.destroy();
      return undefined;
    });
    await using glovebox = await makeGlovebox({
      health: { failures: 2 },
      mcp: { servers: { up: { url: server.url } } },
    });
    for (let n = 0; n < 3; n += 1) expect(codeOf(await call(glovebox, "up__t"))).toBe("TOOL_UNAVAILABLE");
    expect(glovebox.health()).toMatchObject([
      { sourceId: "up", source: "mcp", state: "open", failures: 2, rejected: 1 },
    ]);
  });
});

describe("traceparent", () => {
  test("is sent with each call as its own span if the host has telemetry", async () => {
    const spans = new InMemorySpanExporter();
    const tracerProvider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] });
    await using server = await startToolServer();
    await using glovebox = await makeGlovebox({
      telemetry: { tracerProvider },
      mcp: { servers: { up: { url: server.url } } },
    });
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    expect(codeOf(await call(glovebox, "up__echo", { traceparent }, { said: "a" }))).toBe("ok");
    const [span] = spans.getFinishedSpans().filter(({ name }) => name === "execute_tool up__echo");
    const { traceId, spanId } = span?.spanContext() ?? {};
    expect(traceId).toBe("0af7651916cd43dd8448eb211c80319c");
    expect(server.events.metas.at(-1)).toMatchObject({ traceparent: `00-${traceId}-${spanId}-01` });
  });

  test("is not sent without telemetry", async () => {
    await using server = await startToolServer();
    await using _up = withServer({ url: server.url });
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    expect(codeOf(await call(glovebox, "up__echo", { traceparent }, { said: "a" }))).toBe("ok");
    expect(server.events.metas.at(-1)).not.toHaveProperty("traceparent");
  });
});

describe("a tool in the sandbox", () => {
  test("calls an upstream tool that was not listed before, as its own tenant", async () => {
    await using _up = withServer({ ...tools, tenants: ["acme"] }, multi);
    const source = "export default async (input, { tools }) => await tools.up__add({ a: 19, b: 23 })";
    const definition = { capabilities: { tools: ["up__add"] } };
    await multi.addTool({ name: "asks", source, overrides: definition }, { scope: "global" });
    expect(outputOf(await call(multi, "asks", { tenantId: "acme" }))).toEqual({ sum: 42 });
  });
});

describe("a request of a server", () => {
  test("pauses the timeouts while it is answered, and its hook can elicit input from the caller", async () => {
    const onElicitation: UpstreamServerOptions["onElicitation"] = async (request, { client, signal }) => {
      await new Promise((resolve) => setTimeout(resolve, 9_000));
      return (await client?.elicit?.(request, { signal })) ?? { action: "decline" };
    };
    await using _up = withServer({ ...tools, timeoutMs: 8_000, onElicitation });
    const client: CallContext["client"] = { elicit: async () => ({ action: "accept", content: { name: "Ada" } }) };
    await glovebox.listTools();
    expect(outputOf(await call(glovebox, "up__ask", { client, timeoutMs: 8_500 }))).toBe(
      'accept {"name":"Ada","tea":true}',
    );
    expect(outputOf(await call(glovebox, "up__ask", { timeoutMs: 8_500 }))).toBe("decline undefined");
  });

  test("is answered with an error if the hook fails", async () => {
    const onElicitation = (): never => {
      throw new Error("a secret of the host's");
    };
    await using _up = withServer({ ...tools, protocol: "legacy", onElicitation });
    const error = errorOf(await call(glovebox, "up__ask"));
    expect(error.code).toBe("TOOL_FAILED");
    expect(JSON.stringify(error)).not.toMatch(/secret/);
  });
});
