// Functions of the host that a router calls: registry, tool providers, policies, listeners. If one throws, rejects, hangs or returns an invalid
// value, the call is denied or the function is ignored; the process continues and nothing is delayed.
import { describe, expect, test } from "vitest";
import { MemoryToolRegistry, type ToolRegistry } from "../../../src/host/routing/registry.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { SourceDiscovery } from "../../../src/host/routing/tool-source.ts";
import type { Tenants } from "../../../src/host/tenants/tenant-policies.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "../../support/failing-callbacks.ts";
import { codeOf, errorOf, outputOf } from "../../support/host-zone.ts";
import { fixedExecutor, makeTool } from "../../support/registered-tool.ts";

const CALL = { id: "c", toolName: "tool" };

/** Promises, which settle too late, and other invalid values. */
const NO_VALUES: readonly (readonly [string, () => unknown])[] = [
  ...FAILING_CALLBACKS,
  ["never answers", () => new Promise(() => {})],
  ["returns text", () => "acme"],
  ["returns a number", () => 1],
  ["returns null", () => null],
];
const NO_ANSWERS: typeof NO_VALUES = [
  ...NO_VALUES,
  ["returns a promise", async () => ({})],
  ["returns a promise of another realm", () => inOtherRealm("Promise.resolve({})")],
  ["returns a thenable", () => toThenable((resolve) => resolve({}))],
];

describe("the tenants function of a host", () => {
  const NO_POLICIES: typeof NO_VALUES = [
    ...NO_VALUES,
    ["returns an array", () => []],
    ["returns a Map", () => new Map()],
    ["returns undefined", () => undefined],
    ["resolves with undefined", async () => undefined],
    ["resolves with an unknown option", async () => ({ limit: {} })],
  ];
  test.for(NO_POLICIES)(
    "a tenants function that %s denies the call with INTERNAL, and onInternalError receives the cause",
    async ([, answer]) => {
      const errors: ToolError[] = [];
      const router = new ToolRouter({
        tenancy: "multi",
        tenants: answer as Tenants,
        tenantCache: { timeoutMs: 300 },
        onInternalError: (error) => errors.push(error),
      });
      let ran = false;
      const run = () => {
        ran = true;
      };
      router.register("tool", {}, run, { scope: "global" });
      const result = await router.execute(CALL, { tenantId: "acme" });
      expect([codeOf(result), ran]).toEqual(["INTERNAL", false]);
      expect(errors).toMatchObject([
        { code: "INTERNAL", message: "The tenants option gave no valid policy for this tenant" },
      ]);
    },
  );

  test.for([
    ["returns {}", () => ({})],
    ["resolves with {}", async () => ({})],
    ["returns a promise of another realm", () => inOtherRealm("Promise.resolve({})")],
    ["returns a thenable", () => toThenable((resolve) => resolve({}))],
  ])("a tenants function that %s gives the tenant the defaults", async ([, answer]) => {
    const router = new ToolRouter({ tenancy: "multi", tenants: answer as Tenants });
    router.register("tool", {}, () => 1, { scope: "global" });
    expect(outputOf(await router.execute(CALL, { tenantId: "acme" }))).toBe(1);
  });
});

/** A registry whose method is another one. */
function registryWith(method: keyof ToolRegistry, run: (registry: ToolRegistry) => unknown): ToolRegistry {
  const memory = new MemoryToolRegistry();
  memory.add(makeTool({ name: "tool", executor: fixedExecutor("1") }));
  const registry: ToolRegistry = {
    add: (tool) => memory.add(tool),
    remove: (name, tenantId) => memory.remove(name, tenantId),
    get: (name, tenantId) => memory.get(name, tenantId),
    list: (tenantId) => memory.list(tenantId),
    onChange: (listener) => memory.onChange(listener),
  };
  return Object.assign(registry, { [method]: () => run(memory) });
}

const failureOf = async (action: () => unknown): Promise<unknown> => {
  try {
    await action();
  } catch (thrown) {
    return thrown;
  }
  return "no failure";
};

describe("a registry of the host", () => {
  test("works as the one in memory does", async () => {
    const router = new ToolRouter({ registry: registryWith("list", (memory) => memory.list("acme")) });
    expect(outputOf(await router.execute(CALL))).toBe(1);
    expect(router.getRegisteredTools().map(({ name }) => name)).toEqual(["tool"]);
    expect(await failureOf(() => router.add(makeTool({ name: "tool" })))).toMatchObject({ code: "NAME_TAKEN" });
  });

  const foreign = makeTool({ name: "tool", tenantId: "other", executor: fixedExecutor('"of another tenant"') });
  const JUNK: typeof NO_ANSWERS = [
    ...NO_ANSWERS,
    ["returns {}", () => ({})],
    ["returns a tool without an executor", () => ({ definition: { name: "tool" } })],
    ["returns a tool that cannot be read", () => inOtherRealm('({ get definition() { throw new Error("no"); } })')],
    ["returns a tool of another tenant", () => foreign],
  ];
  test.for(JUNK)("a registry whose get() %s fails the call with INTERNAL, and hasTool() throws", async ([, answer]) => {
    const errors: ToolError[] = [];
    const registry = registryWith("get", answer);
    const router = new ToolRouter({ registry, onInternalError: (error) => errors.push(error) });
    expect(codeOf(await router.execute(CALL))).toBe("INTERNAL");
    expect(errors).toMatchObject([
      { code: "INTERNAL", cause: { message: expect.stringMatching(/^registry\.get\(\) /) } },
    ]);
    expect(await failureOf(() => router.hasTool("tool"))).toMatchObject({ code: "INTERNAL" });
  });

  const LISTS: typeof NO_ANSWERS = [
    ...NO_ANSWERS,
    ["returns a list of junk", () => [{}]],
    ["returns a tool of another tenant", () => [foreign]],
  ];
  test.for(LISTS)("a registry whose list() %s fails a listing with INTERNAL", async ([, answer]) => {
    const router = new ToolRouter({ registry: registryWith("list", answer) });
    const actions = [() => router.getRegisteredTools(), () => router.listTools(), () => router.health()];
    for (const action of actions) expect(await failureOf(action)).toMatchObject({ code: "INTERNAL" });
  });

  test.for(FAILING_CALLBACKS)("a registry whose add() %s reports the failure of register()", async ([, answer]) => {
    const router = new ToolRouter({ registry: registryWith("add", answer) });
    expect(await failureOf(() => router.register("x", {}, () => 1))).toMatchObject({ code: "INTERNAL" });
  });

  test.for(FAILING_CALLBACKS)("a registry whose remove() %s reports the failure", async ([, answer]) => {
    const router = new ToolRouter({ registry: registryWith("remove", answer) });
    expect(await failureOf(() => router.registry.remove("tool"))).toMatchObject({ code: "INTERNAL" });
  });

  test.for(FAILING_CALLBACKS)("a listener that %s does not fail a registration", async ([, listener]) => {
    const registry = new MemoryToolRegistry();
    const heard: (string | undefined)[] = [];
    registry.onChange(listener);
    registry.onChange((tenantId) => void heard.push(tenantId));
    registry.add(makeTool({ name: "x", tenantId: "acme" }));
    expect([registry.get("x", "acme")?.definition.name, heard]).toEqual(["x", ["acme"]]);
  });
});

describe("a tool provider's transport", () => {
  function sourceOf(answer: () => unknown) {
    const router = new ToolRouter({ health: { failures: 1 } });
    const source = router.addToolProvider("remote", { call: answer });
    source.register("tool", {});
    return router;
  }

  test.for(FAILING_CALLBACKS)(
    "a transport whose call() %s counts as unavailable, and its circuit opens",
    async ([, answer]) => {
      const router = sourceOf(answer);
      expect(codeOf(await router.execute(CALL))).toBe("TOOL_UNAVAILABLE");
      expect(router.health()).toMatchObject([{ sourceId: "remote", state: "open", failures: 1 }]);
    },
  );

  test.for<[string, () => unknown, string]>([
    ["returns a function", () => () => 1, "OUTPUT_INVALID"],
    [
      "returns a cycle",
      () => inOtherRealm("(() => { const own = {}; own.own = own; return own; })()"),
      "OUTPUT_INVALID",
    ],
    ["never answers", () => new Promise(() => {}), "TOOL_TIMEOUT"],
    ["answers with a thenable", () => toThenable((resolve) => resolve(7)), "ok"],
    ["answers with a promise of another realm", () => inOtherRealm("Promise.resolve(7)"), "ok"],
  ])("a transport whose call() %s: %s", async ([, answer, code]) => {
    expect(codeOf(await sourceOf(answer).execute(CALL, { timeoutMs: 2_000 }))).toBe(code);
  });
});

describe("a tool provider's discovery", () => {
  /** Returns a router with one such provider, which registers its tool at its first discovery. */
  function discovering(overrides: { readonly [Name in keyof SourceDiscovery]?: () => unknown }) {
    const errors: ToolError[] = [];
    const router = new ToolRouter({ limits: { timeoutMs: 2_000 }, onInternalError: (error) => errors.push(error) });
    router.register("other", {}, () => "other");
    let discovered = 0;
    const discovery = {
      isFor: () => true,
      mayHave: (name: string) => name === "tool",
      isKnown: () => discovered > 0,
      discover: async () => {
        discovered += 1;
        source.register("tool", {});
      },
      ...overrides,
    };
    const source = router.addToolProvider("remote", { call: () => "found", discovery: discovery as SourceDiscovery });
    return { router, errors, discovered: () => discovered };
  }
  const namesOf = async (router: ToolRouter): Promise<readonly string[]> =>
    (await router.listTools()).map(({ name }) => name);

  test("finds a tool before its first call", async () => {
    expect(outputOf(await discovering({}).router.execute(CALL))).toBe("found");
  });

  test.for(NO_ANSWERS)(
    "a discovery whose isFor() %s is omitted, and the other tools are listed",
    async ([, answer]) => {
      const { router, errors, discovered } = discovering({ isFor: answer });
      expect(await namesOf(router)).toEqual(["other"]);
      expect([codeOf(await router.execute(CALL)), discovered()]).toEqual(["TOOL_UNAVAILABLE", 0]);
      expect(errors[0]).toMatchObject({
        code: "INTERNAL",
        message: expect.stringContaining("discovery.isFor() of the tool provider remote"),
      });
    },
  );

  test.for(NO_ANSWERS)("a discovery whose mayHave() %s is not queried for a call", async ([, answer]) => {
    const { router, discovered } = discovering({ mayHave: answer });
    expect([codeOf(await router.execute(CALL)), discovered()]).toEqual(["TOOL_UNAVAILABLE", 0]);
  });

  test.for(NO_ANSWERS)("a discovery whose isKnown() %s discovers its tools", async ([, answer]) => {
    const { router, discovered } = discovering({ isKnown: answer });
    expect([outputOf(await router.execute(CALL)), discovered()]).toEqual(["found", 1]);
  });

  test.for(FAILING_CALLBACKS)("a discovery whose discover() %s is omitted from the listing", async ([, answer]) => {
    const { router } = discovering({ discover: answer });
    expect(await namesOf(router)).toEqual(["other"]);
    expect(codeOf(await router.execute(CALL))).toBe("TOOL_UNAVAILABLE");
    expect(router.health()).toContainEqual(expect.objectContaining({ sourceId: "remote", failures: 2 }));
  });

  test("a discovery whose discover() never settles delays a call and a listing up to their timeout", async () => {
    const { router } = discovering({ discover: () => new Promise(() => {}) });
    expect(errorOf(await router.execute(CALL, { timeoutMs: 50 }))).toMatchObject({ code: "TOOL_TIMEOUT" });
    expect(await namesOf(router)).toEqual(["other"]);
    expect(outputOf(await router.execute({ ...CALL, toolName: "other" }))).toBe("other");
  });
});

describe("listeners of a call", () => {
  const listening = (): ToolRouter => {
    const router = new ToolRouter();
    router.register("tool", {}, (_input, context) => {
      context.log("one");
      context.onProgress?.({ progress: 1 });
      return 1;
    });
    return router;
  };

  test.for(FAILING_CALLBACKS)("onLog that %s does not fail the call", async ([, onLog]) => {
    expect(codeOf(await listening().execute(CALL, { onLog: onLog as never }))).toBe("ok");
  });

  test.for(FAILING_CALLBACKS)("onProgress that %s does not fail the call", async ([, onProgress]) => {
    expect(codeOf(await listening().execute(CALL, { onProgress: onProgress as never }))).toBe("ok");
  });

  test.for(FAILING_CALLBACKS)("onInternalError that %s does not fail the call", async ([, onInternalError]) => {
    const router = new ToolRouter({ onInternalError: onInternalError as never });
    router.register("tool", {}, () => {
      throw new Error("no");
    });
    expect(codeOf(await router.execute(CALL))).toBe("TOOL_FAILED");
  });
});
