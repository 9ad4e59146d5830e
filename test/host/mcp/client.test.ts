// Tests the MCP client with real servers of both protocol eras, over stdio and HTTP, through the router.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext, ToolCall, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { UpstreamServerOptions } from "../../../src/host/mcp/client/mcp-options.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { startToolServer, type ToolHttpServer } from "../../support/mcp-http.ts";

const SCRIPT = fileURLToPath(new URL("../../support/mcp-server-script.ts", import.meta.url));
/** A program starts slowly on a busy machine. */
const script = { command: process.execPath, args: [SCRIPT], connectTimeoutMs: 120_000 } as const;
const requests: unknown[] = [];
const TIMEOUT_MS = 10_000;
const common: Partial<UpstreamServerOptions> = {
  // A busy machine can take seconds to answer.
  timeoutMs: TIMEOUT_MS,
  scope: "global",
  onElicitation: (request, { tenantId, callId, toolName, server }) => {
    requests.push({ message: request.message, tenantId, callId, toolName, server });
    return { action: "accept", content: { name: "Ada" } };
  },
};

let http: ToolHttpServer;
let glovebox: Glovebox;
const errors: unknown[] = [];

beforeAll(async () => {
  http = await startToolServer();
  const url = http.url;
  glovebox = await makeGlovebox({
    tenancy: "multi",
    onError: (error) => errors.push(error),
    mcp: {
      servers: {
        "stdio-new": { ...script, ...common },
        "stdio-old": { ...script, ...common, protocol: "legacy" },
        "http-new": { url, ...common, headers: { "x-key": "k-1" } },
        "http-old": { url, ...common, protocol: "legacy" },
        quiet: {
          ...script,
          scope: "global",
          prefix: "q.",
          tools: { allow: ["e*", "ask", "log"], deny: ["environment"] },
          env: { ONLY: "this" },
        },
        many: { url, scope: "global" },
        gone: { command: "/there/is/no/such-program", scope: "global" },
        private: { url, tenants: ["acme"], prefix: "" },
      },
    },
  });
});
afterAll(async () => {
  await glovebox.close();
  await http[Symbol.asyncDispose]();
});

const ALL = ["stdio-new", "stdio-old", "http-new", "http-old"] as const;

let calls = 0;
async function call(
  toolName: string,
  input: ToolCall["arguments"] = {},
  context: CallContext = {},
): Promise<ToolResult> {
  calls += 1;
  return await glovebox.execute({ id: `call-${calls}`, toolName, arguments: input }, { tenantId: "zeta", ...context });
}

/** Process id in the namespace of the host. In its own namespace the process has another id. */
const pidOfServer = (name: string): number =>
  glovebox.mcp.servers().find(({ server }) => server === name)?.pid ?? Number.NaN;

describe("createGlovebox({ mcp })", () => {
  test("starts no server before it is needed", () => {
    expect(glovebox.mcp.servers().map(({ state }) => state)).toEqual(Array.from({ length: 8 }, () => "idle"));
    expect(glovebox.router.getRegisteredTools({ tenantId: "zeta" })).toEqual([]);
    expect(
      glovebox.health({ scope: "all" }).map(({ sourceId, source, state }) => [sourceId, source, state]),
    ).toContainEqual(["http-new", "mcp", "closed"]);
  });

  test.for(ALL)("calls a tool that was not listed before: %s", async (server) => {
    expect(outputOf(await call(`${server}__echo`, { said: "hello" }))).toBe("hello");
    const [status] = glovebox.mcp.servers().filter((each) => each.server === server);
    expect(status).toMatchObject({
      state: "connected",
      protocolVersion: server.endsWith("new") ? "2026-07-28" : "2025-11-25",
      serverInfo: { name: "test-tools", version: "1.2.3" },
      tools: 12,
      connections: 1,
    });
  });

  test("does not start the other servers", () => {
    const states = glovebox.mcp.servers().map(({ server, state }) => [server, state]);
    expect(states).toContainEqual(["quiet", "idle"]);
    expect(states).toContainEqual(["gone", "idle"]);
  });

  test("lists the tools of all servers that answer, with their definitions and origin", async () => {
    const tools = await glovebox.listTools({ tenantId: "zeta" });
    expect(tools.filter(({ name }) => name.startsWith("q.")).map(({ name }) => name)).toEqual([
      "q.ask",
      "q.echo",
      "q.log",
    ]);
    expect(tools.find(({ name }) => name === "http-new__echo")).toMatchObject({
      description: "Says it again",
      inputSchema: { type: "object", required: ["said"] },
      annotations: { readOnlyHint: true, title: "Echo" },
      origin: { server: "http-new", toolName: "echo", isTrusted: false },
    });
    expect(tools.some(({ name }) => name === "echo" || name.startsWith("gone"))).toBe(false);
    expect(glovebox.mcp.servers().find(({ server }) => server === "gone")?.lastError?.message).toBe(
      'The MCP server "gone" could not be started: The command is not an executable file',
    );
  });

  test("offers a server's tools to its tenants only", async () => {
    expect(outputOf(await call("echo", { said: "mine" }, { tenantId: "acme" }))).toBe("mine");
    expect(codeOf(await call("echo", { said: "mine" }, { tenantId: "other" }))).toBe("TOOL_UNAVAILABLE");
    expect((await glovebox.listTools({ tenantId: "acme" })).some(({ name }) => name === "echo")).toBe(true);
    expect((await glovebox.listTools({ tenantId: "other" })).some(({ name }) => name === "echo")).toBe(false);
    expect(glovebox.health({ tenantId: "other" }).map(({ sourceId }) => sourceId)).not.toContain("private");
  });

  test("gives a program only the configured environment", async () => {
    const own = await makeGlovebox({
      mcp: { servers: { s: { ...script, env: ["GLOVEBOX_TEST_LET_THROUGH"], envFor: () => ({ MORE: "1" }) } } },
    });
    process.env.GLOVEBOX_TEST_LET_THROUGH = "yes";
    process.env.GLOVEBOX_TEST_KEPT = "no";
    try {
      const result = await own.execute({ id: "c", toolName: "s__environment" });
      const environment = JSON.parse(String(outputOf(result))) as { readonly [name: string]: string };
      expect(environment).toMatchObject({ GLOVEBOX_TEST_LET_THROUGH: "yes", MORE: "1" });
      expect(environment).not.toHaveProperty("GLOVEBOX_TEST_KEPT");
    } finally {
      delete process.env.GLOVEBOX_TEST_LET_THROUGH;
      delete process.env.GLOVEBOX_TEST_KEPT;
      await own.close();
    }
  });
});

describe("a call of an upstream tool", () => {
  test.for(ALL)("returns its value as output, without content that repeats it: %s", async (server) => {
    const result = await call(`${server}__add`, { a: 19, b: 23 });
    expect(result).toMatchObject({ success: true, output: { sum: 42 } });
    expect(result).not.toHaveProperty("content");
  });

  test.for(ALL)("returns all kinds of content in order: %s", async (server) => {
    const result = await call(`${server}__show`);
    expect(result).toMatchObject({ success: true, output: null });
    expect(result.success && result.content).toEqual([
      { type: "text", text: "A pixel:" },
      { type: "image", data: expect.any(Uint8Array), mimeType: "image/png", annotations: { audience: ["user"] } },
      { type: "audio", data: new Uint8Array([0, 1, 2]), mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "mem://a", text: "a", mimeType: "text/plain" } },
      { type: "resource", resource: { uri: "mem://b", blob: new Uint8Array([0, 1, 2]) } },
      { type: "resource_link", uri: "mem://c", name: "c", size: 3 },
    ]);
  });

  test.for(ALL)("fails with the tool's message and content: %s", async (server) => {
    expect(errorOf(await call(`${server}__fail`))).toMatchObject({
      code: "TOOL_FAILED",
      message: "The disk is full",
      details: { content: [{ type: "text", text: "The disk is full" }] },
    });
  });

  test.for(ALL)("rejects invalid arguments before the server is called: %s", async (server) => {
    expect(codeOf(await call(`${server}__echo`, { said: 5 }))).toBe("PARAM_INVALID");
    expect(codeOf(await call(`${server}__echo`, []))).toBe("PARAM_INVALID");
  });

  test.concurrent.for(ALL)(
    "continues while it makes progress, and reports the progress: %s",
    async (server, { expect }) => {
      const steps: unknown[] = [];
      const context = { onProgress: (progress: unknown) => steps.push(progress) };
      expect(outputOf(await call(`${server}__steps`, { steps: 5, everyMs: TIMEOUT_MS / 4 }, context))).toBe("5 steps");
      expect(steps).toEqual([1, 2, 3, 4, 5].map((n) => ({ progress: n, total: 5, message: `step ${n}` })));
    },
  );

  test.concurrent.for(ALL)("times out without result or progress: %s", async (server, { expect }) => {
    const error = errorOf(await call(`${server}__hang`, { id: server }));
    expect(error).toMatchObject({ code: "TOOL_TIMEOUT", details: { server, timeoutMs: TIMEOUT_MS } });
  });

  test.concurrent.for(ALL)("times out at its own limit even with progress: %s", async (server, { expect }) => {
    const result = await call(`${server}__steps`, { steps: 100, everyMs: 100 }, { timeoutMs: 400 });
    expect(errorOf(result)).toMatchObject({ code: "TOOL_TIMEOUT", details: { timeoutMs: 400 } });
  });

  test.for(ALL)("receives its log messages: %s", async (server) => {
    const logs: string[] = [];
    const result = await call(`${server}__log`, { lines: ["a", "b"] }, { onLog: ({ message }) => logs.push(message) });
    expect(result.logs).toMatchObject([
      { level: "warn", message: "author: a" },
      { level: "warn", message: "author: b" },
    ]);
    expect(logs).toEqual(["author: a", "author: b"]);
  });

  // These two use servers without a short timeout, because twenty concurrent calls can be slow on a busy machine.
  test("a call over HTTP receives only its own log messages among concurrent calls", async () => {
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, n) => call("many__log", { lines: [`line ${n}`] }, { tenantId: `tenant-${n}` })),
    );
    expect(results.map(({ logs }) => logs.map(({ message }) => message))).toEqual(
      Array.from({ length: 20 }, (_, n) => [`author: line ${n}`]),
    );
  });

  test("a call on a shared channel receives no log messages rather than those of another call", async () => {
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, n) => call("q.log", { lines: [`line ${n}`] }, { tenantId: `tenant-${n}` })),
    );
    for (const [n, { success, logs }] of results.entries()) {
      expect(success).toBe(true);
      for (const { message } of logs) expect(message).toBe(`author: line ${n}`);
    }
  });

  test("is cancelled at the server when its caller cancels it", async () => {
    const controller = new AbortController();
    const running = call("http-new__hang", { id: "given-up" }, { signal: controller.signal });
    await expect.poll(() => http.events.begun).toContain("given-up");
    controller.abort();
    expect(codeOf(await running)).toBe("CANCELLED");
    await expect.poll(() => http.events.aborted).toContain("given-up");
  });

  test("sends the configured headers", () => {
    expect(http.headers.some((headers) => headers.get("x-key") === "k-1")).toBe(true);
  });

  test("a call of an unknown tool lists the known names", async () => {
    const error = errorOf(await call("stdio-new__no-such-tool"));
    expect(error).toMatchObject({ code: "TOOL_UNAVAILABLE", message: expect.stringMatching(/known tools: /) });
  });

  test("a call of a missing program fails without naming the searched folders", async () => {
    const error = errorOf(await call("gone__anything"));
    expect(error).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true, details: { server: "gone" } });
    expect(error.message).not.toMatch(/such-program/);
    expect(glovebox.health({ scope: "all" }).find(({ sourceId }) => sourceId === "gone")?.failures).toBeGreaterThan(0);
  });
});

describe("a request of a server during a call", () => {
  test.for(["stdio-new", "stdio-old", "http-new"] as const)("is answered by the host's hook: %s", async (server) => {
    requests.length = 0;
    const result = await call(`${server}__ask`, {}, { tenantId: "acme" });
    expect(outputOf(result)).toBe('accept {"name":"Ada","tea":true}');
    const { callId } = result;
    expect(requests).toEqual([{ message: "Who are you?", tenantId: "acme", callId, toolName: "ask", server }]);
  });

  test("is rejected if the host has no hook", async () => {
    expect(codeOf(await call("q.ask"))).toBe("CAPABILITY_DENIED");
  });
});

describe("a server that exits during a call", () => {
  test("fails that call only, and the next call connects again", async () => {
    const pidOf = async (server: string): Promise<number> => {
      await call(`${server}__pid`);
      return pidOfServer(server);
    };
    const before = await pidOf("stdio-new");
    const other = await pidOf("stdio-old");
    const bystander = call("stdio-old__steps", { steps: 3, everyMs: 200 });
    // More calls than the circuit allows to fail, but they count as one failure.
    const hanging = Array.from({ length: 8 }, () => call("stdio-new__hang", { id: "killed" }));
    const states = () => glovebox.listCalls({ scope: "all" }).map(({ toolName, state }) => `${toolName} ${state}`);
    await expect.poll(states).toEqual(expect.arrayContaining(Array(8).fill("stdio-new__hang running")));
    // The server has received them when it answers a later request.
    expect(outputOf(await call("stdio-new__echo", { said: "after them" }))).toBe("after them");
    process.kill(before, "SIGKILL");
    for (const error of (await Promise.all(hanging)).map(errorOf)) {
      expect(error).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true, details: { server: "stdio-new" } });
      expect(error.message).toBe('The MCP server "stdio-new" disconnected while "hang" ran');
    }
    expect(glovebox.health({ scope: "all" }).find(({ sourceId }) => sourceId === "stdio-new")).toMatchObject({
      failures: 1,
    });
    const after = await pidOf("stdio-new");
    expect(after).not.toBe(before);
    expect(outputOf(await bystander)).toBe("3 steps");
    expect(await pidOf("stdio-old")).toBe(other);
  });

  test("fails that call if the server exits by itself", async () => {
    expect(errorOf(await call("stdio-old__die"))).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect(outputOf(await call("stdio-old__echo", { said: "again" }))).toBe("again");
  });
});

describe("glovebox.mcp", () => {
  test("adds a server and removes it with its tools and its process", async () => {
    glovebox.mcp.addServer("late", { ...script, scope: "global", prefix: "late-" });
    expect(() => glovebox.mcp.addServer("late", { ...script, scope: "global" })).toThrow(/already/);
    await call("late-pid");
    const pid = pidOfServer("late");
    const hanging = call("late-hang", { id: "removed" });
    await expect.poll(() => glovebox.mcp.servers().find(({ server }) => server === "late")?.state).toBe("connected");
    expect(await glovebox.mcp.removeServer("late")).toBe(true);
    expect(await glovebox.mcp.removeServer("late")).toBe(false);
    expect(codeOf(await hanging)).toBe("CANCELLED");
    expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
    expect(codeOf(await call("late-pid"))).toBe("TOOL_UNAVAILABLE");
    expect(glovebox.health({ scope: "all" }).map(({ sourceId }) => sourceId)).not.toContain("late");
  });

  test("removes a server that is still connecting, and fails the waiting call", async () => {
    glovebox.mcp.addServer("late", { command: "sh", args: ["-c", "while read -r line; do :; done"], scope: "global" });
    const early = call("late__pid");
    await expect.poll(() => glovebox.mcp.servers().find(({ server }) => server === "late")?.state).toBe("connecting");
    await glovebox.mcp.removeServer("late");
    expect(errorOf(await early).message).toBe('The MCP server "late" was removed');
  });

  test("rejects invalid options and names them", () => {
    expect(() => glovebox.mcp.addServer("bad name", script)).toThrow(
      /^The server's name: Expected 1 to 64 characters out of A-Z/,
    );
    expect(() => glovebox.mcp.addServer("bad", { command: "x", timeout: 5 } as never)).toThrow(
      /^options\.timeout: Unknown option\. Did you mean "timeoutMs"\?/,
    );
    expect(() => glovebox.mcp.addServer("bad", { url: "ftp://example.com" })).toThrow(/http: or https:/);
    expect(() => glovebox.mcp.addServer("bad", {} as never)).toThrow(/command/);
  });
});
