// Hooks around each stage: observing, modifying and rejecting, and the effect of a hook that throws or times out. The forms of
// answers are in hooks/hook-answer.test.ts.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defineCapability } from "../../../../src/host/capabilities/capability.ts";
import type { CallContext, ToolResult } from "../../../../src/host/contract/tool-call.ts";
import { createGlovebox } from "../../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../../src/host/glovebox/glovebox.ts";
import type { Hook, ObservedEvent } from "../../../../src/host/observability/hooks/hook-events.ts";
import {
  type HostToolDefinition,
  ToolRouter,
  type ToolRouterOptions,
} from "../../../../src/host/routing/tool-router.ts";
import { ERROR_CODES, ToolError } from "../../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS } from "../../../support/failing-callbacks.ts";
import { codeOf, errorOf, outputOf } from "../../../support/host-zone.ts";
import { watchRejections } from "../../../support/unhandled-rejections.ts";

const ADD: HostToolDefinition = {
  description: "Adds",
  inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  outputSchema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] },
};
type Numbers = { readonly a: number; readonly b: number };

/** A router with `add`, and the calls and errors that it recorded. */
function routerOf(hooks: readonly Hook[], options: ToolRouterOptions = {}) {
  const ran: unknown[] = [];
  const reported: ToolError[] = [];
  const router = new ToolRouter({ ...options, hooks, onInternalError: (error) => reported.push(error) });
  router.register("add", ADD, (input) => {
    ran.push(input);
    const { a, b } = input as unknown as Numbers;
    return { sum: a + b };
  });
  const call = (args: unknown = { a: 1, b: 2 }, context?: CallContext, toolName = "add"): Promise<ToolResult> =>
    router.execute({ id: "c1", toolName, arguments: args }, context);
  return { router, call, ran, reported };
}

const never = new Promise<never>(() => {});
/** Longest time in ms that a hook may take. */
const HOOK_MS = 30_000;

/** Returns the result, and throws if a hook that never answers has used up its own time first. */
async function soonerThanHook(result: Promise<ToolResult>): Promise<ToolResult> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("The call has waited for its hook")), HOOK_MS - 1_000);
  try {
    return await Promise.race([result, late]);
  } finally {
    clearTimeout(timer);
  }
}

const STAGES = ["validate", "prepare", "execute", "afterExecute", "result"] as const;

describe("a hook that observes", () => {
  test("receives the start and end of each stage, and the result", async () => {
    const events: ObservedEvent[] = [];
    const { call } = routerOf([{ name: "eye", observe: (event) => events.push(event) }]);
    const result = await call(undefined, { executionId: "e1", stepId: "s1" });
    expect(events.map(({ stage, phase }) => `${stage} ${phase}`)).toEqual([
      ...["validate", "prepare", "execute", "afterExecute"].flatMap((stage) => [`${stage} begin`, `${stage} end`]),
      "result end",
    ]);
    expect(events[0]?.call).toEqual({
      callId: "c1",
      toolName: "add",
      tenantId: "default",
      executionId: "e1",
      stepId: "s1",
    });
    expect(events.at(-1)).toMatchObject({ result });
    for (const event of events)
      if (event.phase === "end" && "durationMs" in event) expect(event.durationMs).toBeGreaterThanOrEqual(0);
  });

  test.for<[string, unknown, string, string]>([
    ["invalid arguments", { a: "x" }, "validate", "PARAM_INVALID"],
    ["an unknown tool", undefined, "validate", "TOOL_UNAVAILABLE"],
  ])("receives the stage in which %s ends the call", async ([, args, stage, code]) => {
    const events: ObservedEvent[] = [];
    const { call } = routerOf([{ name: "eye", observe: (event) => events.push(event) }]);
    expect(codeOf(await call(args, {}, args === undefined ? "none" : "add"))).toBe(code);
    expect(
      events.filter(({ phase }) => phase === "end").map((event) => [event.stage, "code" in event ? event.code : ""]),
    ).toEqual([
      [stage, code],
      ["result", ""],
    ]);
  });

  test("receives an invalid call", async () => {
    const events: ObservedEvent[] = [];
    const { router } = routerOf([{ name: "eye", observe: (event) => events.push(event) }]);
    expect(codeOf(await router.execute(null as never))).toBe("PARAM_INVALID");
    expect(events).toMatchObject([{ stage: "result", result: { success: false } }]);
  });

  test("does not delay or fail the call if it throws, rejects or stalls", async () => {
    const { call, reported } = routerOf([
      { name: "throws", observe: () => ToolError.captureStackTrace({}) ?? fail() },
      { name: "rejects", observe: async () => fail() },
      { name: "stalls", observe: () => never },
    ]);
    expect(outputOf(await call())).toEqual({ sum: 3 });
    await Promise.resolve();
    expect(new Set(reported.map(({ message }) => message.split(" at ")[0]))).toEqual(
      new Set(["The hook throws threw", "The hook rejects threw"]),
    );
  });
});

describe("a hook whose observe", () => {
  test.for(FAILING_CALLBACKS)(
    "%s neither fails the call nor ends the process, and is reported",
    async ([, observe]) => {
      const rejections = watchRejections();
      const { call, reported } = routerOf([{ name: "eye", observe }]);
      expect(outputOf(await call())).toEqual({ sum: 3 });
      expect(await rejections()).toEqual([]);
      expect(reported).toHaveLength(9);
      expect(new Set(reported.map(({ message }) => message.split(" at ")[0]))).toEqual(new Set(["The hook eye threw"]));
    },
  );

  test("fails does not fail the call, even if the error listener fails too", async () => {
    const rejections = watchRejections();
    for (const [, onInternalError] of FAILING_CALLBACKS) {
      const router = new ToolRouter({ hooks: [{ name: "eye", observe: fail }], onInternalError });
      router.register("one", {}, () => 1);
      expect(outputOf(await router.execute({ id: "c1", toolName: "one" }))).toBe(1);
    }
    expect(await rejections()).toEqual([]);
  });
});

function fail(): never {
  throw new Error("no");
}

describe("a hook that modifies", () => {
  test("validates modified arguments like the caller's", async () => {
    const { call, ran } = routerOf([
      { name: "one", validate: ({ arguments: args }) => ({ modify: { arguments: { ...(args as object), b: 40 } } }) },
      {
        name: "two",
        validate: async ({ arguments: args }) => ({ modify: { arguments: { ...(args as object), a: 2 } } }),
      },
    ]);
    expect(outputOf(await call({ a: 1 }))).toEqual({ sum: 42 });
    expect(ran).toEqual([{ a: 2, b: 40 }]);
    const bad = routerOf([{ name: "one", validate: () => ({ modify: { arguments: { a: "x" } } }) }]);
    expect(errorOf(await bad.call())).toMatchObject({ code: "PARAM_INVALID", message: expect.stringContaining("/a") });
    expect(bad.ran).toEqual([]);
  });

  test("receives the arguments that the tool receives, even if the caller's object changes", async () => {
    let reads = 0;
    const twoFaced = {
      b: 2,
      get a(): number {
        reads += 1;
        return reads;
      },
    };
    const seen: unknown[] = [];
    const { call, ran } = routerOf([
      { name: "guard", validate: ({ arguments: args }) => void seen.push(structuredClone(args)) },
    ]);
    await call(twoFaced);
    expect(ran).toEqual(seen);
  });

  test("modifies arguments that are a model's text, and bytes", async () => {
    const seen: unknown[] = [];
    const { router } = routerOf([{ name: "guard", validate: ({ arguments: args }) => void seen.push(args) }]);
    router.register("echo", {}, (input) => input);
    const text = await router.execute({ id: "c1", toolName: "add", argumentsText: '{"a":1,"b":2}' });
    const bytes = await router.execute({ id: "c2", toolName: "echo", arguments: { data: new Uint8Array([1, 2]) } });
    expect(outputOf(text)).toEqual({ sum: 3 });
    expect(outputOf(bytes)).toEqual({ data: new Uint8Array([1, 2]) });
    expect(seen).toEqual([{ a: 1, b: 2 }, { data: new Uint8Array([1, 2]) }]);
  });

  test.for<[string, unknown, object]>([
    ["an output", { output: { sum: 7 } }, { success: true, output: { sum: 7 } }],
    ["an invalid output", { output: { sum: "x" } }, { success: false, error: { code: "OUTPUT_INVALID" } }],
    ["an output that is not JSON", { output: 1n }, { success: false, error: { code: "OUTPUT_INVALID" } }],
    [
      "an error",
      { error: { code: "TOOL_FAILED", message: "Later" } },
      { success: false, error: { code: "TOOL_FAILED", message: "Later" } },
    ],
  ])("modifies the result: %s", async ([, modify, expected]) => {
    const { call } = routerOf([{ name: "last", result: () => ({ modify: modify as never }) }]);
    const result = await call();
    expect(result).toMatchObject(expected);
    expect(result).toMatchObject({ callId: "c1", toolName: "add", logs: [] });
  });

  test("modifies a failure to another message or to an output", async () => {
    const worded = routerOf([
      { name: "words", result: () => ({ modify: { error: { message: "Try with numbers" } } }) },
    ]);
    expect(errorOf(await worded.call({}))).toMatchObject({ code: "PARAM_INVALID", message: "Try with numbers" });
    const router = new ToolRouter({ hooks: [{ name: "rescue", result: () => ({ modify: { output: { sum: 0 } } }) }] });
    router.register("add", ADD, fail);
    expect(outputOf(await router.execute({ id: "c", toolName: "add", arguments: { a: 1, b: 1 } }))).toEqual({ sum: 0 });
  });
});

describe("a hook that rejects", () => {
  test.for(
    STAGES.flatMap((stage) =>
      (["CAPABILITY_DENIED", "APPROVAL_REQUIRED", "QUOTA_EXCEEDED"] as const).map((code) => [stage, code] as const),
    ),
  )("rejects at %s with %s", async ([stage, code]) => {
    const details = { rule: "r1" };
    const { call, ran } = routerOf([
      { name: "guard", [stage]: () => ({ reject: { code, message: "Not today", details } }) },
    ]);
    const error = errorOf(await call());
    expect(error).toMatchObject({ code, message: "Not today", details, recoverable: ERROR_CODES[code].recoverable });
    expect(ran).toHaveLength(stage === "afterExecute" || stage === "result" ? 1 : 0);
  });

  test("rejects with a ToolError unchanged, and later hooks are not called", async () => {
    let asked = 0;
    const reject = new ToolError("APPROVAL_REQUIRED", "Ask the owner", { recoverable: false });
    const { call } = routerOf([
      { name: "first", execute: () => ({ reject }) },
      {
        name: "second",
        execute: () => {
          asked += 1;
        },
      },
    ]);
    expect(errorOf(await call())).toMatchObject({ code: "APPROVAL_REQUIRED", recoverable: false });
    expect(asked).toBe(0);
  });
});

describe("a hook that fails", () => {
  const ways: readonly [string, () => unknown, RegExp][] = [
    ["throws", fail, /broken threw/],
    ["rejects", async () => fail(), /broken threw/],
    ["does not answer", () => never, /broken timed out/],
    ["answers with an unknown modification", () => ({ modify: { nothing: 1 } }), /broken gave an invalid answer/],
    ["answers with text", () => "yes", /broken gave an invalid answer/],
    [
      "answers with a modification that cannot be read",
      () => ({ modify: new Proxy({}, { ownKeys: fail }) }),
      /broken gave an invalid answer/,
    ],
  ];
  test.for(STAGES.flatMap((stage) => ways.map(([way, hook, message]) => [stage, way, hook, message] as const)))(
    "a hook that, at %s, %s is ignored and reported with failClosed: false",
    async ([stage, , hook, message]) => {
      const { call, reported } = routerOf([{ name: "broken", failClosed: false, timeoutMs: 20, [stage]: hook }]);
      expect(outputOf(await call())).toEqual({ sum: 3 });
      expect(reported.map((error) => error.message)).toEqual([expect.stringMatching(message)]);
    },
  );

  test.for(STAGES.flatMap((stage) => ways.map(([way, hook]) => [stage, way, hook] as const)))(
    "a hook that, at %s, %s denies the call by default",
    async ([stage, , hook]) => {
      const { call, ran } = routerOf([{ name: "guard", timeoutMs: 20, [stage]: hook }]);
      expect(errorOf(await call())).toMatchObject({ code: "INTERNAL" });
      expect(ran).toHaveLength(stage === "afterExecute" || stage === "result" ? 1 : 0);
    },
  );

  test.for(["validate", "prepare", "execute", "afterExecute"] as const)(
    "a hook that does not answer at %s does not delay the call beyond its deadline",
    async (stage) => {
      const { call } = routerOf([{ name: "slow", timeoutMs: HOOK_MS, [stage]: () => never }]);
      expect(codeOf(await soonerThanHook(call(undefined, { timeoutMs: 60 })))).toBe("TOOL_TIMEOUT");
    },
  );

  test.for<[boolean | undefined, string]>([
    [undefined, "INTERNAL"],
    [false, "TOOL_TIMEOUT"],
  ])(
    "a hook that does not answer at the result of a call without time left delays it briefly (failClosed: %s)",
    async ([failClosed, code]) => {
      const router = new ToolRouter({ hooks: [{ name: "slow", failClosed, timeoutMs: HOOK_MS, result: () => never }] });
      router.register("add", ADD, () => never);
      const call = { id: "c", toolName: "add", arguments: { a: 1, b: 1 } };
      expect(codeOf(await soonerThanHook(router.execute(call, { timeoutMs: 50 })))).toBe(code);
    },
  );

  test("ends with the call when its caller cancels", async () => {
    const stop = new AbortController();
    const { call, reported } = routerOf([
      {
        name: "slow",
        timeoutMs: HOOK_MS,
        execute: () => {
          stop.abort();
          return never;
        },
      },
    ]);
    expect(codeOf(await call(undefined, { signal: stop.signal }))).toBe("CANCELLED");
    expect(reported).toEqual([]);
  });
});

describe("hooks of streaming calls", () => {
  test("the rejection of a result is the last item, after the chunks", async () => {
    const router = new ToolRouter({
      hooks: [{ name: "guard", result: () => ({ reject: { code: "CAPABILITY_DENIED", message: "No" } }) }],
    });
    router.register("rows", {}, async function* () {
      yield 1;
      yield 2;
    });
    const items: unknown[] = [];
    for await (const item of router.stream({ id: "c1", toolName: "rows" })) items.push(item);
    expect(items).toMatchObject([
      { type: "chunk", value: 1 },
      { type: "chunk", value: 2 },
      { type: "result", success: false, error: { code: "CAPABILITY_DENIED" } },
    ]);
  });
});

describe("hooks as options", () => {
  test.for<[string, unknown, RegExp]>([
    ["without a name", [{}], /hooks\.0\.name/],
    [
      "with an unknown stage",
      [{ name: "x", valdate: fail }],
      /hooks\.0\.valdate: Unknown option. Did you mean "validate"/,
    ],
    ["with a stage that is not a function", [{ name: "x", execute: 5 }], /hooks\.0\.execute: Expected a function/],
    ["with a time out of range", [{ name: "x", timeoutMs: 0 }], /hooks\.0\.timeoutMs/],
    ["as a promise", [Promise.resolve({ name: "x" })], /hooks\.0: Expected a plain object, got a Promise/],
    ["as a class instance", [new (class Guard {})()], /hooks\.0: Expected a plain object, got an instance of Guard/],
    ["with failClosed as text", [{ name: "x", failClosed: "false" }], /hooks\.0\.failClosed/],
  ])("are rejected %s", async ([, hooks, message]) => {
    expect(() => new ToolRouter({ hooks: hooks as never })).toThrow(message);
    await expect(createGlovebox({ hooks: hooks as never, cache: false })).rejects.toThrow(message);
  });
});

describe("hooks around capabilities", () => {
  const events: ObservedEvent[] = [];
  const handled: unknown[] = [];
  let policy: Partial<Hook> = {};
  let glovebox: Glovebox;
  const lookUp = defineCapability({
    name: "lookUp",
    inputSchema: { type: "object", properties: { sku: { type: "string" } }, required: ["sku"] },
    outputSchema: { type: "object", properties: { price: { type: "number" } }, required: ["price"] },
    handler: (input) => {
      handled.push(input);
      return { price: (input as { readonly sku: string }).sku.length };
    },
  });
  beforeAll(async () => {
    const hook: Hook = {
      name: "policy",
      observe: (event) => void events.push(event),
      execute: (event) => policy.execute?.(event),
      capability: (event) => policy.capability?.(event),
      capabilityResult: (event) => policy.capabilityResult?.(event),
    };
    glovebox = await createGlovebox({
      capabilities: [lookUp],
      hooks: [hook],
      cache: false,
      limits: { timeoutMs: 60_000 },
    });
    const source = `export default async ({ sku }, { log, lookUp }) => {
      log.info("asking");
      try { return await lookUp({ sku }); } catch (error) { return { code: error.code, message: error.message }; }
    }`;
    await glovebox.addTool({ name: "price", source }, { grant: ["lookUp"] });
  });
  afterAll(() => glovebox.close());

  test.for<[string, Partial<Hook>, unknown]>([
    ["observe them, but not log entries", {}, { price: 3 }],
    ["modify the input", { capability: () => ({ modify: { input: { sku: "12345" } } }) }, { price: 5 }],
    ["modify it to an invalid value", { capability: () => ({ modify: { input: {} } }) }, { code: "PARAM_INVALID" }],
    [
      "reject the call",
      { capability: () => ({ reject: { code: "CAPABILITY_DENIED", message: "Not this" } }) },
      { code: "CAPABILITY_DENIED", message: "Not this" },
    ],
    ["modify the output", { capabilityResult: () => ({ modify: { output: { price: 1 } } }) }, { price: 1 }],
    [
      "modify it to an invalid value",
      { capabilityResult: () => ({ modify: { output: {} } }) },
      { code: "OUTPUT_INVALID" },
    ],
    [
      "reject the output",
      { capabilityResult: () => ({ reject: { code: "QUOTA_EXCEEDED", message: "Enough" } }) },
      { code: "QUOTA_EXCEEDED" },
    ],
    [
      "reject with a message of 10,001 characters",
      { capability: () => ({ reject: { code: "QUOTA_EXCEEDED", message: "x".repeat(10_001) } }) },
      { code: "QUOTA_EXCEEDED" },
    ],
    ["reject with a string", { capability: () => ({ reject: "Not this" }) as never }, { code: "CAPABILITY_DENIED" }],
    ["deny when they throw", { capability: fail }, { code: "INTERNAL", message: 'The capability "lookUp" failed' }],
    ["deny when they answer false", { capability: () => false as never }, { code: "INTERNAL" }],
    ["withhold the output when they throw", { capabilityResult: fail }, { code: "INTERNAL" }],
    ["withhold the output when they answer false", { capabilityResult: () => false as never }, { code: "INTERNAL" }],
  ])("%s", async ([, asked, expected]) => {
    policy = asked;
    events.length = 0;
    handled.length = 0;
    expect(outputOf(await glovebox.execute({ id: "c1", toolName: "price", arguments: { sku: "abc" } }))).toMatchObject(
      expected as object,
    );
    const capability = events.filter(({ stage }) => stage === "capability");
    const code = (expected as { readonly code?: string }).code ?? "ok";
    expect(capability).toMatchObject([
      { phase: "begin", capability: "lookUp" },
      { phase: "end", capability: "lookUp", code },
    ]);
    const isDenied = asked.capability !== undefined && code !== "ok";
    expect(handled).toHaveLength(isDenied ? 0 : 1);
  });

  test("are called for nested calls too", async () => {
    const source =
      "export default async (input, { tools }) => { try { await tools.price({}); } catch (error) { return error.code; } }";
    await glovebox.addTool({ name: "outer", source }, { grant: ["tools"] });
    const asked: string[] = [];
    policy = {
      execute: ({ call }) => {
        asked.push(call.toolName);
        return call.toolName === "price" ? { reject: { code: "APPROVAL_REQUIRED", message: "Ask" } } : undefined;
      },
    };
    expect(outputOf(await glovebox.execute({ id: "c1", toolName: "outer" }))).toBe("APPROVAL_REQUIRED");
    expect(asked).toEqual(["outer", "price"]);
  });
});

describe("a tool that is replaced while a hook decides about its call", () => {
  test.for<[string, (router: ToolRouter) => void]>([
    [
      "is not run instead of the tool that the hook saw",
      (router) => {
        router.registry.remove("add");
        router.register("add", { ...ADD, description: "Deletes everything" }, () => ({ sum: 0 }));
      },
    ],
    ["is not run if it was removed", (router) => void router.registry.remove("add")],
  ])("%s", async ([, change]) => {
    let replace: () => void = () => undefined;
    const { router, call, ran } = routerOf([
      {
        name: "guard",
        validate: async () => {
          replace();
        },
      },
    ]);
    replace = () => change(router);
    expect(errorOf(await call())).toMatchObject({ code: "TOOL_UNAVAILABLE", recoverable: true });
    expect(ran).toEqual([]);
  });
});

test("a validate hook receives coerced arguments", async () => {
  const seen: unknown[] = [];
  const guard: Hook = {
    name: "spending",
    validate: ({ arguments: args }) => {
      seen.push(args);
      const { a } = args as unknown as Numbers;
      return typeof a === "number" && a > 100
        ? { reject: { code: "APPROVAL_REQUIRED", message: "too much" } }
        : undefined;
    },
  };
  const { call, ran } = routerOf([guard], { arguments: { coerce: true, unknownKeys: "prune" } });
  expect(codeOf(await call({ a: "1000", b: 2, c: 3 }))).toBe("APPROVAL_REQUIRED");
  const result = await call({ a: "5", b: 2 });
  expect(outputOf(result)).toEqual({ sum: 7 });
  expect(result.coercions).toHaveLength(1);
  expect([seen, ran]).toEqual([
    [
      { a: 1000, b: 2 },
      { a: 5, b: 2 },
    ],
    [{ a: 5, b: 2 }],
  ]);
});
