// Every argument of the public methods of routers, invokers and gloveboxes: an unknown key, a wrong type, or an object that is not plain is an
// error that names its path, and nothing happens.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryToolRegistry } from "../../../src/host/routing/registry.ts";
import { ToolInvoker } from "../../../src/host/routing/tool-invoker.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { codeOf, errorOf, makeGlovebox } from "../../support/host-zone.ts";
import { makeTool } from "../../support/registered-tool.ts";
import { expectStrict, failureOfAction, NOT_PLAIN } from "../../support/strict-options.ts";

const ECHO = (input: unknown): unknown => input;

/** A method whose last argument are options. */
type Call = (options: unknown) => unknown;

/** Expects a synchronous method to throw at once, and any other one to reject. */
async function expectStrictMethod(
  call: Call,
  isAsync: boolean,
  bad: readonly (readonly [unknown, string])[],
): Promise<void> {
  await expectStrict(call, bad);
  let isThrown = false;
  try {
    await Promise.resolve(call("acme")).catch(() => {});
  } catch {
    isThrown = true;
  }
  expect(isThrown).toBe(!isAsync);
}

const TENANT_SCOPES: readonly (readonly [unknown, string])[] = [
  [{ tenant: "acme" }, 'options.tenant: Unknown option. Did you mean "tenantId"?'],
  [{ tenantId: "acme", limit: 5 }, "options.limit: Unknown option"],
  [{ arguments: {} }, "options.arguments: Unknown option"],
  [{ tenantId: "" }, "options.tenantId: "],
  [{ tenantId: 5 }, "options.tenantId: "],
  [{ tenantId: null }, "options.tenantId: "],
  [{ tenantId: Promise.resolve("acme") }, "options.tenantId: "],
  [{ tenantId: "x".repeat(1_025) }, "options.tenantId: "],
];

describe("ToolRouter", () => {
  test.for<[string, boolean, (router: ToolRouter) => Call]>([
    ["health", false, (router) => (options) => router.health(options as never)],
    ["getRegisteredTools", false, (router) => (options) => router.getRegisteredTools(options as never)],
    ["listTools", true, (router) => (options) => router.listTools(options as never)],
    ["hasTool", false, (router) => (options) => router.hasTool("x", options as never)],
  ])("%s() rejects options that are wrong", async ([, isAsync, toCall]) => {
    await expectStrictMethod(toCall(new ToolRouter()), isAsync, TENANT_SCOPES);
  });

  test("register() rejects options that are wrong, and registers nothing", async () => {
    const router = new ToolRouter();
    const register: Call = (options) => router.register("x", {}, ECHO, options as never);
    await expectStrictMethod(register, false, [
      ...TENANT_SCOPES.filter(([options]) => !Object.hasOwn(options as object, "arguments")),
      [{ arguments: { coerc: true } }, 'options.arguments.coerc: Unknown option. Did you mean "coerce"?'],
      [{ arguments: Promise.resolve({}) }, "options.arguments: Expected a plain object, got a Promise"],
    ]);
    expect(router.registry.list("acme")).toEqual([]);
  });

  test.for<[string, unknown, string]>([
    ["nothing", undefined, "definition: Expected a plain object, got undefined"],
    ["a promise", Promise.resolve({}), "definition: Expected a plain object, got a Promise"],
    ["an unknown key", { inputschema: {} }, 'definition.inputschema: Unknown option. Did you mean "inputSchema"?'],
    ["a name", { name: "y" }, "definition.name: Unknown option"],
    ["capabilities", { capabilities: {} }, "definition.capabilities: Unknown option"],
    ["a number as description", { description: 5 }, "definition.description: "],
    [
      "an unknown limit",
      { limits: { timeout: 5 } },
      'definition.limits.timeout: Unknown option. Did you mean "timeoutMs"?',
    ],
    [
      "a promise as limits",
      { limits: Promise.resolve({}) },
      "definition.limits: Expected a plain object, got a Promise",
    ],
    ["an unknown hint", { annotations: { readOnly: true } }, "definition.annotations.readOnly: Unknown option"],
    [
      "a promise as annotations",
      { annotations: Promise.resolve({}) },
      "definition.annotations: Expected a plain object",
    ],
    ["text as prewarm", { prewarm: "no" }, "definition.prewarm: "],
    ["an invalid origin", { origin: "server" }, "definition.origin: "],
  ])("register() rejects a definition with %s", async ([, definition, message]) => {
    const error = { code: "PARAM_INVALID", message: expect.stringContaining(message) };
    const router = new ToolRouter();
    expect(await failureOfAction(() => router.register("x", definition as never, ECHO))).toMatchObject(error);
    const source = router.addToolProvider("remote", { call: ECHO });
    expect(await failureOfAction(() => source.register("x", definition as never))).toMatchObject(error);
  });

  test.for<[string, unknown, string]>([
    ["a misspelled guard", { hook: [] }, 'options.hook: Unknown option. Did you mean "hooks"?'],
    ["a misspelled limit", { limit: {} }, 'options.limit: Unknown option. Did you mean "limits"?'],
    [
      "an unknown limit",
      { limits: { timeout: 5 } },
      'options.limits.timeout: Unknown option. Did you mean "timeoutMs"?',
    ],
    ["a promise as limits", { limits: Promise.resolve({}) }, "options.limits: Expected a plain object, got a Promise"],
    ["a promise as tenants", { tenants: Promise.resolve({}) }, "options.tenants: "],
    ["a Map as tenants", { tenants: new Map() }, "options.tenants: "],
    [
      "a tenant's unknown option",
      { tenants: { acme: { limit: {} } } },
      'options.tenants.acme.limit: Unknown option. Did you mean "limits"?',
    ],
    ["an empty tenant", { tenants: { "": {} } }, "options.tenants"],
    [
      "a promise as registry",
      { registry: Promise.resolve(new MemoryToolRegistry()) },
      "options.registry: Expected a ToolRegistry",
    ],
    ["a Map as registry", { registry: new Map() }, "options.registry: Expected a ToolRegistry"],
    ["text as flags", { flags: "on" }, "options.flags: "],
    ["text as enabled", { enabled: "no" }, "options.enabled: "],
    ["text as onInternalError", { onInternalError: "log" }, "options.onInternalError: Expected a function"],
    ["a promise as hooks", { hooks: Promise.resolve([]) }, "options.hooks: Expected an array of hooks"],
    ["one hook for a list", { hooks: { name: "guard" } }, "options.hooks: Expected an array of hooks"],
    ["a promise as health", { health: Promise.resolve(false) }, "options.health: "],
    ["an unknown option of health", { health: { failure: 1 } }, "options.health.failure: Unknown option"],
    ["a promise as arguments", { arguments: Promise.resolve({}) }, "options.arguments: Expected a plain object"],
    ["text as coarseTime", { coarseTime: "yes" }, "options.coarseTime: "],
    ["a promise as egress", { egress: Promise.resolve({}) }, "options.egress: "],
    ["a promise as secrets", { secrets: Promise.resolve({}) }, "options.secrets: "],
    ["an object as telemetry", { telemetry: {} }, "options.telemetry: "],
    ["an object as log", { log: {} }, "options.log: "],
  ])("the constructor rejects %s", async ([, options, message]) => {
    const error = await failureOfAction(() => new ToolRouter(options as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringContaining(message) });
  });

  test("the constructor takes an option that is undefined as not given", () => {
    const names = ["registry", "limits", "tenants", "coarseTime", "egress", "secrets", "enabled", "flags", "health"];
    const more = ["arguments", "onInternalError", "hooks", "telemetry", "log"];
    const options = Object.fromEntries([...names, ...more].map((name) => [name, undefined]));
    expect(new ToolRouter(options).getRegisteredTools()).toEqual([]);
  });

  test.for(NOT_PLAIN)("the constructor rejects %s for options", async ([kind, make]) => {
    const error = await failureOfAction(() => new ToolRouter(make() as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: `options: Expected a plain object, got ${kind}` });
  });

  test("hasTool() rejects a name that is not a string", async () => {
    const error = await failureOfAction(() => new ToolRouter().hasTool(["x"] as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: "toolName: Expected a string, got an array" });
  });

  test.for(["5s", -1, 1.5, Number.NaN, 300_001, undefined, {}])(
    "drain() rejects %s, and goes on taking calls",
    async (ms) => {
      const router = new ToolRouter();
      router.register("x", {}, () => 1);
      expect(await failureOfAction(() => router.drain(ms as never))).toMatchObject({
        code: "PARAM_INVALID",
        message: expect.stringMatching(/withinMs/),
      });
      expect(codeOf(await router.execute({ id: "c", toolName: "x" }))).toBe("ok");
    },
  );

  test.for<[string, unknown, unknown, RegExp]>([
    ["an id that is a number", 5, { call: ECHO }, /^Expected an id of .*, got a number$/],
    [
      "a promise as transport",
      "s",
      Promise.resolve({ call: ECHO }),
      /^The tool provider s: expected \{ call \} .* got a Promise$/,
    ],
    [
      "an unknown key",
      "s",
      { call: ECHO, discover: {} },
      /^The tool provider s\.discover: Unknown option\. Did you mean "discovery"\?$/,
    ],
    ["an unknown kind", "s", { call: ECHO, kind: "sandbox" }, /expected kind to be host, mcp or python/],
    [
      "a promise as discovery",
      "s",
      { call: ECHO, discovery: Promise.resolve({}) },
      /discovery\.isFor: expected a function/,
    ],
    [
      "a discovery without mayHave",
      "s",
      { call: ECHO, discovery: { isFor: ECHO } },
      /discovery\.mayHave: expected a function/,
    ],
  ])("addToolProvider() rejects %s", async ([, id, transport, message]) => {
    const error = await failureOfAction(() => new ToolRouter().addToolProvider(id as never, transport as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(message) });
  });

  test("a source's register() rejects options that are wrong", async () => {
    const source = new ToolRouter().addToolProvider("s", { call: ECHO });
    await expectStrictMethod((options) => source.register("x", {}, options as never), false, [
      [{ tenant: "acme" }, 'options.tenant: Unknown option. Did you mean "tenantId"?'],
      [{ nameAtSource: "" }, "options.nameAtSource: "],
      [{ nameAtSource: 5 }, "options.nameAtSource: "],
    ]);
  });
});

describe("ToolInvoker", () => {
  const router = new ToolRouter();

  test.for([undefined, null, {}, Promise.resolve(router), "router", () => router])(
    "rejects %s as a router",
    async (given) => {
      const error = await failureOfAction(() => new ToolInvoker(given as never));
      expect(error).toMatchObject({
        code: "PARAM_INVALID",
        message: expect.stringMatching(/^router: expected a ToolRouter/),
      });
    },
  );

  test("rejects options that are wrong", async () => {
    await expectStrictMethod((options) => new ToolInvoker(router, options as never), false, [
      [{ maxConcurrency: 2 }, "options.maxConcurrency: Unknown option"],
      [{ maxConcurrentTool: 2 }, 'options.maxConcurrentTool: Unknown option. Did you mean "maxConcurrentTools"?'],
      [{ maxConcurrentTools: "2" }, "options.maxConcurrentTools: "],
      [{ maxConcurrentTools: 0 }, "options.maxConcurrentTools: "],
      [{ maxConcurrentTools: 11 }, "options.maxConcurrentTools: "],
      [{ maxConcurrentTools: 2.5 }, "options.maxConcurrentTools: "],
    ]);
  });
});

describe("execute-like methods", () => {
  const router = new ToolRouter();
  const ran: string[] = [];
  router.register("who", {}, (_input, { tenantId }) => {
    ran.push(tenantId);
    return tenantId;
  });
  const call = { id: "c", toolName: "who" };

  test.for(NOT_PLAIN)("resolve with PARAM_INVALID for %s as a context", async ([, make]) => {
    ran.length = 0;
    const invoker = new ToolInvoker(router);
    const context = make() as never;
    const results = [await router.execute(call, context), ...(await invoker.executeBatch([call], context))];
    results.push(await invoker.execute({ ...call, context }));
    for await (const item of router.stream(call, context)) results.push(item as never);
    expect([results.map(codeOf), ran]).toEqual([Array(4).fill("PARAM_INVALID"), []]);
  });

  test.for(NOT_PLAIN)("resolve with PARAM_INVALID for %s as a call", async ([, make]) => {
    const invoker = new ToolInvoker(router);
    const results = [await router.execute(make() as never), await invoker.execute(make() as never)];
    results.push(...(await invoker.executeBatch([make()] as never)));
    expect([results.map(codeOf), ran]).toEqual([Array(3).fill("PARAM_INVALID"), []]);
  });

  test("name the unknown key of a context, and suggest the right one", async () => {
    const result = await router.execute(call, { timeout: 5 } as never);
    expect(errorOf(result).message).toBe('context.timeout: Unknown option. Did you mean "timeoutMs"?');
  });
});

describe("MemoryToolRegistry", () => {
  test.for(["", 5, null, {}, Promise.resolve("acme"), ["acme"]])("rejects the tenant %s", async (tenantId) => {
    const registry = new MemoryToolRegistry();
    registry.add(makeTool({ name: "x" }));
    const calls = [
      () => registry.get("x", tenantId as never),
      () => registry.list(tenantId as never),
      () => registry.remove("x", tenantId as never),
      () => registry.add({ ...makeTool({ name: "y" }), tenantId: tenantId as never }),
    ];
    for (const each of calls) expect(await failureOfAction(each)).toMatchObject({ code: "PARAM_INVALID" });
    expect(registry.list().map(({ definition }) => definition.name)).toEqual(["x"]);
  });

  test.for([undefined, null, {}, Promise.resolve(makeTool())])("rejects %s for a tool", async (tool) => {
    expect(await failureOfAction(() => new MemoryToolRegistry().add(tool as never))).toMatchObject({
      code: "PARAM_INVALID",
    });
  });
});

describe("Glovebox", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox();
    await glovebox.addTool({ name: "x", source: "export default () => 1" });
    await glovebox.addTool({ name: "mine", source: "export default () => 1" });
  });
  afterAll(() => glovebox.close());
  const SOURCE = { source: "export default () => 1" };

  test.for<[string, boolean, (glovebox: Glovebox) => Call]>([
    ["health", false, (own) => (options) => own.health(options as never)],
    ["listTools", true, (own) => (options) => own.listTools(options as never)],
    ["removeTool", false, (own) => (options) => own.removeTool("x", options as never)],
    ["listSessions", false, (own) => (options) => own.listSessions(options as never)],
    ["closeSession", true, (own) => (options) => own.closeSession("x", options as never)],
    ["closeSessions", true, (own) => (options) => own.closeSessions(options as never)],
  ])("%s() rejects options that are wrong", async ([, isAsync, toCall]) => {
    await expectStrictMethod(toCall(glovebox), isAsync, TENANT_SCOPES);
    expect(glovebox.router.hasTool("x")).toBe(true);
  });

  test.for<[string, (glovebox: Glovebox) => Call, unknown, string]>([
    ["addTool", (own) => (options) => own.addTool(SOURCE, options as never), { tenant: "acme" }, "options.tenant: "],
    [
      "inspectTool",
      (own) => (options) => own.inspectTool(SOURCE, options as never),
      { isolateLifetime: "call" },
      "options.isolateLifetime: ",
    ],
    [
      "openSession",
      (own) => (options) => own.openSession(options as never),
      { lang: "python" },
      "options.lang: Unknown option",
    ],
    ["close", (own) => (options) => own.close(options as never), { drainMs: "5s" }, "options.drainMs: "],
    [
      "close",
      (own) => (options) => own.close(options as never),
      { drain: 5 },
      'options.drain: Unknown option. Did you mean "drainMs"?',
    ],
    ["close", (own) => (options) => own.close(options as never), { drainMs: 300_001 }, "options.drainMs: "],
  ])("%s() rejects options that are wrong, and does nothing", async ([, toCall, options, message]) => {
    await expectStrictMethod(toCall(glovebox), true, [[options, message]]);
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "x" }))).toBe("ok");
    expect([glovebox.listSessions(), glovebox.router.registry.list().length]).toEqual([[], 2]);
  });

  test.for<[string, (glovebox: Glovebox) => unknown, string]>([
    ["removeTool", (own) => own.removeTool(5 as never), "toolName: Expected a string, got a number"],
    ["closeSession", (own) => own.closeSession(undefined as never), "id: Expected a string, got undefined"],
  ])("%s() rejects a name that is not a string", async ([, action, message]) => {
    expect(await failureOfAction(() => action(glovebox))).toMatchObject({ code: "PARAM_INVALID", message });
  });

  test("execute() and stream() pass their timeoutMs on", async () => {
    const call = { id: "c", toolName: "x" };
    expect(errorOf(await glovebox.execute(call, {}, 0)).message).toMatch(/^timeoutMs: /);
    for await (const item of glovebox.stream(call, {}, 0))
      expect(item).toMatchObject({ error: { code: "PARAM_INVALID" } });
  });

  test("removeTool() with a tenant never removes a global tool", async () => {
    await using own = await makeGlovebox({ tenancy: "multi" });
    await own.addTool({ name: "x", source: "export default () => 1" }, { scope: "global" });
    await own.addTool({ name: "mine", source: "export default () => 1" }, { tenantId: "acme" });
    expect(own.removeTool("x", { tenantId: "acme" })).toBe(false);
    expect(own.removeTool("mine", { scope: "global" })).toBe(false);
    const whose = { tenantId: "acme" };
    expect([own.router.hasTool("x", whose), own.router.hasTool("mine", whose)]).toEqual([true, true]);
  });

  test.for(NOT_PLAIN)("createGlovebox() rejects %s for options", async ([kind, make]) => {
    const { createGlovebox } = await import("../../../src/host/glovebox/create-glovebox.ts");
    const error = await failureOfAction(() => createGlovebox(make() as never));
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: `options: Expected a plain object, got ${kind}` });
  });
});
