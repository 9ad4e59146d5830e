import { request as httpRequest, type OutgoingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { type ServerType, serve } from "@hono/node-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGuards, type GuardOptions } from "../../../src/host/mcp/server/http/guards.ts";

let guards = createGuards({});
let server: ServerType;
let port = 0;
beforeAll(async () => {
  const answer = (request: Request): Response =>
    guards.check(request) ?? guards.finish(request, new Response("served"));
  await new Promise<void>((resolve) => {
    server = serve({ fetch: answer, port: 0, hostname: "127.0.0.1" }, () => resolve());
  });
  port = (server.address() as AddressInfo).port;
});
afterAll(async () => await new Promise((resolve) => server.close(resolve)));

interface Answer {
  readonly status: number | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

/** Sends a request like a browser, with the given Host and Origin. */
async function send(headers: OutgoingHttpHeaders, method = "POST"): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: "127.0.0.1", path: "/mcp", method, headers }, async (response) => {
      const body = Buffer.concat(await response.toArray()).toString();
      resolve({ status: response.statusCode, headers: response.headers, body });
    });
    request.on("error", reject).end();
  });
}

const withOptions = async (options: GuardOptions, run: () => Promise<void>): Promise<void> => {
  const before = guards;
  guards = createGuards(options);
  try {
    await run();
  } finally {
    guards = before;
  }
};

describe("createGuards()", () => {
  test.for([
    ["localhost", 200],
    ["localhost:1234", 200],
    ["LOCALHOST", 200],
    ["127.0.0.1:80", 200],
    ["[::1]:3000", 200],
    ["evil.example.com", 403],
    ["localhost.evil.example.com", 403],
    ["evil.example.com:80", 403],
    ["127.0.0.1.nip.io", 403],
    ["evil@localhost", 403],
    ["localhost/x", 403],
    ["0.0.0.0", 403],
    ["[::ffff:127.0.0.1]", 403],
    ["localhost, evil.example.com", 403],
  ] as const)("answers Host %s with %i", async ([host, status]) => {
    const answer = await send({ host });
    // The HTTP server itself may reject a header that is not a host.
    expect([status, status === 403 ? 400 : status]).toContain(answer.status);
    expect(answer.body === "served").toBe(status === 200);
  });

  test.for([
    ["http://localhost:5173", 200],
    ["https://localhost", 200],
    ["http://127.0.0.1:80", 200],
    ["http://[::1]:6274", 200],
    ["https://evil.example.com", 403],
    ["http://localhost.evil.example.com", 403],
    ["http://localhost@evil.example.com", 403],
    ["http://evil.example.com#@localhost", 403],
    ["null", 403],
    ["", 403],
    ["localhost", 403],
    ["file://", 403],
    ["file://localhost", 403],
    ["chrome-extension://localhost", 403],
  ] as const)("answers Origin %s with %i", async ([origin, status]) => {
    const answer = await send({ host: "localhost", origin });
    expect(answer.status).toBe(status);
    expect(answer.headers["access-control-allow-origin"]).toBe(status === 200 ? origin : undefined);
    if (status === 403)
      expect(JSON.parse(answer.body)).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32_000 } });
  });

  test("accepts requests without an Origin, which do not come from a browser", async () => {
    expect((await send({ host: "localhost" })).headers["access-control-allow-origin"]).toBeUndefined();
  });

  test("accepts only the configured hosts and pages on them", async () => {
    await withOptions({ allowedHosts: ["tools.example.com", "other.example.com:8443"] }, async () => {
      expect((await send({ host: "tools.example.com" })).status).toBe(200);
      expect((await send({ host: "tools.example.com:8443" })).status).toBe(200);
      expect((await send({ host: "other.example.com:8443" })).status).toBe(200);
      expect((await send({ host: "other.example.com" })).status).toBe(403);
      expect((await send({ host: "localhost" })).status).toBe(403);
      expect((await send({ host: "tools.example.com", origin: "https://tools.example.com" })).status).toBe(200);
      expect((await send({ host: "tools.example.com", origin: "http://localhost" })).status).toBe(403);
    });
  });

  test("compares whole origins: scheme, host and port", async () => {
    const allowedOrigins = ["https://app.example.com", "chrome-extension://abcdef"];
    await withOptions({ allowedOrigins }, async () => {
      for (const [origin, status] of [
        ["https://app.example.com", 200],
        ["chrome-extension://abcdef", 200],
        ["http://app.example.com", 403],
        ["https://app.example.com:8443", 403],
        ["chrome-extension://other", 403],
        ["http://localhost", 403],
      ] as const) {
        expect((await send({ host: "localhost", origin })).status, origin).toBe(status);
      }
    });
  });

  test("answers preflight requests of allowed pages only", async () => {
    const question = {
      host: "localhost",
      "access-control-request-method": "POST",
      "access-control-request-headers": "mcp-method, authorization",
    };
    const answer = await send({ ...question, origin: "http://localhost:5173" }, "OPTIONS");
    expect(answer.status).toBe(204);
    expect(answer.headers["access-control-allow-origin"]).toBe("http://localhost:5173");
    expect(answer.headers["access-control-allow-headers"]).toBe("mcp-method, authorization");
    expect(answer.headers["access-control-allow-methods"]).toContain("POST");
    expect((await send({ ...question, origin: "https://evil.example.com" }, "OPTIONS")).status).toBe(403);
  });

  test("checks the URL of a request that was created in this process", () => {
    expect(createGuards({}).check(new Request("http://localhost/mcp"))).toBeUndefined();
    expect(createGuards({}).check(new Request("http://evil.example.com/mcp"))?.status).toBe(403);
  });

  test.for([
    [{ allowedHosts: ["https://tools.example.com"] }, "options.allowedHosts.0: Expected a host name, or name:port"],
    [{ allowedHosts: ["a/b"] }, "options.allowedHosts.0"],
    [{ allowedOrigins: ["https://tools.example.com/path"] }, "options.allowedOrigins.0"],
    [{ allowedOrigins: ["null://"] }, "options.allowedOrigins.0"],
  ] as const)("rejects %j and names the option", ([options, message]) => {
    expect(() => createGuards(options)).toThrow(message);
  });
});
