// Tests upstream servers over HTTP: large results, lost streams, restarts, expired sessions, redirects and credentials.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpHttpServer } from "../../../src/host/mcp/client/mcp-options.ts";
import { freePort } from "../../support/free-port.ts";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type Answer, sendResult, startScriptedServer, startToolServer } from "../../support/mcp-http.ts";

const ACME = { tenantId: "acme" };
let glovebox: Glovebox;
const opened: AsyncDisposable[] = [];
beforeAll(async () => {
  // A circuit that has opened stays open for as long as a test looks at it.
  glovebox = await makeGlovebox({ tenancy: "multi", health: { openMs: 300_000 } });
});
afterEach(async () => {
  await glovebox.mcp.removeServer("up");
  for (const one of opened.splice(0).reverse()) await one[Symbol.asyncDispose]();
});
afterAll(async () => await glovebox.close());

/** Adds a server, `up`, whose one tool `t` returns the given result. */
async function open(answer: Answer, options: Partial<McpHttpServer> = {}): Promise<void> {
  const server = await startScriptedServer((rpc, response, request) => {
    if (rpc.method === "tools/list") return { tools: [{ name: "t", inputSchema: { type: "object" } }] };
    return answer(rpc, response, request);
  });
  opened.push(server);
  glovebox.mcp.addServer("up", { url: server.url, scope: "global", timeoutMs: 60_000, ...options });
}

const call = (context: CallContext = {}, args: object = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName: "up__t", arguments: args }, { ...ACME, ...context });

const said = (text: string): object => ({ content: [{ type: "text", text }] });

describe("a result over HTTP", () => {
  test("a result that exceeds the message limit fails the call", async () => {
    await open(({ method }) => (method === "tools/call" ? said("x".repeat(200_000)) : undefined), {
      maxMessageBytes: 100_000,
    });
    expect(errorOf(await call())).toMatchObject({ code: "OUTPUT_INVALID", details: { server: "up" } });
  });

  test("a result that arrives as an event is limited, and its stream is not", async () => {
    const answer: Answer = (rpc, response) => {
      if (rpc.method !== "tools/call") return undefined;
      const size = Number((rpc.params?.arguments as { readonly size?: number } | undefined)?.size);
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (let n = 0; n < 20; n += 1) response.write(`: ${"-".repeat(20_000)}\r\n\r\n`);
      response.end(`data: ${JSON.stringify({ jsonrpc: "2.0", id: rpc.id, result: said("y".repeat(size)) })}\n\n`);
      return undefined;
    };
    await open(answer, { maxMessageBytes: 50_000 });
    expect(String(outputOf(await call({}, { size: 10_000 })))).toHaveLength(10_000);
    expect(codeOf(await call({}, { size: 100_000 }))).toBe("OUTPUT_INVALID");
  });

  test.for([
    ["no JSON", "{"],
    ["no JSON-RPC", '{"result":1}'],
    ["that of another request", '{"jsonrpc":"2.0","id":77777,"result":{"content":[]}}'],
  ] as const)("a result that is %s fails the call", async ([, body]) => {
    await open(({ method }, response) => {
      if (method !== "tools/call") return;
      response.writeHead(200, { "content-type": "application/json" }).end(body);
    });
    expect(codeOf(await call())).toBe("OUTPUT_INVALID");
  });

  test.for([
    ["content that is not a list", { content: 5 }, "OUTPUT_INVALID"],
    ["a million parts", { content: Array.from({ length: 1_000_000 }, () => 1) }, "OUTPUT_INVALID"],
    ["an unknown kind of content", { content: [{ type: "hologram" }] }, "OUTPUT_INVALID"],
    ["an image without bytes", { content: [{ type: "image", mimeType: "image/png", data: "%%" }] }, "OUTPUT_INVALID"],
    [
      "an image of half a byte",
      { content: [{ type: "image", mimeType: "image/png", data: "AAAAA" }] },
      "OUTPUT_INVALID",
    ],
    ["nothing", {}, "ok"],
    ["a list", [], "OUTPUT_INVALID"],
    ["an error that says nothing", { isError: true }, "TOOL_FAILED"],
    [
      "an error with a million parts",
      { isError: true, content: Array.from({ length: 500_000 }, () => 1) },
      "TOOL_FAILED",
    ],
    ["a value with a __proto__", { structuredContent: JSON.parse('{"__proto__":{"polluted":1}}') }, "OUTPUT_INVALID"],
  ] as const)("a result with %s: %s", async ([, result, code]) => {
    await open(({ method }) => (method === "tools/call" ? result : undefined));
    const got = await call();
    expect(codeOf(got)).toBe(code);
    expect(JSON.stringify(got).length).toBeLessThan(200_000);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test("an image in lines of base64 is decoded", async () => {
    const part = { type: "image", mimeType: "image/png", data: "AQID\r\nBAU=\n" };
    await open(({ method }) => (method === "tools/call" ? { content: [part] } : undefined));
    expect(await call()).toMatchObject({ success: true, content: [{ data: new Uint8Array([1, 2, 3, 4, 5]) }] });
  });

  test("a result whose text repeats its value has only the value and the other content", async () => {
    const structuredContent = { a: [1, { b: null }] };
    const repeated = { type: "text", text: JSON.stringify(structuredContent, null, 2) };
    const other = { type: "text", text: "and more" };
    await open(({ method }) =>
      method === "tools/call" ? { structuredContent, content: [repeated, other] } : undefined,
    );
    expect(await call()).toMatchObject({ success: true, output: structuredContent, content: [other] });
  });
});

describe("an error of the protocol", () => {
  test.for([
    [-32_602, "PARAM_INVALID"],
    [-32_603, "TOOL_UNAVAILABLE"],
    [-32_601, "TOOL_UNAVAILABLE"],
    [-32_021, "CAPABILITY_DENIED"],
    [12, "TOOL_UNAVAILABLE"],
  ] as const)("%i becomes %s with the server's message", async ([code, expected]) => {
    await open(({ method, id }, response) => {
      if (method !== "tools/call") return;
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({ jsonrpc: "2.0", id, error: { code, message: "No\u0007t this", data: { path: "/x" } } }),
      );
    });
    const error = errorOf(await call());
    expect(error).toMatchObject({ code: expected, details: { server: "up", code } });
    expect(error.message).toMatch(/No t this$/);
  });

  test.for([
    [-32_602, "PARAM_INVALID"],
    [-32_603, "TOOL_UNAVAILABLE"],
  ] as const)(
    "%i in a response with status 400 is the answer to the call, which is not repeated",
    async ([code, expected]) => {
      let calls = 0;
      await open(({ method, id }, response) => {
        if (method === "initialize") response.setHeader("mcp-session-id", "s1");
        if (method !== "tools/call") return;
        calls += 1;
        response.writeHead(400, { "content-type": "application/json" });
        response.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message: "Not this" } }));
      });
      const error = errorOf(await call());
      expect(error).toMatchObject({ code: expected, details: { server: "up", code } });
      expect(error.message).toMatch(/Not this$/);
      expect(calls).toBe(1);
    },
  );

  test("a missing scope is reported with the status 403", async () => {
    await open(({ method }, response) => {
      if (method !== "tools/call") return;
      response.writeHead(403, { "www-authenticate": 'Bearer error="insufficient_scope", scope="admin"' }).end();
    });
    expect(errorOf(await call())).toMatchObject({ code: "TOOL_UNAVAILABLE", details: { status: 403 } });
  });

  test.for([
    [429, "7", 7_000],
    [503, "7", 7_000],
    [503, "99999999", 3_600_000],
    [429, "Fri, 01 Jan 2100 00:00:00 GMT", 3_600_000],
    [429, "Thu, 01 Jan 2015 00:00:00 GMT", undefined],
    [429, "soon", undefined],
    [500, "7", undefined],
  ] as const)("status %i with Retry-After %s: retryAfterMs is %s", async ([status, retryAfter, expected]) => {
    await open(({ method }, response) => {
      if (method === "tools/call") response.writeHead(status, { "retry-after": retryAfter }).end();
    });
    const { code, details } = errorOf(await call());
    expect([code, details?.status, details?.retryAfterMs]).toEqual(["TOOL_UNAVAILABLE", status, expected]);
  });

  test("an error for a tool that was removed fails with TOOL_UNAVAILABLE", async () => {
    let isThere = true;
    const server = await startScriptedServer(({ method, id }, response) => {
      if (method === "tools/list") return { tools: isThere ? [{ name: "t", inputSchema: { type: "object" } }] : [] };
      if (method !== "tools/call") return undefined;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_602, message: "Unknown tool: t" } }));
      return undefined;
    });
    opened.push(server);
    glovebox.mcp.addServer("up", { scope: "global", url: server.url });
    expect(codeOf(await call())).toBe("PARAM_INVALID");
    isThere = false;
    await pause(1_100);
    expect(errorOf(await call())).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringMatching(/no longer has the tool "t"/),
    });
    expect(glovebox.router.hasTool("up__t", { tenantId: "acme" })).toBe(false);
  });
});

test("a call whose response breaks off has lost its connection, and may have run", async () => {
  await open(({ method }, response) => {
    if (method !== "tools/call") return;
    response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
    response.write('{"jsonrpc":', () => response.destroy());
  });
  const error = errorOf(await call());
  expect(error.code).toBe("TOOL_UNAVAILABLE");
  expect(error.message).toMatch(/disconnected while "t" ran/);
});

describe("a stream that breaks off", () => {
  test.for(["auto", "legacy"] as const)(
    "a stream that breaks off during a call fails that call at once: %s",
    async (protocol) => {
      await open(
        ({ method }, response) => {
          if (method !== "tools/call") return;
          response.writeHead(200, { "content-type": "text/event-stream" });
          response.write(": on its way\n\n");
          setTimeout(() => response.destroy(), 100);
        },
        { protocol, timeoutMs: 120_000 },
      );
      const result = await call();
      expect(errorOf(result)).toMatchObject({
        code: "TOOL_UNAVAILABLE",
        message: 'The MCP server "up" disconnected while "t" ran',
      });
    },
  );

  test("a stream that can be resumed is resumed, and the call succeeds", async () => {
    const server = createServer((request, response) => {
      void (async () => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        if (request.method === "GET") {
          if (request.headers["last-event-id"] !== "e1") return response.writeHead(405).end();
          response.writeHead(200, { "content-type": "text/event-stream" });
          return response.end(
            `id: e2\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: callId, result: said("resumed") })}\n\n`,
          );
        }
        const rpc = JSON.parse(Buffer.concat(chunks).toString()) as { readonly id?: number; readonly method: string };
        if (rpc.id === undefined) return response.writeHead(202).end();
        if (rpc.method === "initialize") {
          const serverInfo = { name: "resumes", version: "0" };
          return sendResult(response, rpc, { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo });
        }
        if (rpc.method === "tools/list") {
          return sendResult(response, rpc, { tools: [{ name: "t", inputSchema: { type: "object" } }] });
        }
        callId = rpc.id;
        response.writeHead(200, { "content-type": "text/event-stream" });
        return response.end("id: e1\nretry: 20\ndata: \n\n");
      })();
    });
    let callId = 0;
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    opened.push({
      [Symbol.asyncDispose]: async () => {
        server.closeAllConnections();
        await new Promise((closed) => server.close(closed));
      },
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    glovebox.mcp.addServer("up", { scope: "global", url, protocol: "legacy" });
    expect(outputOf(await call())).toBe("resumed");
  });
});

describe("a server that stopped", () => {
  test("a server that stopped and started again is connected by the next call", async () => {
    const first = await startToolServer(await freePort());
    const { port } = new URL(first.url);
    glovebox.mcp.addServer("up", { scope: "global", url: first.url, timeoutMs: 60_000 });
    const echo = (): Promise<ToolResult> =>
      glovebox.execute({ id: "1", toolName: "up__echo", arguments: { said: "a" } }, ACME);
    expect(codeOf(await echo())).toBe("ok");
    const hang = { id: "1", toolName: "up__hang", arguments: { id: "gone" } };
    const cut = Promise.all(Array.from({ length: 8 }, () => glovebox.execute(hang, ACME)));
    const isHeard = (): boolean => first.headers.filter((headers) => headers.get("mcp-name") === "hang").length === 8;
    await expect.poll(isHeard).toBe(true);
    await first[Symbol.asyncDispose]();
    expect(new Set((await cut).map(codeOf))).toEqual(new Set(["TOOL_UNAVAILABLE"]));
    expect(glovebox.health({ scope: "all" }).find(({ sourceId }) => sourceId === "up")).toMatchObject({ failures: 1 });
    const gone = errorOf(await echo());
    expect(gone).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true });
    expect(gone.message).not.toMatch(/127|ECONN|fetch/);
    expect(glovebox.health({ scope: "all" }).find(({ sourceId }) => sourceId === "up")).toMatchObject({ failures: 2 });
    opened.push(await startToolServer(Number(port)));
    expect(codeOf(await echo())).toBe("ok");
  });

  test("is not contacted for a while after repeated failures", async () => {
    glovebox.mcp.addServer("up", { scope: "global", url: "http://127.0.0.1:9/", connectTimeoutMs: 500 });
    const errors = [];
    for (let n = 0; n < 8; n += 1) errors.push(errorOf(await call()));
    expect(errors.every(({ code }) => code === "TOOL_UNAVAILABLE")).toBe(true);
    expect(errors.at(-1)?.details).toHaveProperty("retryAfterMs");
    expect(glovebox.health({ scope: "all" }).find(({ sourceId }) => sourceId === "up")).toMatchObject({
      state: "open",
    });
  });

  test.for([404, 400] as const)(
    "no longer knows the session (%i): the call is repeated in a new one",
    async (status) => {
      let sessions = 0;
      let requests = 0;
      await open(async ({ method, id }, response, request) => {
        if (method === "initialize") {
          sessions += 1;
          response.setHeader("mcp-session-id", `s${sessions}`);
          return undefined;
        }
        if (method !== "tools/call") return undefined;
        if (request.headers["mcp-session-id"] === "s1") {
          requests += 1;
          await pause(requests * 10);
          response.writeHead(status, { "content-type": "application/json" });
          response.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_000, message: "No session" } }));
          return undefined;
        }
        return said(String(request.headers["mcp-session-id"]));
      });
      // Concurrent calls: the new session of one must not end another.
      const results = await Promise.all(Array.from({ length: 8 }, () => call()));
      expect(results.map(outputOf)).toEqual(Array(8).fill("s2"));
    },
  );
});

describe("a listing", () => {
  /** A server with one tool, `t`, that knows one session and one token at a time. */
  async function startForgetful(known: { session: string; token: string }): Promise<string> {
    const server = await startScriptedServer(({ method }, response, request) => {
      const { authorization = known.token, "mcp-session-id": session } = request.headers;
      if (authorization !== known.token) return void response.writeHead(401).end();
      if (method === "server/discover") return void response.writeHead(404).end();
      if (method === "initialize") return void response.setHeader("mcp-session-id", known.session);
      if (session !== known.session) return void response.writeHead(404).end();
      if (method !== "tools/list") return undefined;
      return { tools: [{ name: `${known.session}-${known.token}`, inputSchema: { type: "object" } }], ttlMs: 0 };
    });
    opened.push(server);
    return server.url;
  }

  test("uses a new connection if the session or the credentials are no longer valid", async () => {
    const restarted = { session: "s1", token: "" };
    const rotated = { session: "s", token: "k1" };
    const headersFor = (): { readonly authorization: string } => ({ authorization: rotated.token });
    glovebox.mcp.addServer("restarted", { scope: "global", url: await startForgetful(restarted), prefix: "" });
    glovebox.mcp.addServer("rotated", { scope: "global", url: await startForgetful(rotated), prefix: "", headersFor });
    const names = async (): Promise<readonly string[]> =>
      (await glovebox.listTools({ tenantId: "acme" })).map(({ name }) => name);
    expect(await names()).toEqual(["s-k1", "s1-"]);
    restarted.session = "s2";
    rotated.token = "k2";
    await expect.poll(names, { interval: 200 }).toEqual(["s-k2", "s2-"]);
    expect(glovebox.health({ scope: "all" }).map(({ failures }) => failures)).toEqual([0, 0]);
    await Promise.all(["restarted", "rotated"].map((name) => glovebox.mcp.removeServer(name)));
  });
});

describe("a request", () => {
  async function startElsewhere(): Promise<{ readonly url: string; readonly requests: string[] }> {
    const requests: string[] = [];
    const server = createServer((request, response) => {
      requests.push(`${request.method} ${request.headers.authorization}`);
      response.end("{}");
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    opened.push({ [Symbol.asyncDispose]: async () => void (await new Promise((closed) => server.close(closed))) });
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests };
  }

  test.for([301, 302, 307, 308] as const)("does not follow a redirect to another origin (%i)", async (status) => {
    const elsewhere = await startElsewhere();
    await open(
      ({ method }, response) => {
        if (method === "tools/call") response.writeHead(status, { location: elsewhere.url }).end();
      },
      { headers: { authorization: "Bearer secret" } },
    );
    const error = errorOf(await call());
    expect(error.code).toBe("TOOL_UNAVAILABLE");
    expect(elsewhere.requests).toEqual([]);
    expect(JSON.stringify(error)).not.toMatch(/secret/);
  });

  test("follows a redirect within the origin that keeps the method", async () => {
    await open(({ method }, response, request) => {
      if (method !== "tools/call") return undefined;
      if (request.url === "/there") return said("there");
      response.writeHead(307, { location: "/there" }).end();
      return undefined;
    });
    expect(outputOf(await call())).toBe("there");
  });

  test("has the tenant's own headers, on its own connection", async () => {
    const seen = new Set<string>();
    await open(
      ({ method }, _response, request) => {
        seen.add(String(request.headers.authorization));
        return method === "tools/call" ? said(String(request.headers.authorization)) : undefined;
      },
      { headers: { "x-all": "1" }, headersFor: async (tenantId) => ({ authorization: `Bearer ${tenantId}` }) },
    );
    const [a, b] = await Promise.all([call({ tenantId: "a" }), call({ tenantId: "b" })]);
    expect([outputOf(a), outputOf(b)]).toEqual(["Bearer a", "Bearer b"]);
    expect([...seen].sort()).toEqual(["Bearer a", "Bearer b"]);
    expect(glovebox.mcp.servers().map(({ tenantId, tools }) => [tenantId, tools])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
    expect(glovebox.router.hasTool("up__t", { tenantId: "c" })).toBe(false);
  });

  test("has a token of the tenant's own provider, which is notified when the server rejects one", async () => {
    const rejectedTenants: string[] = [];
    await open(
      ({ method }, response, { headers: { authorization } }) => {
        if (authorization === "Bearer of c") return void response.writeHead(401).end();
        return method === "tools/call" ? said(String(authorization)) : undefined;
      },
      {
        authProviderFor: async (tenantId) => ({
          token: async () => `of ${tenantId}`,
          onUnauthorized: async () => void rejectedTenants.push(tenantId),
        }),
      },
    );
    const results = await Promise.all(["a", "b", "c"].map((tenantId) => call({ tenantId })));
    expect(results.slice(0, 2).map(outputOf)).toEqual(["Bearer of a", "Bearer of b"]);
    expect(errorOf(results[2] as ToolResult)).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringMatching(/HTTP 401/),
    });
    expect(new Set(rejectedTenants)).toEqual(new Set(["c"]));
  });

  test("a request without a sign-in fails, and the error names the authProvider", async () => {
    await open(
      (_rpc, response, { headers: { authorization } }) => {
        if (authorization === undefined) response.writeHead(401).end();
        return undefined;
      },
      { authProvider: { token: async () => undefined } },
    );
    expect(errorOf(await call()).message).toBe(
      'The MCP server "up" requires authorization that its authProvider does not have',
    );
  });

  test("requests new credentials when the server rejects the old ones", async () => {
    let key = 1;
    await open(
      ({ method, id }, response, request) => {
        if (request.headers.authorization !== `Bearer ${key}`) {
          response.writeHead(401).end();
          return undefined;
        }
        return id !== undefined && method === "tools/call" ? said("in") : undefined;
      },
      { headersFor: () => ({ authorization: `Bearer ${key}` }) },
    );
    expect(outputOf(await call())).toBe("in");
    key = 2;
    expect(outputOf(await call())).toBe("in");
  });

  test("is not sent without credentials", async () => {
    await open(() => undefined, {
      headersFor: () => {
        throw new Error("the vault at /secret/place is shut");
      },
    });
    const error = errorOf(await call());
    expect(error).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: 'No credentials are available for the MCP server "up"',
    });
  });
});
