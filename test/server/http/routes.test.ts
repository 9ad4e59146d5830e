// Walks the OpenAPI document of a real server: for every route, which requests are denied and how. A new route is covered as soon as it exists.
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PLATFORM_SCOPES, ROUTE_SCOPES, SCOPES, type Scope } from "../../../src/server/auth/scopes.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

const MAX_BODY_BYTES = 65_536;
const folder = mkdtempSync(join(tmpdir(), "glovebox-routes-"));
let server: Server;
let document: OpenApi;

interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: unknown;
  readonly security?: readonly unknown[];
  readonly "x-glovebox-scope": string;
  /** How the handler of a route reads its body by itself. */
  readonly "x-glovebox-body"?: "json-rpc" | "signed";
}
interface OpenApi {
  readonly paths: { readonly [path: string]: { readonly [method: string]: Operation } };
}
interface Route {
  readonly name: keyof typeof ROUTE_SCOPES;
  readonly method: string;
  readonly path: string;
  readonly scope: string;
  readonly hasBody: boolean;
  readonly format: Operation["x-glovebox-body"];
}

const EXAMPLES: { readonly [parameter: string]: string } = {
  tenant: "acme",
  tool: "add",
  version: "1",
  wait: "1",
  alias: "live",
  call: `call_${"0".repeat(26)}`,
  key: `key_${"0".repeat(26)}`,
};
const exampleOf = (path: string, tenant = "acme"): string =>
  path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    name === "tenant" ? tenant : (EXAMPLES[name] ?? `${name}_${"0".repeat(26)}`),
  );

const routes = (): readonly Route[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}` as Route["name"],
      method: method.toUpperCase(),
      path,
      scope: operation["x-glovebox-scope"],
      hasBody: operation.requestBody !== undefined,
      format: operation["x-glovebox-body"],
    })),
  );

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: {
    readonly error?: { readonly code: string | number; readonly message: string };
    readonly key?: string;
    readonly jsonrpc?: string;
  };
}

interface Request {
  readonly key?: string | undefined;
  readonly body?: string | undefined;
  readonly type?: string | undefined;
  readonly headers?: { readonly [name: string]: string };
}

async function send(method: string, path: string, { key, body, type, headers }: Request = {}): Promise<Reply> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined && type === undefined ? {} : { "content-type": type ?? "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : {} };
}

async function createKey(tenant: string | undefined, scopes: readonly Scope[]): Promise<string> {
  const path = tenant === undefined ? "/v1/keys" : `/v1/tenants/${tenant}/keys`;
  const { status, body } = await send("POST", path, {
    key: server.adminKey,
    body: JSON.stringify({ name: "test", scopes }),
  });
  expect(status).toBe(201);
  return body.key as string;
}

const TENANT_SCOPES = SCOPES.filter((scope) => !PLATFORM_SCOPES.has(scope));
const guarded = (): readonly Route[] => routes().filter(({ scope }) => scope !== "public");

beforeAll(async () => {
  server = await createServer({
    port: 0,
    dataDir: folder,
    logLevel: "silent",
    limits: PATIENT_LIMITS,
    maxBodyBytes: MAX_BODY_BYTES,
  });
  const response = await fetch(`${server.url}/openapi.json`);
  document = (await response.json()) as OpenApi;
  for (const id of ["acme", "beta"]) {
    const { status } = await send("POST", "/v1/tenants", { key: server.adminKey, body: JSON.stringify({ id }) });
    expect(status).toBe(201);
  }
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

describe("the OpenAPI document", () => {
  test("is valid OpenAPI 3.1", async () => {
    const { valid, errors } = await new Validator().validate(document as never);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  test("has every route of the table of scopes, and no other", () => {
    const expected = Object.entries(ROUTE_SCOPES).map(([name, scope]) => `${name} ${scope}`);
    expect(
      routes()
        .map(({ name, scope }) => `${name} ${scope}`)
        .sort(),
    ).toEqual(expected.sort());
  });
});

describe("every route that is not public", () => {
  test("answers 401 without a key, with a malformed key and with an unknown key", async () => {
    for (const { method, path } of guarded()) {
      for (const key of [undefined, "nonsense", `gbx_${"A".repeat(43)}`]) {
        const reply = await send(method, exampleOf(path), { key });
        expect([method, path, reply.status, reply.body.error?.code]).toEqual([method, path, 401, "UNAUTHENTICATED"]);
        const error = key === undefined ? "" : ', error="invalid_token"';
        expect(reply.headers.get("www-authenticate")).toBe(`Bearer realm="glovebox"${error}`);
      }
    }
  });

  test("answers 401 to a revoked key at once", async () => {
    const { body } = await send("POST", "/v1/tenants/acme/keys", {
      key: server.adminKey,
      body: JSON.stringify({ name: "short", scopes: ["tools:read"] }),
    });
    const { key, id } = body as { key: string; id: string };
    expect((await send("GET", "/v1/tenants/acme/tools", { key })).status).toBe(200);
    expect((await send("DELETE", `/v1/tenants/acme/keys/${id}`, { key: server.adminKey })).status).toBe(200);
    expect((await send("GET", "/v1/tenants/acme/tools", { key })).status).toBe(401);
  });

  test("answers another tenant's key as if the tenant did not exist", async () => {
    const key = await createKey("beta", TENANT_SCOPES);
    for (const { method, path, name } of guarded().filter(({ path }) => path.includes("{tenant}"))) {
      const [other, missing] = await Promise.all([
        send(method, exampleOf(path, "acme"), { key }),
        send(method, exampleOf(path, "none"), { key }),
      ]);
      expect([name, other.status, other.body.error?.code]).toEqual([name, 404, "NOT_FOUND"]);
      expect(other.body.error?.message).toBe(missing.body.error?.message);
      expect(missing.status).toBe(404);
    }
  });

  test("answers 403 to a tenant's key on the paths of the platform", async () => {
    const key = await createKey("acme", TENANT_SCOPES);
    for (const { method, path, name } of guarded().filter(
      ({ path, scope }) => !path.includes("{tenant}") && scope !== "any",
    )) {
      expect([name, (await send(method, exampleOf(path), { key })).status]).toEqual([name, 403]);
    }
  });

  test("answers 403 to a key that has every scope but its own", async () => {
    for (const { method, path, scope, name } of guarded().filter(({ scope }) => scope !== "any")) {
      const key = await createKey(
        undefined,
        SCOPES.filter((one) => one !== scope),
      );
      const { status, body, headers } = await send(method, exampleOf(path), { key });
      expect([name, status, body.error?.code]).toEqual([name, 403, "FORBIDDEN"]);
      expect(body.error?.message).toContain(scope);
      expect(headers.get("www-authenticate")).toContain(`error="insufficient_scope", scope="${scope}"`);
    }
  });
});

describe("every route of the API", () => {
  test("has the security headers and the id of the request, also over MCP", async () => {
    const initialize = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", clientInfo: { name: "test", version: "1" }, capabilities: {} },
    });
    for (const { method, path, name, hasBody, format } of routes()) {
      // Its tenant is that of the other routes.
      if (name === "DELETE /v1/tenants/{tenant}") continue;
      const body = format === "json-rpc" ? initialize : "{}";
      const { headers } = await send(method, exampleOf(path, "beta"), {
        key: server.adminKey,
        headers: { accept: "application/json, text/event-stream" },
        ...(hasBody ? { body } : {}),
      });
      expect([name, headers.get("x-content-type-options")]).toEqual([name, "nosniff"]);
      expect([name, headers.get("x-frame-options")]).toEqual([name, "DENY"]);
      expect([name, headers.get("content-security-policy")]).toEqual([
        name,
        expect.stringContaining("default-src 'none'"),
      ]);
      expect([name, headers.get("x-request-id")]).toEqual([name, expect.stringMatching(/^request_/)]);
    }
  });

  test("answers 422 to an unknown name in the query, and names it", async () => {
    const ours = routes().filter(({ path }) => path.startsWith("/v1/") && !path.endsWith("/mcp"));
    expect(ours.length).toBeGreaterThan(90);
    for (const { method, path, name, hasBody } of ours) {
      const { status, body } = await send(method, `${exampleOf(path)}?unknown_name=1`, {
        key: server.adminKey,
        ...(hasBody ? { body: "{}" } : {}),
      });
      expect([name, status, body.error?.code]).toEqual([name, 422, "INVALID"]);
      expect([name, body.error?.message]).toEqual([name, expect.stringContaining("unknown_name")]);
    }
  });
});

describe("every list with pages", () => {
  const lists = (): readonly Route[] =>
    routes().filter(({ path, method }) =>
      document.paths[path]?.[method.toLowerCase()]?.parameters?.some(({ name }) => name === "cursor"),
    );
  // Cursors of these lists are names and keys, which have few rules.
  const MALFORMED: { readonly [name: string]: string } = {
    "GET /v1/tenants": "Zzz!",
    "GET /v1/tenants/{tenant}/tools": "z z",
    "GET /v1/tenants/{tenant}/openai/tools": "z z",
    "GET /v1/tenants/{tenant}/kv": "z z",
    "GET /v1/tenants/{tenant}/kv/{tool}": "z".repeat(1_025),
  };

  test("answers 422 to a cursor that is none of the list's, and names it", async () => {
    expect(lists().length).toBeGreaterThan(10);
    for (const { method, path, name } of lists())
      for (const cursor of [MALFORMED[name] ?? "zzz", ""]) {
        const query = `?cursor=${encodeURIComponent(cursor)}`;
        const { status, body } = await send(method, `${exampleOf(path)}${query}`, { key: server.adminKey });
        expect([name, cursor, status, body.error?.code]).toEqual([name, cursor, 422, "INVALID"]);
        expect([name, body.error?.message]).toEqual([name, expect.stringMatching(/^cursor: /)]);
      }
  });
});

describe("every route with a body", () => {
  const withBody = (format?: Route["format"]): readonly Route[] =>
    routes().filter(
      (route) => route.hasBody && route.format === format && (format !== undefined || route.scope !== "public"),
    );

  test.for([
    ["415 without Content-Type: application/json", { body: "{}", type: "text/plain" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
    ["415 for a coded body", { body: "{}", headers: { "content-encoding": "gzip" } }, 415, "UNSUPPORTED_MEDIA_TYPE"],
    [
      "415 for JSON in another charset",
      { body: "{}", type: "application/json; charset=utf-16" },
      415,
      "UNSUPPORTED_MEDIA_TYPE",
    ],
    ["400 for text that is not JSON", { body: "{" }, 400, "MALFORMED"],
    ["413 for a body above the limit", { body: `{"a":"${"x".repeat(MAX_BODY_BYTES)}"}` }, 413, "TOO_LARGE"],
    ["422 for an unknown key", { body: '{"unknown_key_of_a_test":1}' }, 422, "INVALID"],
    ["422 for an array", { body: "[]" }, 422, "INVALID"],
    ["422 for null", { body: "null" }, 422, "INVALID"],
  ] as const)("answers %s", async ([, request, status, code]) => {
    expect(withBody().length).toBeGreaterThan(0);
    for (const { method, path, name } of withBody()) {
      const reply = await send(method, exampleOf(path), { key: server.adminKey, ...request });
      expect([name, reply.status, reply.body.error?.code]).toEqual([name, status, code]);
    }
  });

  test.for([
    ["415 without Content-Type: application/json", { body: "{}", type: "text/plain" }, 415, -32_000],
    ["415 for a coded body", { body: "{}", headers: { "content-encoding": "gzip" } }, 415, -32_000],
    ["400 for text that is not JSON", { body: "{" }, 400, -32_700],
    ["413 for a body above the limit", { body: `{"a":"${"x".repeat(MAX_BODY_BYTES)}"}` }, 413, -32_000],
    ["400 for no message", { body: '{"unknown_key_of_a_test":1}' }, 400, -32_600],
    ["400 for a batch", { body: '[{"jsonrpc":"2.0","id":1,"method":"ping"}]' }, 400, -32_600],
    ["400 for null", { body: "null" }, 400, -32_600],
  ] as const)("every JSON-RPC route with a body answers %s", async ([, request, status, code]) => {
    expect(withBody("json-rpc").map(({ scope }) => scope)).toEqual(["calls:run", "calls:run"]);
    for (const { method, path, name } of withBody("json-rpc")) {
      const reply = await send(method, exampleOf(path), { key: server.adminKey, ...request });
      expect([name, reply.status, reply.body.jsonrpc, reply.body.error?.code]).toEqual([name, status, "2.0", code]);
    }
  });

  test.for([
    ["401", { body: "{}" }, 401, "UNAUTHENTICATED"],
    ["401 to text that is not JSON", { body: "{" }, 401, "UNAUTHENTICATED"],
    ["413 for a body above the limit", { body: "x".repeat(1024 * 1024 + 1) }, 413, "TOO_LARGE"],
  ] as const)(
    "every signed route with a body answers %s without a valid signature",
    async ([, request, status, code]) => {
      expect(withBody("signed").length).toBeGreaterThan(0);
      for (const { method, path, name } of withBody("signed")) {
        const reply = await send(method, exampleOf(path), request);
        expect([name, reply.status, reply.body.error?.code]).toEqual([name, status, code]);
      }
    },
  );

  test("answers 413 to a body of unknown length above the limit, without reading all of it", async () => {
    const statusOf = ({ method, path }: Route): Promise<number | undefined> => {
      let sent = 0;
      return new Promise((resolve, reject) => {
        const request = httpRequest(
          `${server.url}${exampleOf(path)}`,
          { method, headers: { authorization: `Bearer ${server.adminKey}`, "content-type": "application/json" } },
          (response) => {
            response.resume();
            resolve(response.statusCode);
            request.destroy();
          },
        );
        // The server closes the connection after its answer. A client that sends meanwhile can lose the answer.
        request.on("error", (error) => (sent > 0 ? resolve(undefined) : reject(error)));
        const more = (): void => {
          if (request.destroyed || sent > 40 * MAX_BODY_BYTES) return;
          sent += MAX_BODY_BYTES;
          request.write("x".repeat(MAX_BODY_BYTES), () => setImmediate(more));
        };
        more();
      });
    };
    for (const route of [...withBody(), ...withBody("json-rpc")]) {
      await expect.poll(async () => [route.name, await statusOf(route)]).toEqual([route.name, 413]);
    }
  });
});

describe("every response", () => {
  test("has security headers and a request id, also for errors", async () => {
    for (const path of ["/healthz", "/v1/tenants", "/none", "/reference"]) {
      const { headers } = await send("GET", path);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-request-id")).toMatch(/^request_[0-9a-z]{26}$/);
      expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });
});

describe("a request", () => {
  test("a request for another Host is denied, so that a page cannot reach the server by a name of its own", async () => {
    const status = await new Promise((resolve, reject) => {
      httpRequest(`${server.url}/healthz`, { headers: { host: "evil.example" } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on("error", reject)
        .end();
    });
    expect(status).toBe(403);
  });

  test("a request from a page of another origin is denied", async () => {
    for (const origin of ["https://evil.example", "null", "http://localhost"]) {
      expect((await send("GET", "/healthz", { headers: { origin } })).status).toBe(403);
    }
    expect((await send("GET", "/healthz", { headers: { origin: server.url } })).status).toBe(200);
  });

  test("a request with a long URL is denied", async () => {
    expect((await send("GET", `/healthz?${"x".repeat(5_000)}`)).status).toBe(414);
  });

  test("the answer to a request with many or long unknown keys is short", async () => {
    const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`key${at}`, 1]));
    for (const body of [many, { calls: [many] }, { ["k".repeat(30_000)]: 1 }, { calls: [{ tool: { ...many } }] }]) {
      const path = "/v1/tenants/acme/calls";
      const sent = await send("POST", path, { key: server.adminKey, body: JSON.stringify(body) });
      expect([sent.status, sent.body.error?.code]).toEqual([422, "INVALID"]);
      expect(JSON.stringify(sent.body).length).toBeLessThan(10_000);
    }
  });

  test("a request of an unknown path is answered with 404", async () => {
    for (const path of ["/v2/tenants", "/v1/tenants/acme/nothing", "/v1/keys/", "/readyz/x", "/openapi-json"])
      expect((await send("GET", path, { key: server.adminKey })).status).toBe(404);
  });

  test("a request of a method that the path does not have is answered with 405, and names those that it has", async () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      const own = Object.keys(methods).map((method) => method.toUpperCase());
      const other = ["PUT", "PATCH", "DELETE"].find((method) => !own.includes(method)) as string;
      const { status, headers, body } = await send(other, exampleOf(path), { key: server.adminKey });
      expect([path, status, body.error?.code]).toEqual([path, 405, "METHOD_NOT_ALLOWED"]);
      expect([path, headers.get("allow")?.split(", ").sort()]).toEqual([path, own.sort()]);
    }
  });
});

describe("the reference page", () => {
  test("names every operation, and loads nothing", async () => {
    const html = await (await fetch(`${server.url}/reference`)).text();
    for (const { path } of routes()) expect(html).toContain(path);
    expect(html).not.toMatch(/<script|<link|<img|src=|@import|url\(/i);
    const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, target = ""]) => target);
    expect(links.filter((target) => !target.startsWith("#") && !target.startsWith("/"))).toEqual([]);
  });
});
