// Tests requests to the MCP server whose caller's token expires while they are open, and host callbacks that time out. The tests control
// the clock that tokens are compared with.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { AuthenticatedCaller } from "../../../src/host/mcp/server/authorization/caller.ts";
import { createMcpHandler } from "../../../src/host/mcp/server/http/handler.ts";
import type { McpHandlerOptions } from "../../../src/host/mcp/server/options.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import {
  beginSession,
  initializeRequest,
  legacyRequest,
  listenInSession,
  listenModern,
  modernCall,
  modernRequest,
  post,
  serveHandler,
} from "../../support/mcp-raw-client.ts";

const START_MS = Date.UTC(2027, 0, 1);
let nowMs = START_MS;
beforeEach(() => {
  nowMs = START_MS;
  vi.spyOn(Date, "now").mockImplementation(() => nowMs);
});
afterEach(() => void vi.restoreAllMocks());

let glovebox: Glovebox;
/** Creates a Glovebox with several tenants. */
let multi: Glovebox;
let running = 0;
const finish = new Set<() => void>();
beforeAll(async () => {
  glovebox = await makeGlovebox();
  multi = await makeGlovebox({ tenancy: "multi" });
  glovebox.router.register("waits", {}, async (_input, { signal }) => {
    running += 1;
    await new Promise<void>((resolve) => {
      finish.add(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    running -= 1;
    return "waited";
  });
  glovebox.router.register("asks", {}, async (_input, { client, signal }) => {
    running += 1;
    const aborted = new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    const request = { message: "Which?", requestedSchema: { type: "object" as const, properties: {} } };
    await Promise.race([client?.elicit?.(request, { signal }), aborted]);
    running -= 1;
    return "asked";
  });
});
afterAll(async () => {
  await glovebox.close();
  await multi.close();
});

/** A resource server whose tokens are valid for 0.2 s on the test's clock. */
const authenticate = async (): Promise<AuthenticatedCaller> => ({
  subject: "user-1",
  scopes: [],
  expiresAt: START_MS / 1_000 + 0.2,
  claims: {},
});
const auth = { authenticate, serveMetadata: () => undefined };

async function start(options: McpHandlerOptions): Promise<URL> {
  const host = options.tenantOf === undefined ? glovebox : multi;
  const served = await serveHandler(createMcpHandler(host, options));
  onTestFinished(() => served[Symbol.asyncDispose]());
  return served.url;
}

/** Observes whether and how a response ends. */
function endOf(response: Response): { readonly outcome: () => string } {
  let outcome = "open";
  response.text().then(
    () => {
      outcome = "closed";
    },
    () => {
      outcome = "aborted";
    },
  );
  return { outcome: () => outcome };
}

describe("a token that expires", () => {
  test.for([
    ["GET of 2025", async (url: URL) => await listenInSession(url, await beginSession(url))],
    ["subscriptions/listen of 2026-07-28", (url: URL) => listenModern(url)],
  ] as const)("ends a listen stream (%s)", async ([, listen]) => {
    const url = await start({ auth });
    const response = await listen(url);
    expect(response.status).toBe(200);
    const { outcome } = endOf(response);
    nowMs += 150;
    // A second stream opens, and the first one has not ended in the meantime.
    expect((await listen(url)).status).toBe(200);
    expect(outcome()).toBe("open");
    nowMs += 100;
    await expect.poll(outcome).toBe("closed");
  });

  test("lets a running call end within limits.expiredCallMs", async () => {
    const url = await start({ auth, limits: { expiredCallMs: 60_000 } });
    const call = post(url, modernCall("waits"));
    await expect.poll(() => running).toBe(1);
    nowMs += 30_000;
    expect((await post(url, modernCall("waits"))).status).toBe(401);
    expect(running).toBe(1);
    for (const end of finish) end();
    expect((await call).status).toBe(200);
  });

  test("cancels a call that runs longer (2026-07-28): 401", async () => {
    const url = await start({ auth, limits: { expiredCallMs: 100 } });
    const call = post(url, modernCall("waits"));
    await expect.poll(() => running).toBe(1);
    nowMs += 1_000;
    const response = await call;
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toContain('error="invalid_token"');
    await expect.poll(() => running).toBe(0);
  });

  test("cancels a call that runs longer (2025): its stream is aborted", async () => {
    const url = await start({ auth, limits: { expiredCallMs: 0 } });
    const session = await beginSession(url);
    const response = await post(url, legacyRequest("tools/call", { name: "waits", arguments: {} }, session));
    const { outcome } = endOf(response);
    await expect.poll(() => running).toBe(1);
    nowMs += 1_000;
    await expect.poll(outcome).toBe("aborted");
    await expect.poll(() => running).toBe(0);
  });
});

test("a token that expires cancels a call that waits for its client's next request (2026-07-28)", async () => {
  const url = await start({ auth, limits: { expiredCallMs: 100 } });
  const request = modernRequest("tools/call", { name: "asks", arguments: {} });
  const message = JSON.parse(request.body) as { params: { _meta: Record<string, unknown> } };
  message.params._meta["io.modelcontextprotocol/clientCapabilities"] = { elicitation: {} };
  const response = await post(url, { ...request, body: JSON.stringify(message) });
  expect(await response.json()).toMatchObject({ result: { resultType: "input_required" } });
  await expect.poll(() => running).toBe(0);
});

describe("a host callback that never answers", () => {
  const never = () => new Promise<never>(() => {});
  test.for<readonly [string, McpHandlerOptions]>([
    ["tenantOf", { tenantOf: never }],
    ["auth.authenticate", { auth: { ...auth, authenticate: never } }],
    ["auth.serveMetadata", { auth: { ...auth, serveMetadata: never } }],
  ])("%s: the request is answered with 503 within limits.identifyMs", async ([name, options]) => {
    const errors: unknown[] = [];
    const url = await start({ ...options, limits: { identifyMs: 50 }, onError: (error) => errors.push(error) });
    const response = await post(url, initializeRequest());
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await response.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32_000 } });
    expect(errors).toMatchObject([{ message: `${name}() timed out after 50 ms (limits.identifyMs)` }]);
  });

  test("register: the request is answered with 500 within 5 s", async () => {
    const errors: unknown[] = [];
    const url = await start({ register: never, onError: (error) => errors.push(error) });
    expect((await post(url, initializeRequest())).status).toBe(500);
    expect(errors).toMatchObject([{ message: "options.register timed out after 5000 ms" }]);
  });

  test("onError: the request is answered all the same", async () => {
    const url = await start({ tenantOf: () => "", onError: never });
    expect((await post(url, initializeRequest())).status).toBe(403);
  });
});
