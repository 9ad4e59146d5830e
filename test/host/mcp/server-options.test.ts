// Tests the arguments of the public functions of "glovebox/mcp": unknown options and wrong types are rejected with their path.
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import {
  createMcpHandler,
  createResourceServer,
  type McpHandler,
  type McpHandlerOptions,
  type McpHost,
  type McpStdioOptions,
  type ResourceServerOptions,
  serveMcpStdio,
} from "../../../src/host/mcp/server/index.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

let glovebox: Glovebox;
let handler: McpHandler;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  handler = createMcpHandler(glovebox);
});
afterAll(async () => {
  await handler.close();
  await glovebox.close();
});

const HANDLER_KEYS = [
  ...["name", "version", "title", "instructions", "context", "register", "onError"],
  ...["auth", "tenantOf", "sessions", "allowedHosts", "allowIpHosts", "allowedOrigins", "maxBodyBytes", "limits"],
];
const STDIO_KEYS = [
  ...["name", "version", "title", "instructions", "context", "register", "onError"],
  ...["tenantId", "stdin", "stdout"],
];
const RESOURCE_SERVER_KEYS = [
  ...["resource", "authorizationServers", "audience", "requiredScopes", "scopesSupported", "algorithms", "verify"],
  ...["resourceName", "resourceDocumentation", "onError"],
];
const RESOURCE = { resource: "https://tools.example.com/mcp", authorizationServers: ["https://as.example.com"] };

const ENTRIES: readonly (readonly [name: string, keys: readonly string[], call: (options: object) => unknown])[] = [
  ["createMcpHandler", HANDLER_KEYS, (options) => createMcpHandler(glovebox, options as McpHandlerOptions)],
  [
    "serveMcpStdio",
    STDIO_KEYS,
    (options) =>
      serveMcpStdio(glovebox, { stdin: new PassThrough(), stdout: new PassThrough(), ...options } as McpStdioOptions),
  ],
  [
    "createResourceServer",
    RESOURCE_SERVER_KEYS,
    (options) => createResourceServer({ ...RESOURCE, ...options } as ResourceServerOptions),
  ],
];

function expectRejected(run: () => unknown, path: string): void {
  expect(run).toThrow(ToolError);
  expect(run).toThrow(path);
}

describe.for(ENTRIES)("%s()", ([, keys, call]) => {
  test("rejects unknown keys with their path", () => {
    const unknown = fc
      .string({ minLength: 1, maxLength: 100 })
      .filter((key) => !keys.includes(key) && key !== "__proto__");
    fc.assert(
      fc.property(unknown, fc.anything(), (key, value) =>
        expectRejected(() => call({ [key]: value }), `options.${key}`.slice(0, 100)),
      ),
    );
  });

  test("rejects a misspelled key and suggests the right one", () => {
    for (const key of keys) {
      for (const wrong of [key.toUpperCase(), `${key}s`, `${key[0]?.toUpperCase()}${key.slice(1)}`]) {
        if (!keys.includes(wrong)) expectRejected(() => call({ [wrong]: undefined }), `Did you mean "${key}"`);
      }
    }
  });

  test("rejects values of a wrong type with their path", () => {
    const wrong = fc.oneof(fc.constant(null), fc.bigInt(), fc.constant(Symbol("x")), fc.constant(Promise.resolve()));
    fc.assert(
      fc.property(fc.constantFrom(...keys), wrong, (key, value) =>
        expectRejected(() => call({ [key]: value }), `options.${key}: `),
      ),
    );
  });
});

describe.for<readonly [name: string, call: (options: never) => unknown]>([
  ["createMcpHandler", (options) => createMcpHandler(glovebox, options)],
  ["serveMcpStdio", (options) => serveMcpStdio(glovebox, options)],
  ["createResourceServer", (options) => createResourceServer(options)],
])("%s()", ([, call]) => {
  test.for<readonly [string, unknown]>([
    ["null", null],
    ["a string", "options"],
    ["a number", 1],
    ["an array", []],
    ["a Map", new Map()],
    ["a Promise", Promise.resolve({})],
    ["an instance of Options", new (class Options {})()],
  ])("rejects options that are %s", ([kind, options]) => {
    expectRejected(() => call(options as never), `options: Expected a plain object, got ${kind}`);
  });
});

describe("createMcpHandler() and serveMcpStdio()", () => {
  test.for<readonly [object, string]>([
    [{ Auth: {} }, 'options.Auth: Unknown option. Did you mean "auth"?'],
    [{ tenantof: () => "acme" }, 'options.tenantof: Unknown option. Did you mean "tenantOf"?'],
    [{ allowedHost: ["a"] }, 'options.allowedHost: Unknown option. Did you mean "allowedHosts"?'],
    [{ auth: {} }, "options.auth: Expected a resource server"],
    [{ auth: null }, "options.auth: "],
    [{ auth: false }, "options.auth: "],
    [{ auth: Promise.resolve() }, "options.auth: "],
    [{ auth: { authenticate: () => undefined } }, "options.auth: "],
    [{ tenantOf: "acme" }, "options.tenantOf: Expected a function"],
    [{ allowedHosts: "tools.example.com" }, "options.allowedHosts: "],
    [{ maxBodyBytes: Number.POSITIVE_INFINITY }, "options.maxBodyBytes: "],
    [{ maxBodyBytes: Number.NaN }, "options.maxBodyBytes: "],
    [{ sessions: { maximum: 1 } }, "options.sessions.maximum: Unknown option"],
    [{ sessions: { max: 0 } }, "options.sessions.max: "],
    [{ sessions: { idPrefix: "a.b" } }, "options.sessions.idPrefix: Expected 1 to 64 letters"],
    [{ context: { tenantId: "acme" } }, "options.context.tenantId: Unknown option"],
    [{ context: { timeoutMs: "10" } }, "options.context.timeoutMs: "],
    [{ limits: { request: {} } }, 'options.limits.request: Unknown option. Did you mean "requests"?'],
    [
      { limits: { requests: { percaller: 1 } } },
      'options.limits.requests.percaller: Unknown option. Did you mean "perCaller"?',
    ],
    [{ limits: { requests: { perCaller: 0 } } }, "options.limits.requests.perCaller: "],
    [{ limits: { identifyMs: 0 } }, "options.limits.identifyMs: "],
    [{ limits: { unreadMs: Number.POSITIVE_INFINITY } }, "options.limits.unreadMs: "],
    [{ limits: { requestBytes: { perCaller: 2_048 } } }, "options.limits.requestBytes: Expected at least maxBodyBytes"],
  ])("rejects %j", ([options, message]) => {
    expectRejected(() => createMcpHandler(glovebox, options as McpHandlerOptions), message);
  });

  test.for<readonly [object, string]>([
    [{ tenant: "acme" }, 'options.tenant: Unknown option. Did you mean "tenantId"?'],
    [{ tenantId: "" }, "options.tenantId: Expected a tenant id"],
    [{ tenantId: null }, "options.tenantId: "],
    [{ auth: {} }, "options.auth: Unknown option"],
    [{ stdin: "in" }, "options.stdin: Expected a readable stream"],
  ])("serveMcpStdio() rejects %j", ([options, message]) => {
    expectRejected(() => serveMcpStdio(glovebox, options as McpStdioOptions), message);
  });

  test.for<readonly [string, () => unknown, string]>([
    ["undefined", () => undefined, "undefined"],
    ["a promise of a Glovebox", () => Promise.resolve(glovebox), "a Promise"],
    ["an empty object", () => ({}), "an object"],
    [
      "a Glovebox without its router",
      () => ({ listTools: glovebox.listTools, execute: glovebox.execute }),
      "an object",
    ],
    ["options", () => ({ auth: {} }), "an object"],
  ])("reject a host that is %s", ([, host, kind]) => {
    const message = `host: Expected a Glovebox, got ${kind}`;
    expectRejected(() => createMcpHandler(host() as McpHost), message);
    expectRejected(() => serveMcpStdio(host() as McpHost), message);
  });

  test("treat undefined as absent", async () => {
    const options = Object.fromEntries(HANDLER_KEYS.map((key) => [key, undefined]));
    await using other = createMcpHandler(glovebox, options);
    expect(other.fetch).toBeTypeOf("function");
  });
});

describe("McpHandler.toolsChanged()", () => {
  test.for<readonly [string, unknown]>([
    ["null", null],
    ["an empty string", ""],
    ["a number", 1],
    ["an object", {}],
    ["an array", ["acme"]],
    ["a promise", Promise.resolve("acme")],
    ["a tenant id that is too long", "x".repeat(1_025)],
  ])("rejects %s", ([, tenantId]) => {
    expectRejected(() => handler.toolsChanged(tenantId as string), "tenantId: Expected a tenant id");
  });

  test("accepts a tenant or all tenants with several tenants, and no argument with one", async () => {
    await using multi = await makeGlovebox({ tenancy: "multi" });
    await using several = createMcpHandler(multi, { tenantOf: () => "acme" });
    several.toolsChanged("acme");
    several.toolsChanged({ scope: "all" });
    expectRejected(() => several.toolsChanged(), "tenancy");
    handler.toolsChanged();
    handler.toolsChanged({ scope: "all" });
    expectRejected(() => handler.toolsChanged("acme"), "tenancy");
  });
});
