// Sessions of one caller of the MCP server are not available to another, and clients do not receive errors of the host.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { type AuthenticatedCaller, ownerOf, principalOf } from "../../../src/host/mcp/server/authorization/caller.ts";
import { createMcpHandler, type McpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import type { McpHandlerOptions } from "../../../src/host/mcp/server/options.ts";
import type { McpHost } from "../../../src/host/mcp/server/tools/call-tool.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import {
  initializeRequest,
  legacyRequest,
  modernCall,
  modernRequest,
  post,
  type RawRequest,
} from "../../support/mcp-raw-client.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
});
afterAll(async () => await glovebox.close());

const caller = (fields: Partial<AuthenticatedCaller>): AuthenticatedCaller => ({
  scopes: [],
  expiresAt: 1e11,
  claims: {},
  ...fields,
});

/** Reads the caller from a header, as JSON. */
const authenticate = async ({ headers }: Request) => caller(JSON.parse(headers.get("x-caller") ?? "{}"));
const as = (fields: Partial<AuthenticatedCaller>) => ({ "x-caller": JSON.stringify(fields) });

function handlerOf(options: McpHandlerOptions): McpHandler {
  const handler = createMcpHandler(glovebox, options);
  onTestFinished(() => handler.close());
  return handler;
}

const sendTo =
  ({ fetch }: McpHandler) =>
  (url: URL | string, init: RequestInit): Promise<Response> =>
    fetch(new Request(url, init));
const URL_HERE = "http://localhost/mcp";

describe("the owner of a session", () => {
  test.for<readonly [string, Partial<AuthenticatedCaller>, Partial<AuthenticatedCaller>]>([
    ["another subject", { subject: "a" }, { subject: "b" }],
    ["another client", { subject: "a", clientId: "a" }, { subject: "a", clientId: "b" }],
    ["another issuer", { subject: "a", issuer: "a" }, { subject: "a", issuer: "b" }],
    ["no subject", { subject: "a" }, {}],
    ["the same text as its client", { subject: "a" }, { clientId: "a" }],
    ["other claims without a subject and a client", { claims: { key: 1 } }, { claims: { key: 2 } }],
    ["separators in its subject", { subject: "a", clientId: "b\0c" }, { subject: "a\0b", clientId: "c" }],
    ["separators in its issuer", { issuer: "a\0b", subject: "c" }, { issuer: "a", subject: "b\0c" }],
  ])("is not a caller with %s", async ([, owner, other]) => {
    const send = sendTo(handlerOf({ auth: { authenticate, serveMetadata: () => undefined } }));
    const begun = await post(URL_HERE, initializeRequest(as(owner)), send);
    const session = { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
    await begun.text();
    const ping = async (fields: Partial<AuthenticatedCaller>): Promise<number> =>
      (await post(URL_HERE, legacyRequest("ping", {}, { ...session, ...as(fields) }), send)).status;
    expect([await ping(other), await ping(owner)]).toEqual([404, 200]);
  });

  test("differs for a tenant and a principal whose texts are equal when concatenated", () => {
    const principal = principalOf(caller({ subject: "x" }));
    expect(ownerOf({ tenantId: "a", principal: `b${principal}` })).not.toBe(ownerOf({ tenantId: "ab", principal }));
    expect(ownerOf({ tenantId: "a\0", principal })).not.toBe(ownerOf({ tenantId: "a", principal: `\0${principal}` }));
  });
});

describe("requests of a session of 2025", () => {
  const idOf = (request: RawRequest, id: unknown): RawRequest => ({
    ...request,
    body: JSON.stringify({ ...JSON.parse(request.body), id }),
  });

  test("are rejected with 400 while another one with the same id runs", async () => {
    const { promise: finished, resolve: finish } = Promise.withResolvers<string>();
    let running = 0;
    glovebox.router.register("held", {}, async () => {
      running += 1;
      return await finished;
    });
    onTestFinished(() => void glovebox.removeTool("held"));
    const send = sendTo(handlerOf({}));
    const begin = async () => {
      const begun = await post(URL_HERE, initializeRequest(), send);
      await begun.text();
      return { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
    };
    const [session, other] = [await begin(), await begin()];
    const ask = (headers: typeof session, id: unknown) =>
      post(URL_HERE, idOf(legacyRequest("ping", {}, headers), id), send);
    const statusOf = async (headers: typeof session, id: unknown) => {
      const response = await ask(headers, id);
      await response.text();
      return response.status;
    };
    const call = await post(URL_HERE, legacyRequest("tools/call", { name: "held", arguments: {} }, session), send);
    await expect.poll(() => running).toBe(1);
    const rejected = await ask(session, 1);
    expect(rejected.status).toBe(400);
    expect(await rejected.json()).toMatchObject({
      error: { code: -32_600, message: expect.stringMatching(/id is running/) },
    });
    expect([await statusOf(session, "1"), await statusOf(session, 2), await statusOf(other, 1)]).toEqual([
      200, 200, 200,
    ]);
    finish("the answer");
    expect(await call.text()).toContain("the answer");
    expect(await statusOf(session, 1)).toBe(200);
  });

  test.for([undefined, null, {}, true])(
    "do not start one with an initialize request whose id is %j: 400",
    async (id) => {
      const send = sendTo(handlerOf({ sessions: { max: 1 } }));
      const response = await post(URL_HERE, idOf(initializeRequest(), id), send);
      expect([response.status, response.headers.get("mcp-session-id")]).toEqual([400, null]);
      expect(await response.json()).toMatchObject({ error: { code: expect.any(Number) } });
    },
  );
});

describe("expiresAt of a caller", () => {
  test.for([
    [Number.POSITIVE_INFINITY, 200],
    [Number.NEGATIVE_INFINITY, 401],
    [Number.NaN, 500],
  ] as const)("%d: the request is answered with %i", async ([expiresAt, status]) => {
    const auth = { authenticate: async () => caller({ expiresAt }), serveMetadata: () => undefined };
    const response = await post(URL_HERE, modernCall("add"), sendTo(handlerOf({ auth })));
    await response.text();
    expect(response.status).toBe(status);
  });
});

describe("errors of the host", () => {
  test.for([
    ["listTools", modernRequest("tools/list")],
    ["execute", modernCall("add")],
  ] as const)("%s: the client receives an internal error, and onError the reason", async ([method, request]) => {
    const secret = new Error("connect ECONNREFUSED 10.0.0.1:5432");
    const fail = () => Promise.reject(secret);
    const host = { router: glovebox.router, listTools: () => glovebox.listTools(), execute: fail, [method]: fail };
    const errors: unknown[] = [];
    const handler = createMcpHandler(host as McpHost, { onError: (error) => errors.push(error) });
    onTestFinished(() => handler.close());
    const response = await post(URL_HERE, request, sendTo(handler));
    expect(await response.json()).toMatchObject({ error: { code: -32_603, message: "Internal error" } });
    expect(errors).toContain(secret);
  });
});

test("onError receives no mistake of a client", async () => {
  const errors: unknown[] = [];
  const handler = handlerOf({ onError: (error) => errors.push(error) });
  const { headers } = modernCall("add");
  const { headers: ofSession } = legacyRequest("tools/list", {}, { "mcp-session-id": "none" });
  for (const [body, sent] of [
    ["{}", headers],
    ['{"jsonrpc":"2.0"}', headers],
    [modernCall("add").body, { ...headers, "mcp-method": "tools/list" }],
    [modernCall("add").body, { ...headers, "mcp-protocol-version": "1999-01-01" }],
    ["{}", ofSession],
    [legacyRequest("nothing", {}, {}).body, headers],
  ] as const) {
    const response = await post(URL_HERE, { body, headers: sent }, sendTo(handler));
    await response.text();
    expect([body, response.status]).toEqual([body, expect.toSatisfy((status) => status >= 400 && status < 500)]);
  }
  expect(errors).toEqual([]);
});

describe("batches", () => {
  test.for(["2025-03-26", "2025-06-18", "2025-11-25"])("are rejected with 400 in a session of %s", async (version) => {
    let ran = 0;
    glovebox.router.register("counts", {}, () => {
      ran += 1;
      return ran;
    });
    const send = sendTo(handlerOf({}));
    const begun = await post(URL_HERE, initializeRequest(), send);
    const session = { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "", "mcp-protocol-version": version };
    await begun.text();
    const { body, headers } = legacyRequest("tools/call", { name: "counts", arguments: {} }, session);
    const batch = JSON.stringify(Array.from({ length: 100 }, (_, id) => ({ ...JSON.parse(body), id })));
    for (const text of [batch, `[${body}]`, "[]"]) {
      const response = await post(URL_HERE, { body: text, headers }, send);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: { code: -32_600, message: expect.stringMatching(/Batches are not supported/) },
      });
    }
    expect(ran).toBe(0);
    glovebox.removeTool("counts");
  });
});

describe("a browser's preflight", () => {
  const preflight = async (requested: string): Promise<string | null> => {
    const headers = { origin: "http://localhost:1", "access-control-request-method": "POST" };
    const request = new Request(URL_HERE, {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-headers": requested },
    });
    return (await handlerOf({}).fetch(request)).headers.get("access-control-allow-headers");
  };
  test.for<readonly [name: string, requested: string, allowed: string | null]>([
    ["names of headers are allowed", "mcp-method, authorization,x", "mcp-method, authorization,x"],
    ["too many names are not allowed", "x".repeat(5_000), null],
    ["a name with a space is not allowed", "a b", null],
    ["a name with a semicolon is not allowed", "a;b", null],
    ["a tag is not allowed", "<script>", null],
    ["an empty name is not allowed", "a,,b", null],
  ])("%s", async ([, requested, allowed]) => {
    expect(await preflight(requested)).toBe(allowed);
  });
});
