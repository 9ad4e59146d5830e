// ToolRouter with host functions: one ToolResult for every call, for any input and any behaviour of the function.
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { CallContext, ToolCall, ToolResult } from "../../../src/host/contract/tool-call.ts";
import { NO_USAGE } from "../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import { type HostToolDefinition, ToolRouter, type ToolRouterOptions } from "../../../src/host/routing/tool-router.ts";
import { type ErrorDetails, ToolError } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, expectPublishable, outputOf } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { makeTool } from "../../support/registered-tool.ts";

const ECHO: HostFunction = (input) => input;
const never: HostFunction = () => new Promise(() => {});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
function throwing(): never {
  throw new Error("a trap, at /root/secret.js");
}

/** A router with one tool, `probe`. Its unhandled rejections fail the test. */
function routerOf(handler: HostFunction, definition: HostToolDefinition = {}, options?: ToolRouterOptions): ToolRouter {
  const router = new ToolRouter(options);
  router.register("probe", definition, handler);
  return router;
}
const run = (router: ToolRouter, context?: CallContext, timeoutMs?: number, args: unknown = {}): Promise<ToolResult> =>
  router.execute({ id: "c1", toolName: "probe", arguments: args }, context, timeoutMs);

function thrownBy(action: () => unknown): ToolError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
  throw new Error("Expected a ToolError, got none");
}

function watchRejections(): unknown[] {
  const seen: unknown[] = [];
  const listener = (reason: unknown): void => {
    seen.push(reason);
  };
  process.on("unhandledRejection", listener);
  onTestFinished(() => {
    process.off("unhandledRejection", listener);
  });
  return seen;
}

/** Key that makes an object a thenable. */
const THENABLE_KEY = "then";

describe("ToolRouter.register()", () => {
  test("adds a host function that execute() then runs", async () => {
    const result = await run(
      routerOf((input) => ({ doubled: (input as { readonly n: number }).n * 2 })),
      {},
      undefined,
      { n: 21 },
    );
    expect(result).toMatchObject({ success: true, callId: "c1", toolName: "probe", output: { doubled: 42 }, logs: [] });
    expectPublishable(result);
  });

  test.for<[string, () => [string, HostToolDefinition, HostFunction], string, RegExp]>([
    ["a malformed name", () => ["my tool", {}, ECHO], "PARAM_INVALID", /expected a tool name .* got "my tool"/i],
    ["a number as name", () => [5 as never, {}, ECHO], "PARAM_INVALID", /expected a tool name .* got number/i],
    [
      "a handler that is not a function",
      () => ["x", {}, "text" as never],
      "PARAM_INVALID",
      /handler of "x": expected a function, got a string/,
    ],
    ["a taken name", () => ["probe", {}, ECHO], "NAME_TAKEN", /"probe" is taken/],
    ["an invalid schema", () => ["x", { inputSchema: { type: "objekt" } }, ECHO], "BUNDLE_FAILED", /inputSchema/],
    ["an invalid output schema", () => ["x", { outputSchema: 5 as never }, ECHO], "PARAM_INVALID", /outputSchema/],
  ])("rejects %s", ([, make, code, message]) => {
    const error = thrownBy(() => routerOf(ECHO).register(...make()));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(message);
  });

  test.for([0, -1, 300_001, Number.NaN, "5", null])(
    "rejects a timeout of %s for a tool as PARAM_INVALID",
    (timeoutMs) => {
      const limits = { timeoutMs: timeoutMs as number };
      expect(thrownBy(() => new ToolRouter().register("x", { limits }, ECHO))).toMatchObject({ code: "PARAM_INVALID" });
    },
  );

  test("rejects a definition whose fields are of the wrong type", () => {
    const definition = { description: 5 } as unknown as HostToolDefinition;
    expect(thrownBy(() => new ToolRouter().register("x", definition, ECHO))).toMatchObject({ code: "PARAM_INVALID" });
  });
});

describe("ToolRouter for a tenant", () => {
  function twoTenants(): ToolRouter {
    const router = new ToolRouter({ tenancy: "multi" });
    router.register("everybodys", { description: "for all" }, () => "global", { scope: "global" });
    router.register("own", {}, () => "acme's", { tenantId: "acme" });
    router.register("own", {}, () => "other's", { tenantId: "other" });
    return router;
  }

  test("getRegisteredTools() lists a tenant's and the global tools, by name", () => {
    const names = (tenantId: string): string[] =>
      twoTenants()
        .getRegisteredTools({ tenantId })
        .map(({ name }) => name);
    expect([names("acme"), names("other"), names("third")]).toEqual([
      ["everybodys", "own"],
      ["everybodys", "own"],
      ["everybodys"],
    ]);
  });

  test("getRegisteredTools() returns complete definitions with defaults", () => {
    const router = new ToolRouter();
    router.register("bare", {}, ECHO);
    expect(router.getRegisteredTools()).toEqual([{ name: "bare", description: "", inputSchema: { type: "object" } }]);
  });

  test.for<[string, string, boolean]>([
    ["everybodys", "acme", true],
    ["own", "acme", true],
    ["own", "third", false],
    ["__proto__", "acme", false],
    ["", "acme", false],
  ])("hasTool(%j) of tenant %s is %s", ([toolName, tenantId, has]) => {
    expect(twoTenants().hasTool(toolName, { tenantId })).toBe(has);
  });

  test("execute() runs the tenant's own tool, and no tool of another tenant", async () => {
    const router = twoTenants();
    const call = { id: "c", toolName: "own" };
    expect(outputOf(await router.execute(call, { tenantId: "acme" }))).toBe("acme's");
    expect(outputOf(await router.execute(call, { tenantId: "other" }))).toBe("other's");
    const error = errorOf(await router.execute(call, { tenantId: "third" }));
    expect([error.code, error.details]).toEqual([
      "TOOL_UNAVAILABLE",
      { reason: "not_found", toolName: "own", known: ["everybodys"] },
    ]);
  });

  test("execute() passes the tenant to a host function", async () => {
    const seen: unknown[] = [];
    const handler: HostFunction = (_input, { callId, tenantId, executionId, stepId }) => {
      seen.push({ callId, tenantId, executionId, stepId });
    };
    const router = new ToolRouter({ tenancy: "multi" });
    router.register("probe", {}, handler, { tenantId: "acme" });
    await run(router, { tenantId: "acme", executionId: "e1", stepId: "s1" });
    await run(routerOf(handler));
    expect(seen).toEqual([
      { callId: "c1", tenantId: "acme", executionId: "e1", stepId: "s1" },
      { callId: "c1", tenantId: "default", executionId: undefined, stepId: undefined },
    ]);
  });
});

describe("ToolRouter.execute() with any input", () => {
  const trapped = new Proxy({}, { get: throwing, has: throwing, ownKeys: throwing, getPrototypeOf: throwing });
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  /** Created when they are used, because fast-check inspects values, and inspecting a revoked proxy throws. */
  const WEIRD: readonly (() => unknown)[] = [
    () => trapped,
    () => cyclic,
    () => Symbol("s"),
    () => 1n,
    () => "x".repeat(1e6),
    () => throwing,
    () => new Map(),
    () => new Date(Number.NaN),
    revoked,
    () => ({
      get id() {
        return throwing();
      },
    }),
    () => ({
      get signal() {
        throw revoked();
      },
    }),
    () => ({
      toJSON: () => {
        throw revoked();
      },
    }),
  ];
  const plain = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
  });
  const weird: fc.Arbitrary<() => unknown> = fc.oneof(
    plain.map((value) => () => value),
    fc.constantFrom(...WEIRD),
  );
  const objectOf = (fields: { readonly [name: string]: fc.Arbitrary<() => unknown> }): fc.Arbitrary<() => unknown> =>
    fc.record(fields, { requiredKeys: [] }).map((made) => () => {
      const entries = Object.entries(made).map(([name, make]) => [name, (make as () => unknown)()] as const);
      return Object.fromEntries(entries);
    });
  const known = fc.constantFrom<() => unknown>(
    () => "c1",
    () => "probe",
  );
  const callLike = fc.oneof(weird, objectOf({ id: fc.oneof(weird, known), toolName: known, arguments: weird }));
  const contextLike = fc.oneof(
    weird,
    objectOf({ tenantId: weird, signal: weird, timeoutMs: weird, onLog: weird, onProgress: weird }),
  );

  test("resolves with one ToolResult that is plain JSON and discloses nothing about this machine", async () => {
    const router = routerOf(ECHO, { inputSchema: {} });
    await fc.assert(
      fc.asyncProperty(callLike, contextLike, weird, async (call, context, timeoutMs) => {
        const result = await router.execute(call() as ToolCall, context() as CallContext, timeoutMs() as number);
        expect(typeof result.success).toBe("boolean");
        expectPublishable(result);
        if (!result.success) expect(["PARAM_INVALID", "TOOL_UNAVAILABLE"]).toContain(result.error.code);
      }),
      { numRuns: 300 },
    );
  });

  test("includes the call id and tool name in its result if they can be read", async () => {
    const router = routerOf(ECHO);
    const result = await router.execute({ id: "c9", toolName: "nope" });
    expect(result).toMatchObject({
      success: false,
      callId: "c9",
      toolName: "nope",
      error: { code: "TOOL_UNAVAILABLE" },
    });
    expect(await router.execute(null as never)).toMatchObject({ callId: "", toolName: "", success: false });
  });

  test("is not misled by a context whose getter throws a revoked proxy", async () => {
    const context = {
      get tenantId(): string {
        throw revoked();
      },
    };
    expect(codeOf(await run(routerOf(ECHO), context))).toBe("PARAM_INVALID");
  });
});

describe("ToolRouter.execute() and timeouts", () => {
  test.for<[string, number | undefined, number | undefined, number | undefined, number | undefined]>([
    ["the host's for all tools", 40, undefined, undefined, undefined],
    ["the tool's", 10_000, 40, undefined, undefined],
    ["the context's", 10_000, 10_000, 40, undefined],
    ["the call's", 10_000, 10_000, 10_000, 40],
    ["the shortest there is", undefined, undefined, undefined, 1],
  ])("ends a function that never settles at %s timeout", async ([, host, tool, context, call]) => {
    const router = routerOf(
      never,
      tool === undefined ? {} : { limits: { timeoutMs: tool } },
      host === undefined ? {} : { limits: { timeoutMs: host } },
    );
    const error = errorOf(await run(router, { timeoutMs: context }, call));
    expect(error.code).toBe("TOOL_TIMEOUT");
    expect(error.message).toMatch(/^probe did not finish within (1|40) ms \(limits\.timeoutMs\) and was stopped$/);
  });

  test.for([1, 1.5, 300_000])("accepts a timeout of %s ms", async (timeoutMs) => {
    expect(codeOf(await run(routerOf(ECHO), { timeoutMs }, timeoutMs))).toBe("ok");
  });

  test.for([0, -1, 300_001, Number.NaN, Number.POSITIVE_INFINITY, "100", null, {}, 5n])(
    "rejects a timeout of %s as PARAM_INVALID, in either place",
    async (timeoutMs) => {
      const handler = vi.fn(ECHO);
      const router = routerOf(handler);
      const inCall = errorOf(await run(router, {}, timeoutMs as number));
      const inContext = errorOf(await run(router, { timeoutMs: timeoutMs as number }));
      expect([inCall.code, inContext.code]).toEqual(["PARAM_INVALID", "PARAM_INVALID"]);
      expect(inCall.message).toMatch(/^timeoutMs: expected a number of milliseconds from 1 to 300000, got /);
      expect(inContext.message).toMatch(/^context\.timeoutMs: expected a number of milliseconds/);
      expect(handler).not.toHaveBeenCalled();
    },
  );

  test("aborts the function's signal at its deadline", async () => {
    let reason: unknown;
    const router = routerOf(async (_input, { signal }) => {
      signal.addEventListener("abort", () => {
        reason = signal.reason;
      });
      await new Promise(() => {});
    });
    await run(router, {}, 20);
    expect(reason).toMatchObject({ code: "TOOL_TIMEOUT" });
  });

  test("does not start a call whose signal has aborted already", async () => {
    const handler = vi.fn(ECHO);
    expect(codeOf(await run(routerOf(handler), { signal: AbortSignal.abort() }))).toBe("CANCELLED");
    expect(handler).not.toHaveBeenCalled();
  });

  test("ends a call immediately when its caller cancels", async () => {
    const controller = new AbortController();
    const router = routerOf(() => {
      controller.abort("the caller's own reason");
      return new Promise(() => {});
    });
    const error = errorOf(await run(router, { signal: controller.signal }));
    expect([error.code, error.message]).toEqual(["CANCELLED", "The call of probe was cancelled by its caller"]);
  });

  test("ignores an abort after the result", async () => {
    const controller = new AbortController();
    const result = await run(routerOf(ECHO), { signal: controller.signal });
    controller.abort();
    expect(codeOf(result)).toBe("ok");
  });

  test("ignores the late result and the late rejection of a function", async () => {
    const rejections = watchRejections();
    const late = Promise.withResolvers<unknown>();
    expect(
      codeOf(
        await run(
          routerOf(() => late.promise),
          {},
          5,
        ),
      ),
    ).toBe("TOOL_TIMEOUT");
    late.reject(new Error("too late"));
    await pause(5);
    expect(rejections).toEqual([]);
  });

  test("serves 200 concurrent calls without a warning about listeners", async () => {
    const warnings: unknown[] = [];
    const listener = (warning: Error): void => {
      warnings.push(warning.name);
    };
    process.on("warning", listener);
    onTestFinished(() => {
      process.off("warning", listener);
    });
    const router = routerOf(() => pause(10));
    const { signal } = new AbortController();
    const results = await Promise.all(Array.from({ length: 200 }, () => run(router, { signal })));
    expect(new Set(results.map(codeOf))).toEqual(new Set(["ok"]));
    await pause(1);
    expect(warnings).toEqual([]);
  });
});

describe("ToolRouter.execute() with a host function", () => {
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;

  test.for<[string, () => unknown, unknown]>([
    ["nothing", () => undefined, null],
    ["null", () => null, null],
    ["a date", () => new Date(0), "1970-01-01T00:00:00.000Z"],
    ["NaN", () => Number.NaN, null],
    ["a promise", () => Promise.resolve([1]), [1]],
    [
      "a thenable",
      () => Object.defineProperty({}, THENABLE_KEY, { value: (resolve: (value: number) => void) => resolve(7) }),
      7,
    ],
    ["an object with a function in it", () => ({ a: 1, f: () => 1 }), { a: 1 }],
  ])("converts %s to JSON", async ([, handler, output]) => {
    const result = await run(routerOf(handler));
    expect(outputOf(result)).toEqual(output);
    expectPublishable(result);
  });

  describe("given large arguments and outputs", () => {
    const large = { list: Array(50_000).fill("some text") };

    test("passes them through", async () => {
      const schemas = {
        inputSchema: { type: "object", properties: { list: { items: { type: "string" } } } },
        outputSchema: { type: "object", properties: { list: { items: { maxLength: 9 } } } },
      };
      await using router = routerOf(ECHO, schemas, { limits: PATIENT_LIMITS });
      expect(outputOf(await run(router, {}, undefined, large))).toEqual(large);
    });

    test("reports what is invalid in them", async () => {
      const schemas = {
        inputSchema: { type: "object", properties: { list: { items: { type: "string" } } } },
        outputSchema: { properties: { list: { items: { type: "string" } } } },
      };
      await using router = routerOf(() => ({ list: [...large.list, 1] }), schemas, { limits: PATIENT_LIMITS });
      const failed = errorOf(await run(router, {}, undefined, large));
      expect(failed).toMatchObject({ code: "OUTPUT_INVALID", details: { problems: [{ pointer: "/list/50000" }] } });
      const rejected = errorOf(await run(router, {}, undefined, { list: [...large.list, 2] }));
      expect(rejected).toMatchObject({ code: "PARAM_INVALID", details: { problems: [{ pointer: "/list/50000" }] } });
    });

    test.for<[string, number | undefined, boolean, string]>([
      ["its time is up", 1, false, "TOOL_TIMEOUT"],
      ["its caller cancels", undefined, true, "CANCELLED"],
    ])("ends while it reads them when %s", async ([, timeoutMs, cancel, code]) => {
      await using router = routerOf(ECHO, { inputSchema: { items: { allOf: Array(1_000).fill({ type: "string" }) } } });
      const signal = cancel ? AbortSignal.abort() : undefined;
      expect(codeOf(await run(router, { signal }, timeoutMs, Array(200_000).fill("text")))).toBe(code);
    });

    test("ends while it reads them when it is disposed", async () => {
      const router = routerOf(ECHO, { inputSchema: { items: { type: "string" } } });
      const running = run(router, {}, undefined, Array(200_000).fill("text"));
      await router[Symbol.asyncDispose]();
      expect(codeOf(await running)).toBe("CANCELLED");
    });
  });

  test.for<[string, () => unknown, string]>([
    ["returns a function", () => () => 1, "OUTPUT_INVALID"],
    ["returns a symbol", () => Symbol("s"), "OUTPUT_INVALID"],
    ["returns a BigInt", () => 1n, "OUTPUT_INVALID"],
    ["returns a cycle", () => cyclic, "OUTPUT_INVALID"],
    ["returns a revoked proxy", revoked, "TOOL_FAILED,OUTPUT_INVALID"],
    ["returns a proxy that throws", () => new Proxy({}, { ownKeys: throwing }), "OUTPUT_INVALID"],
    ["returns a toJSON that throws", () => ({ toJSON: throwing }), "OUTPUT_INVALID"],
    ["returns a __proto__ key", () => JSON.parse('{"__proto__":1}') as unknown, "OUTPUT_INVALID"],
    [
      "throws",
      () => {
        throw new Error("ENOENT, open '/root/.ssh/id_rsa'");
      },
      "TOOL_FAILED",
    ],
    ["rejects", () => Promise.reject(new Error("at /srv/app/src/x.ts")), "TOOL_FAILED"],
    [
      "throws undefined",
      () => {
        throw undefined;
      },
      "TOOL_FAILED",
    ],
    [
      "throws text",
      () => {
        throw "/root";
      },
      "TOOL_FAILED",
    ],
    [
      "throws a revoked proxy",
      () => {
        throw revoked();
      },
      "TOOL_FAILED",
    ],
    [
      "rejects with a proxy that throws",
      () => Promise.reject(new Proxy(new Error("x"), { get: throwing, getPrototypeOf: throwing })),
      "TOOL_FAILED",
    ],
    [
      "throws a ToolError",
      () => {
        throw new ToolError("QUOTA_EXCEEDED", "enough for today");
      },
      "QUOTA_EXCEEDED",
    ],
    [
      "throws a ToolError with details that are not JSON",
      () => {
        throw new ToolError("TOOL_FAILED", "x", { details: cyclic as ErrorDetails });
      },
      "TOOL_FAILED",
    ],
    [
      "returns a thenable that throws",
      () => Object.defineProperty({}, THENABLE_KEY, { get: () => throwing() }),
      "TOOL_FAILED",
    ],
  ])("gives one result when it %s", async ([, handler, codes]) => {
    const rejections = watchRejections();
    const result = await run(routerOf(handler), {}, 2_000);
    expect(codes.split(",")).toContain(errorOf(result).code);
    expectPublishable(result);
    await pause(0);
    expect(rejections).toEqual([]);
  });

  test("checks its output against the output schema", async () => {
    const router = routerOf(() => ({ sum: "3" }), {
      outputSchema: { type: "object", properties: { sum: { type: "number" } } },
    });
    const error = errorOf(await run(router));
    expect(error.code).toBe("OUTPUT_INVALID");
    expect(error.message).toMatch(/^The output of probe: \/sum: /);
  });

  test("keeps log lines, passes them on as they arrive, and copies their data", async () => {
    const data = { step: 1 };
    const heard: string[] = [];
    const router = routerOf(async (_input, context) => {
      context.log("one", data);
      data.step = 2;
      await pause(0);
      context.log("two");
      return heard.length;
    });
    const result = await run(router, { onLog: ({ message }) => heard.push(message) });
    expect(result).toMatchObject({
      output: 2,
      logs: [{ level: "info", message: "one", data: { step: 1 } }, { message: "two" }],
    });
    expect(heard).toEqual(["one", "two"]);
  });

  test("continues a call whose log line is not JSON, or whose listener throws or rejects", async () => {
    const rejections = watchRejections();
    const router = routerOf((_input, context) => {
      context.log("cyclic", cyclic as never);
      context.log("bigint", 1n as never);
      return "done";
    });
    const onLogs = [throwing, async () => throwing()];
    for (const onLog of onLogs) {
      const result = await run(router, { onLog });
      expect(outputOf(result)).toBe("done");
      expect(result.logs.map(({ message }) => message)).toEqual(["cyclic", "bigint"]);
      expectPublishable(result);
    }
    await pause(0);
    expect(rejections).toEqual([]);
  });

  test("counts lines beyond the limit, and a long line does not use up the space for short ones", async () => {
    const limits = { logLines: 3, logBytes: 100 };
    const router = routerOf(
      (_input, context) => {
        context.log("x".repeat(101));
        for (let line = 0; line < 5; line += 1) context.log(`line ${line}`);
      },
      { limits },
    );
    const result = await run(router);
    expect(result.logs.map(({ message }) => message)).toEqual(["line 0", "line 1", "line 2"]);
    expect(result.usage.logsDropped).toBe(3);
  });
});

describe("ToolRouter.execute() and internal failures", () => {
  const cause = new Error("disk full at /root/db");
  const broken = makeTool({ executor: { source: "host", wants: "value", execute: () => Promise.reject(cause) } });

  test("returns INTERNAL without the cause, which onInternalError receives", async () => {
    const onInternalError = vi.fn();
    const router = new ToolRouter({ onInternalError });
    router.registry.add(broken);
    const result = await run(router);
    expect(errorOf(result)).toMatchObject({
      code: "INTERNAL",
      userMessage: "Something went wrong while running probe",
    });
    expect(JSON.stringify(result)).not.toContain("disk");
    expectPublishable(result);
    expect(onInternalError).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: "INTERNAL", cause }));
  });

  test("returns the result although onInternalError throws", async () => {
    const router = new ToolRouter({ onInternalError: throwing });
    router.registry.add(broken);
    expect(codeOf(await run(router))).toBe("INTERNAL");
  });

  test("returns the result although onInternalError rejects", async () => {
    const rejections = watchRejections();
    const router = new ToolRouter({ onInternalError: async () => throwing() });
    router.registry.add(broken);
    expect(codeOf(await run(router))).toBe("INTERNAL");
    await pause(0);
    expect(rejections).toEqual([]);
  });

  test("does not report a tool's own failures to onInternalError", async () => {
    const onInternalError = vi.fn();
    const router = routerOf(() => Promise.reject(new ToolError("TOOL_FAILED", "no")), {}, { onInternalError });
    await run(router);
    await router.execute({ id: "c", toolName: "nope" });
    await run(router, { timeoutMs: 0 });
    expect(onInternalError).not.toHaveBeenCalled();
  });

  test("reports the cause of a host function's failure to the operator, not to the caller", async () => {
    const onInternalError = vi.fn();
    const secret = new Error("password is hunter2");
    const result = await run(routerOf(() => Promise.reject(secret), {}, { onInternalError }));
    expect(codeOf(result)).toBe("TOOL_FAILED");
    expect(JSON.stringify(result)).not.toContain("hunter2");
    expect(onInternalError).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ cause: secret }));
  });

  test.for<[string, unknown]>([
    ["nothing", undefined],
    ["text", "done"],
    ["an object without usage", { outputText: "1" }],
    ["an object whose usage is null", { outputText: "1", usage: null }],
    ["an object without an output", { usage: NO_USAGE }],
    ["an error that is no ToolError", { usage: NO_USAGE, error: new Error("no") }],
    ["an error that is null", { usage: NO_USAGE, error: null }],
  ])("returns INTERNAL if an executor returns %s", async ([, answer]) => {
    const router = new ToolRouter();
    router.registry.add(makeTool({ executor: { source: "host", wants: "value", execute: () => answer as never } }));
    expect(codeOf(await run(router))).toBe("INTERNAL");
  });
});

describe("disposing a ToolRouter", () => {
  test("resolves running calls with CANCELLED, then rejects new ones with TOOL_UNAVAILABLE", async () => {
    const router = routerOf(never);
    const calls = [run(router), run(router), run(router)];
    await router[Symbol.asyncDispose]();
    expect((await Promise.all(calls)).map(codeOf)).toEqual(["CANCELLED", "CANCELLED", "CANCELLED"]);
    const later = errorOf(await run(router));
    expect([later.code, later.message]).toEqual(["TOOL_UNAVAILABLE", "Glovebox is closed"]);
  });

  test("has no effect the second time", async () => {
    const router = routerOf(ECHO);
    await router[Symbol.asyncDispose]();
    await router[Symbol.asyncDispose]();
  });
});
