// Functions and options that a host passes for its upstream servers. A failing hook provides neither credentials nor an answer, and an
// invalid option is rejected with its path.
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { toOptionIssues } from "../../../src/host/config/option-errors.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import {
  type McpHttpServer,
  McpServerSchema,
  type UpstreamServerOptions,
} from "../../../src/host/mcp/client/mcp-options.ts";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "../../support/failing-callbacks.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type HttpServer, startScriptedServer } from "../../support/mcp-http.ts";

const HOSTILE = fileURLToPath(new URL("../../support/hostile-mcp-server.ts", import.meta.url));
let glovebox: Glovebox;
let server: HttpServer;
const seen: (string | undefined)[] = [];

beforeAll(async () => {
  glovebox = await makeGlovebox();
  server = await startScriptedServer(({ method }, _response, request) => {
    seen.push(request.headers.authorization);
    if (method === "tools/list") return { tools: [{ name: "t", inputSchema: { type: "object" } }] };
    return method === "tools/call" ? { content: [{ type: "text", text: "in" }] } : undefined;
  });
});
afterEach(async () => {
  await glovebox.mcp.removeServer("up");
  seen.length = 0;
});
afterAll(async () => {
  await glovebox.close();
  await server[Symbol.asyncDispose]();
});

const call = () => glovebox.execute({ id: "c", toolName: "up__t", arguments: {} });
const hangs = (): Promise<never> => new Promise(() => {});

/** Return values that are not credentials. */
const JUNK: readonly (readonly [name: string, answer: unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["true", true],
  ["a text", "token"],
  ["a list", ["authorization", "x"]],
  ["a Map", new Map([["authorization", "x"]])],
  ["an object of another realm's class", inOtherRealm("new (class { get authorization() { return 'x' } })()")],
  ["numbers", { authorization: 7 }],
  ["a nested promise", { authorization: Promise.resolve("x") }],
];
const HOOKS: readonly (readonly [name: string, hook: () => unknown])[] = [
  ...FAILING_CALLBACKS,
  ["never answers", hangs],
  ["returns a thenable that never answers", () => toThenable(() => {})],
  ...JUNK.map(([name, answer]) => [`returns ${name}`, () => answer] as const),
  ...JUNK.map(([name, answer]) => [`resolves with ${name}`, async () => answer] as const),
];

describe.for(["headersFor", "authProviderFor"] as const)("%s", (name) => {
  test.for(HOOKS)("a hook that %s prevents the connection", async ([, hook]) => {
    const options = {
      url: server.url,
      connectTimeoutMs: 200,
      // A tenant without credentials does not get the connection that tenants share.
      authProvider: { token: async () => "shared" },
      [name]: hook,
    };
    glovebox.mcp.addServer("up", options as McpHttpServer);
    expect(errorOf(await call())).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: 'No credentials are available for the MCP server "up"',
    });
    expect(seen).toEqual([]);
  });
});

describe("envFor", () => {
  test.for(HOOKS)("envFor that %s prevents the start of the process", async ([, hook]) => {
    const options = { command: process.execPath, args: [HOSTILE, "calls"], connectTimeoutMs: 200, envFor: hook };
    glovebox.mcp.addServer("up", options as UpstreamServerOptions);
    expect(errorOf(await call()).message).toBe('No credentials are available for the MCP server "up"');
    expect(glovebox.mcp.servers().find(({ server: name }) => name === "up")?.connections).toBe(0);
  });
});

test("a promise of another realm is awaited", async () => {
  const headersFor = () =>
    inOtherRealm('Promise.resolve({ authorization: "Bearer mine" })') as Promise<{ authorization: string }>;
  glovebox.mcp.addServer("up", { url: server.url, headersFor });
  expect(outputOf(await call())).toBe("in");
  expect(new Set(seen)).toEqual(new Set(["Bearer mine"]));
});

describe("onElicitation and onSampling", () => {
  const ANSWERS: readonly (readonly [name: string, hook: () => unknown])[] = [
    ...FAILING_CALLBACKS,
    ...[undefined, null, true, "accept", { action: "yes" }, [], { action: "accept", content: "all" }].map(
      (answer) => [`returns ${JSON.stringify(answer)}`, () => answer] as const,
    ),
  ];
  test.for(ANSWERS)("a hook that %s does not answer the request", async ([, hook]) => {
    const program = { command: process.execPath, args: [HOSTILE, "calls"], connectTimeoutMs: 120_000 };
    const options = { ...program, onElicitation: hook, onSampling: hook };
    glovebox.mcp.addServer("up", { ...options, protocol: "legacy" } as UpstreamServerOptions);
    // The server returns the answers that it received, which are errors only.
    const answers = String(outputOf(await glovebox.execute({ id: "c", toolName: "up__ask", arguments: {} })));
    expect(answers).toBe("e: -32603, p: -32602, r: -32601, s: -32603, t: -32602");
  });
});

describe("options", () => {
  const GOOD: readonly UpstreamServerOptions[] = [
    { command: "x", args: ["a"], env: { A: "1" }, sandbox: { network: true } },
    { url: "https://mcp.example/mcp", headers: { a: "b" }, oauth: { issuers: ["https://auth.example"] } },
  ];
  const problemsOf = (options: unknown): readonly string[] => {
    const parsed = McpServerSchema.safeParse(options);
    return parsed.success ? [] : toOptionIssues(McpServerSchema, parsed.error).map(({ path }) => path);
  };

  test("unknown options are rejected with their path, at any depth", () => {
    expect(GOOD.map(problemsOf)).toEqual([[], []]);
    const known = new Set(["tools", "sandbox", "oauth", "env", "headers"]);
    fc.assert(
      fc.property(
        fc.constantFrom(...GOOD),
        fc.string({ minLength: 1 }).filter((key) => !/^__proto__$/.test(key)),
        (good, key) => {
          fc.pre(McpServerSchema.safeParse({ ...good, [key]: Symbol("x") }).error !== undefined);
          expect(problemsOf({ ...good, [key]: Symbol("x") })).toContain(key);
          for (const inner of ["tools", "sandbox" in good ? "sandbox" : "oauth"]) {
            if (known.has(inner))
              expect(problemsOf({ ...good, [inner]: { [key]: Symbol("x") } })).toContain(`${inner}.${key}`);
          }
        },
      ),
    );
  });

  test.for([
    ["a promise", Promise.resolve({})],
    ["a list", []],
    ["a Map", new Map()],
    ["a number", 7],
    ["a text", "all"],
    ["true", true],
    ["null", null],
  ] as const)("options that are %s are rejected with their path", ([, value]) => {
    expect(() => glovebox.mcp.addServer("up", value as never)).toThrow(/^options/);
    for (const key of [
      "tools",
      "sandbox",
      "env",
      "args",
      "oauth",
      "headers",
      "tenants",
      "roots",
      "onSampling",
      "envFor",
      "prefix",
    ]) {
      if (key === "prefix" && value === "all") continue;
      if (["args", "env", "tenants", "roots"].includes(key) && Array.isArray(value)) continue;
      const isHttp = key === "oauth" || key === "headers";
      const options = isHttp ? { url: "https://mcp.example" } : { command: "x" };
      expect(() => glovebox.mcp.addServer("up", { ...options, [key]: value } as never), key).toThrow(
        new RegExp(`^options\\.${key}`),
      );
    }
  });

  test.for([undefined, null, 7, {}, Promise.resolve("up"), ["up"]] as const)(
    "a name that is %s is rejected",
    async (name) => {
      expect(() => glovebox.mcp.addServer(name as never, { url: server.url })).toThrow(/^The server's name: /);
      await expect(glovebox.mcp.removeServer(name as never)).rejects.toThrow(/^The server's name: /);
    },
  );

  test("removing an unknown server returns false", async () => {
    expect(await glovebox.mcp.removeServer("no-such-server")).toBe(false);
  });
});
