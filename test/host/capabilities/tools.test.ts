// ctx.tools in real tools: which tools may call each other, how deep, how often, for how long, and the outcome of a failed call.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { CallContext, NestedCallStart, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { HostFunction } from "../../../src/host/executors/host-function.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { CONTENT_KEY } from "../../../src/sandbox/contract/content.ts";
import { type JsonValue, ToolError } from "../../../src/sandbox/contract/errors.ts";
import type { PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";

/** Makes the given calls and reports their outcomes. */
const CALLER = `export default async ({ name, input, times = 1, catches = true }, { tools }) => {
  const once = async () => {
    try { return await tools.call(name, input); }
    catch (error) { if (!catches) throw error; return { name: error.name, code: error.code, message: error.message }; }
  };
  return times === 1 ? await once() : await Promise.all(Array.from({ length: times }, once));
};`;
const ADD = "export default ({ a, b }) => ({ sum: a + b })";

/** Does what its input names: a definition is extracted in a process of its own, and this one is the same for many tools. */
const VARIOUS = `const HOW = {
  members: async ({ tools }) => [
    await tools.add({ a: 1, b: 2 }), await tools["sub_one"]({ n: 3 }), await tools.call("add", { a: 2, b: 2 }), await tools.everybody()
  ],
  members_of_tools: async ({ tools }) =>
    [(await tools) === tools, JSON.stringify(tools), typeof tools.anything, typeof tools.then, Object.keys(tools)],
  bytes: async ({ tools }) => {
    const { sum, text, none } = await tools.bytes({ a: Uint8Array.of(1, 255), list: [Uint8Array.of(0)], text: "bytes 0" });
    const whole = await tools.call("whole", Uint8Array.of(7));
    return [sum instanceof Uint8Array, [...sum], text, none instanceof Uint8Array, none.length, whole instanceof Uint8Array, [...whole]];
  },
  type_of_tools: (ctx) => typeof ctx.tools,
  outer: async ({ tools }) => { await tools.caller({ name: "add", input: { a: 1, b: 1 } }); await tools.fails().catch(() => {}); },
  fails: ({ tools }) => tools.fails(),
  fans: async ({ tools }) =>
    (await Promise.allSettled(Array.from({ length: 15 }, () => tools.fan({ name: "leaf", times: 15 })))).length,
  late: async ({ tools }) => { await tools.gate({}); return await tools.add({ a: 1, b: 1 }); },
  logs: async ({ tools }, { a }) => { console.log("in"); return await tools.add({ a, b: 1 }); },
};
export default ({ how, ...input }, ctx) => HOW[how](ctx, input);`;
/** Calls the first of the tools in its input, which calls the next one. */
const CHAIN = `export default async ({ next: [name, ...next] }, { tools }) => (name === undefined ? 0 : (await tools[name]({ next })) + 1);`;

async function open(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  return glovebox;
}
const add = (
  glovebox: Glovebox,
  name: string,
  source = CALLER,
  tools: JsonValue = true,
  limits: PartialLimits = {},
  tenantId = "acme",
) => glovebox.addTool({ name, source, overrides: { capabilities: { tools }, limits } }, { tenantId });
const run = (glovebox: Glovebox, toolName: string, args: unknown, context: CallContext = {}): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, { tenantId: "acme", ...context });

let glovebox: Glovebox;
beforeAll(async () => {
  const hide = defineCapability({
    name: "hide",
    inputSchema: {},
    outputSchema: {},
    handler: (_input, { redact }) => {
      redact("KEY", "value-that-is-secret");
      return "value-that-is-secret";
    },
  });
  // Some tools fail often here.
  glovebox = await makeGlovebox({ tenancy: "multi", health: false, capabilities: [hide] });
  await add(glovebox, "caller");
  await add(glovebox, "various", VARIOUS);
  await add(glovebox, "add", ADD);
  await add(glovebox, "some", CALLER, ["add", "sub_*"]);
  await add(glovebox, "none", CALLER, []);
  await add(glovebox, "sub_one", "export default ({ n }) => n - 1");
  await add(
    glovebox,
    "who",
    "export default (input, ctx) => ({ callId: ctx.callId, tenantId: ctx.tenantId, asks: Object.keys(ctx) })",
  );
  await add(glovebox, "fails", 'export default () => { throw new Error("no such file /etc/shadow") }');
  await glovebox.addTool({ name: "zeta_only", source: "export default () => 1" }, { tenantId: "zeta" });
  await glovebox.addTool({ name: "everybody", source: "export default () => 2" }, { scope: "global" });
  const echo: HostFunction = (input, { tenantId, executionId }) => ({
    input,
    tenantId,
    executionId: executionId ?? null,
  });
  glovebox.router.register("host-function", {}, echo, { scope: "global" });
});
afterAll(() => glovebox.close());

describe("ctx.tools", () => {
  test("forwards log lines of nested calls to the outer call's onLog, with their call ids", async () => {
    const source = `export default async ({ next: [to, ...next] }, { tools, log }) => {
      if (to === undefined) { console.error("deep"); return 1; }
      console.log("before " + to); await tools[to]({ next }); log.warn("after " + to, { n: 1 });
    }`;
    for (const name of ["first", "middle", "inner"]) await add(glovebox, name, source);
    const logged: unknown[] = [];
    const result = await run(
      glovebox,
      "first",
      { next: ["middle", "inner"] },
      {
        logSourceLocations: true,
        onLog: ({ level, message, callId, place }) =>
          logged.push([level, message, callId ?? null, place !== undefined]),
      },
    );
    expect(logged).toEqual([
      ["info", "before middle", null, true],
      ["info", "before inner", "c1.1", true],
      ["error", "deep", "c1.1.1", true],
      ["warn", "after inner", "c1.1", false],
      ["warn", "after middle", null, false],
    ]);
    expect(result.logs.map(({ message }) => message)).toEqual(["before middle", "after middle"]);
  });

  test("redacts secrets of the outer call in forwarded log lines", async () => {
    const source = `export default async ({ key }, ctx) => {
      if (key === undefined) return await ctx.tools.sees({ key: await ctx.hide() });
      console.log("got", key); ctx.log("got", { key });
    }`;
    const overrides = { capabilities: { tools: true } };
    await glovebox.addTool({ name: "hides", source, overrides }, { tenantId: "acme", grant: ["hide"] });
    await add(glovebox, "sees", source);
    const logged: string[] = [];
    await run(glovebox, "hides", {}, { onLog: (entry) => logged.push(JSON.stringify(entry)) });
    expect(logged).toHaveLength(2);
    for (const line of logged) expect(line).toMatch(/got.*\[redacted:KEY\].*"callId":"c1\.1"/);
  });

  test("calls another tool by name, as a member or by call(), host functions too", async () => {
    expect(outputOf(await run(glovebox, "various", { how: "members" }))).toEqual([{ sum: 3 }, 2, { sum: 4 }, 2]);
    const context = { executionId: "e7" };
    const seen = outputOf(await run(glovebox, "caller", { name: "host-function", input: { x: 1 } }, context));
    expect(seen).toEqual({ input: { x: 1 }, tenantId: "acme", executionId: "e7" });
  });

  test("passes bytes as bytes in both directions, at any depth", async () => {
    const twice =
      "export default ({ a, list: [b], text }) => ({ sum: Uint8Array.of(...a, ...b), text, none: new Uint8Array(0) })";
    await add(glovebox, "bytes", twice);
    await add(glovebox, "whole", "export const inputSchema = {}; export default (bytes) => bytes");
    const seen = outputOf(await run(glovebox, "various", { how: "bytes" }));
    expect(seen).toEqual([true, [1, 255, 0], "bytes 0", true, 0, true, [7]]);
  });

  test("returns the content of a tool that has no output, with its bytes", async () => {
    const resource = { type: "resource", resource: { uri: "file:///a.txt", text: "a file" } };
    const image = { type: "image", data: Uint8Array.of(1, 2), mimeType: "image/png" };
    const content = (output: JsonValue) => () => ({ output, [Symbol.for(CONTENT_KEY)]: [resource, image] });
    glovebox.router.register("content", {}, content(null) as unknown as HostFunction, { scope: "global" });
    glovebox.router.register("both", {}, content({ n: 1 }) as unknown as HostFunction, { scope: "global" });
    expect(outputOf(await run(glovebox, "caller", { name: "content" }))).toEqual({ content: [resource, image] });
    expect(outputOf(await run(glovebox, "caller", { name: "both" }))).toEqual({ n: 1 });
  });

  test("is an ordinary object for await, JSON and String", async () => {
    const seen = outputOf(await run(glovebox, "various", { how: "members_of_tools" }));
    expect(seen).toEqual([true, "{}", "function", "undefined", ["call"]]);
  });

  test("runs the other tool as the same tenant, with its own grants and a name that tells whose it is", async () => {
    expect(outputOf(await run(glovebox, "caller", { name: "who" }))).toMatchObject({
      callId: "c1.1",
      tenantId: "acme",
    });
    await glovebox.addTool({ name: "ungranted", source: VARIOUS }, { tenantId: "acme" });
    const input = { how: "type_of_tools" };
    expect(outputOf(await run(glovebox, "caller", { name: "various", input }))).toBe("object");
    expect(outputOf(await run(glovebox, "caller", { name: "ungranted", input }))).toBe("undefined");
  });

  test.for<[string, string, string, RegExp]>([
    ["some", "who", "CAPABILITY_DENIED", /^some may not call "who"; it may call \["add","sub_\*"\]$/],
    ["none", "add", "CAPABILITY_DENIED", /^none may not call "add"; it may call \[\]$/],
    ["caller", "nobody", "TOOL_UNAVAILABLE", /^nobody: There is no tool named "nobody"/],
    ["caller", "zeta_only", "TOOL_UNAVAILABLE", /^zeta_only: There is no tool named "zeta_only"/],
    ["caller", "__proto__", "TOOL_UNAVAILABLE", /There is no tool named "__proto__"/],
    ["caller", "", "PARAM_INVALID", /^The input of capability tools: /],
    ["caller", "fails", "TOOL_FAILED", /^fails: no such file/],
  ])("%s cannot call %j: %s", async ([toolName, name, code, message]) => {
    const result = await run(glovebox, toolName, { name, input: { a: 1, b: 2 } });
    const caught = outputOf(result) as { readonly message: string };
    expect(caught).toMatchObject({ name: "CapabilityError", code });
    expect(caught.message).toMatch(message);
  });

  test.for(["add", "sub_one", "sub_"])("some may call %s", async (name) => {
    const seen = outputOf(await run(glovebox, "some", { name, input: { a: 1, b: 2, n: 1 } }));
    expect((seen as { readonly code?: string } | number | null) ?? {}).not.toMatchObject({ code: "CAPABILITY_DENIED" });
  });

  test("passes on the error of the nested tool's schema", async () => {
    const source = `export const inputSchema = { type: "object", required: ["n"] }; export default ({ n }) => n`;
    await add(glovebox, "strict", source);
    expect(outputOf(await run(glovebox, "caller", { name: "strict", input: {} }))).toMatchObject({
      code: "PARAM_INVALID",
    });
  });

  test("denies calls if it was not granted", async () => {
    const source = `export const capabilities = { tools: true }; ${CALLER}`;
    await glovebox.addTool({ name: "asks", source }, { tenantId: "acme" });
    expect(outputOf(await run(glovebox, "asks", { name: "add" }))).toMatchObject({ code: "CAPABILITY_DENIED" });
    await glovebox.addTool(
      { name: "narrowed", source: source.replace("tools: true", 'tools: ["sub_*"]') },
      { tenantId: "acme", grant: ["tools"] },
    );
    expect(outputOf(await run(glovebox, "narrowed", { name: "add" }))).toMatchObject({ code: "CAPABILITY_DENIED" });
    expect(outputOf(await run(glovebox, "narrowed", { name: "sub_one", input: { n: 2 } }))).toBe(1);
  });
});

describe("a result", () => {
  test("lists the nested calls of its tool, and theirs", async () => {
    const result = await run(glovebox, "various", { how: "outer" });
    expectPublishable(result);
    const facts = { durationMs: expect.any(Number), cpuMs: expect.any(Number) };
    expect(result.calls).toEqual([
      {
        callId: "c1.1",
        toolName: "caller",
        code: "ok",
        ...facts,
        calls: [{ callId: "c1.1.1", toolName: "add", code: "ok", ...facts }],
      },
      { callId: "c1.2", toolName: "fails", code: "TOOL_FAILED", ...facts },
    ]);
    expect(await run(glovebox, "add", { a: 1, b: 1 })).not.toHaveProperty("calls");
  });

  test("a result of a call that failed because of a nested call names the chain", async () => {
    const input = { how: "fails" };
    const error = errorOf(await run(glovebox, "caller", { name: "various", input, catches: false }));
    expect(error).toMatchObject({ code: "TOOL_FAILED", message: "various: fails: no such file /etc/shadow" });
    expect(error.details).toMatchObject({ capabilityCode: "TOOL_FAILED", trace: ["caller", "various", "fails"] });
  });
});

describe("a cycle", () => {
  test("is rejected with its chain, both direct and through other tools", async () => {
    for (const name of ["a", "b", "self"]) await add(glovebox, name, CHAIN);
    const error = errorOf(await run(glovebox, "a", { next: ["b", "a"] }));
    expect([error.code, error.details?.trace]).toEqual(["CAPABILITY_DENIED", ["a", "b", "a"]]);
    expect(error.message).toBe("b: The tools call each other in a cycle: a → b → a");
    const own = errorOf(await run(glovebox, "self", { next: ["self"] }));
    expect(own.message).toBe("The tools call each other in a cycle: self → self");
  });

  test("is allowed as often as the host configures", async () => {
    const circle = await open({ limits: { nestedRepeats: 2 } });
    await add(circle, "down", CHAIN);
    const down = (times: number): object => ({ next: Array.from({ length: times }, () => "down") });
    expect(outputOf(await run(circle, "down", down(2)))).toBe(2);
    expect(errorOf(await run(circle, "down", down(3))).details?.trace).toEqual(["down", "down", "down", "down"]);
    await add(circle, "once", CHAIN, true, { nestedRepeats: 1 });
    expect(codeOf(await run(circle, "once", { next: ["once", "once"] }))).toBe("CAPABILITY_DENIED");
  });
});

describe("limits of nested calls", () => {
  test("nestedDepth limits their depth", async () => {
    const source = `export default async ({ n }, { tools }) =>
      ["t" + n, await tools["t" + (n + 1)]({ n: n + 1 }).catch((e) => e.code + " " + e.message)]`;
    for (const name of ["t0", "t1", "t2", "t3"]) await add(glovebox, name, source, true, { nestedDepth: 2 });
    expect(outputOf(await run(glovebox, "t0", { n: 0 }))).toEqual([
      "t0",
      ["t1", ["t2", "QUOTA_EXCEEDED Calls can be nested 2 deep at most (limits.nestedDepth): t0 → t1 → t2 → t3"]],
    ]);
  });

  test("nestedCalls limits the number of calls that one call causes, direct or not", async () => {
    await add(glovebox, "leaf", "export default () => 1");
    await add(glovebox, "fan", CALLER, true, { nestedCalls: 20 });
    await add(glovebox, "bomb", VARIOUS, true, { nestedCalls: 20 });
    const result = await run(glovebox, "bomb", { how: "fans" });
    expect(codeOf(result)).toBe("ok");
    const count = (calls: ToolResult["calls"] = []): number =>
      calls.reduce((sum, one) => sum + 1 + count(one.calls), 0);
    expect(count(result.calls)).toBeLessThanOrEqual(20);
    const direct = outputOf(await run(glovebox, "fan", { name: "leaf", times: 21 })) as readonly JsonValue[];
    expect(direct.filter((one) => one === 1)).toHaveLength(20);
    expect(JSON.stringify(direct)).toContain(
      "A call can cause 20 nested calls at most (limits.nestedCalls): fan → leaf",
    );
  });

  test("cannot be raised by a tool: the lowest limit of a chain applies", async () => {
    await add(glovebox, "modest", CALLER, true, { nestedCalls: 0 });
    expect(outputOf(await run(glovebox, "modest", { name: "add" }))).toMatchObject({ code: "QUOTA_EXCEEDED" });
    expect(outputOf(await run(glovebox, "caller", { name: "modest", input: { name: "add" } }))).toMatchObject({
      code: "QUOTA_EXCEEDED",
    });
  });
});

describe("the caller's time", () => {
  const SLEEPS = "export default ({ ms }) => new Promise((resolve) => setTimeout(() => resolve('awake'), ms))";

  test("a nested call has no more time than its caller has left", async () => {
    await add(glovebox, "sleeps", SLEEPS);
    // The sleep alone would last longer than the test may.
    const result = await run(glovebox, "caller", { name: "sleeps", input: { ms: 600_000 } }, { timeoutMs: 700 });
    expect(codeOf(result)).toBe("TOOL_TIMEOUT");
  });

  test("ends the caller by its own clock, not by the other's, whether or not it catches the error", async () => {
    glovebox.router.register("waits", {}, () => new Promise(() => {}), { scope: "global" });
    const timeouts = Array.from({ length: 8 }, (_, index) => 5_000 + 21 * index);
    const messages = await Promise.all(
      [true, false].flatMap((catches) =>
        timeouts.map(async (timeoutMs) => {
          const result = await run(glovebox, "caller", { name: "waits", catches }, { timeoutMs });
          return result.success ? result.output : result.error.message;
        }),
      ),
    );
    const expected = timeouts.map((ms) => `caller did not finish within ${ms} ms (limits.timeoutMs) and was stopped`);
    expect(messages).toEqual([...expected, ...expected]);
  });

  test.for<[string, string, HostFunction]>([
    ["leaves the clock paused", "leaves", (_input, { holdClock }) => void holdClock()],
    ["pauses the clock after its call", "late", (_input, { holdClock }) => void setImmediate(holdClock)],
  ])("goes on after a call of a host function that %s", async ([, name, holds]) => {
    glovebox.router.register(`${name}_holds`, {}, holds, { scope: "global" });
    glovebox.router.register(`${name}_never`, {}, () => new Promise(() => {}), { scope: "global" });
    const source = `export default async (_input, { tools }) => {
      await tools.${name}_holds();
      await tools.${name}_never().catch(() => {});
      return "without a limit";
    }`;
    await add(glovebox, name, source);
    expect(codeOf(await run(glovebox, name, {}, { timeoutMs: 2_000 }))).toBe("TOOL_TIMEOUT");
  });

  test("does not extend the other's own limit, after which the caller goes on", async () => {
    await add(glovebox, "short", SLEEPS, true, { timeoutMs: 100 });
    expect(outputOf(await run(glovebox, "caller", { name: "short", input: { ms: 20_000 } }))).toMatchObject({
      code: "TOOL_TIMEOUT",
    });
  });

  test("ends the other when it is cancelled", async () => {
    let ended = "";
    const begun = Promise.withResolvers<void>();
    const waits: HostFunction = async (_input, { signal }) => {
      begun.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      ended = String((signal.reason as { readonly code?: string }).code);
    };
    glovebox.router.register("cancelled", {}, waits, { scope: "global" });
    const controller = new AbortController();
    const running = run(glovebox, "caller", { name: "cancelled" }, { signal: controller.signal });
    await begun.promise;
    controller.abort();
    expect(codeOf(await running)).toBe("CANCELLED");
    await expect.poll(() => ended).toBe("CANCELLED");
  });
});

describe("places in the queue", () => {
  /** One process, for several tenants with limits of their own. */
  let one: Glovebox;
  const tenants = {
    single: { limits: { maxConcurrentCalls: 1, maxQueuedCalls: 0 } },
    queue: { limits: { maxConcurrentCalls: 1 } },
    two: { limits: { maxConcurrentCalls: 2 } },
  };
  beforeAll(async () => {
    one = await makeGlovebox({ tenancy: "multi", placement: "shared", workers: { max: 1 }, tenants });
    for (const name of ["t0", "t1", "t2", "t3"]) await add(one, name, CHAIN, true, {}, "single");
    for (const tenantId of ["queue", "acme"]) await add(one, "caller", CALLER, true, {}, tenantId);
    const leaf = "export default () => new Promise((resolve) => setTimeout(() => resolve(1), 20))";
    for (const tenantId of ["queue", "acme"]) await add(one, "leaf", leaf, true, {}, tenantId);
    // Each tool's own limit is one: the first waits for the second's place, and the second for the first's.
    for (const name of ["ping", "pong"]) await add(one, name, CHAIN, true, { maxConcurrentCalls: 1 }, "two");
  });
  afterAll(() => one.close());

  test("a tenant that may run one call at a time can call from it, three deep", async () => {
    for (let time = 0; time < 2; time += 1) {
      expect(outputOf(await run(one, "t0", { next: ["t1", "t2", "t3"] }, { tenantId: "single" }))).toBe(3);
    }
  });

  test("parallel nested calls run one after another", async () => {
    const started = performance.now();
    const context = { tenantId: "queue" };
    expect(outputOf(await run(one, "caller", { name: "leaf", times: 8 }, context))).toEqual(Array(8).fill(1));
    expect(performance.now() - started).toBeGreaterThan(8 * 20);
  });

  test("two callers that hold all slots do not wait for each other", async () => {
    const context = { tenantId: "two" };
    const calls = [run(one, "ping", { next: ["pong"] }, context), run(one, "pong", { next: ["ping"] }, context)];
    expect((await Promise.all(calls)).map(outputOf)).toEqual([1, 1]);
  });

  test("as many callers as a process takes can all call", async () => {
    const many = Array.from({ length: 20 }, () => run(one, "caller", { name: "leaf" }, { timeoutMs: 120_000 }));
    expect((await Promise.all(many)).map(codeOf)).toEqual(Array(20).fill("ok"));
  });
});

test("a tool that ends its process ends its caller's call, and the next caller gets an error", async () => {
  // V8 needs 12 s to get there on a slow machine.
  const own = await open({ limits: { timeoutMs: 300_000, cpuMs: 300_000 } });
  await add(own, "caller");
  await add(own, "dies", "export default () => 'a'.repeat(32768).replace(/a/g, '$&'.repeat(16384)).length");
  const first = await run(own, "caller", { name: "dies" });
  expect(["SANDBOX_CRASHED", "ok"]).toContain(codeOf(first));
  const second = await run(own, "caller", { name: "dies" });
  expect(outputOf(second)).toMatchObject({ code: expect.stringMatching(/SANDBOX_CRASHED|MEMORY_LIMIT/) });
});

test("a draining host lets running calls make nested calls", async () => {
  const own = await open();
  await add(own, "late", VARIOUS);
  await add(own, "add", ADD);
  const begun = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<null>();
  const gate: HostFunction = () => {
    begun.resolve();
    return opened.promise;
  };
  own.router.register("gate", {}, gate, { scope: "global" });
  const running = run(own, "late", { how: "late" });
  await begun.promise;
  const closing = own.close({ drainMs: 60_000 });
  expect(codeOf(await run(own, "add", { a: 1, b: 1 }))).toBe("TOOL_UNAVAILABLE");
  opened.resolve(null);
  await closing;
  expect(outputOf(await running)).toEqual({ sum: 2 });
});

describe("context.nestedCalls", () => {
  test("receives each nested call at any depth, with its arguments and its result", async () => {
    const started: NestedCallStart[] = [];
    const ended: [NestedCallStart, ToolResult][] = [];
    const nestedCalls = {
      onStart: (call: NestedCallStart) => void started.push(call),
      onEnd: (call: NestedCallStart, result: ToolResult) => ended.push([call, result]),
    };
    const input = { how: "logs", a: 2 };
    const result = await run(glovebox, "caller", { name: "various", input }, { nestedCalls });
    expect(outputOf(result)).toEqual({ sum: 3 });
    expect(started).toMatchObject([
      { callId: "c1.1", toolName: "various", parentCallId: "c1", arguments: input, startedAt: expect.any(Number) },
      { callId: "c1.1.1", toolName: "add", parentCallId: "c1.1", arguments: { a: 2, b: 1 } },
    ]);
    expect(ended).toMatchObject([
      [{ callId: "c1.1.1" }, { callId: "c1.1.1", success: true, output: { sum: 3 } }],
      [{ callId: "c1.1" }, { callId: "c1.1", logs: [{ message: "in" }], usage: { cpuMs: expect.any(Number) } }],
    ]);
  });

  test("onStart denies a call with its ToolError, and with INTERNAL for anything else", async () => {
    const denials: readonly [() => void | Promise<void>, string][] = [
      [() => Promise.reject(new ToolError("APPROVAL_REQUIRED", "ask first")), "APPROVAL_REQUIRED"],
      [
        () => {
          throw new TypeError("secret of the host");
        },
        "INTERNAL",
      ],
    ];
    for (const [onStart, code] of denials) {
      const onEnd = vi.fn();
      const result = await run(
        glovebox,
        "caller",
        { name: "add", input: { a: 1, b: 2 } },
        { nestedCalls: { onStart, onEnd } },
      );
      expect(outputOf(result)).toMatchObject({ code });
      expect(JSON.stringify(result)).not.toContain("secret of the host");
      expect(onEnd).not.toHaveBeenCalled();
    }
  });

  test("a throwing onEnd changes nothing, and an onStart that never settles ends with its call", async () => {
    const throwing = {
      onEnd: () => {
        throw new Error("x");
      },
    };
    expect(
      outputOf(await run(glovebox, "caller", { name: "add", input: { a: 1, b: 2 } }, { nestedCalls: throwing })),
    ).toEqual({
      sum: 3,
    });
    const nestedCalls = { onStart: () => new Promise<void>(() => {}) };
    const input = { name: "add", input: {} };
    // The caller, which catches the errors of its calls, never receives one of a call that has the same deadline as itself.
    const calls = Array.from({ length: 8 }, () => run(glovebox, "caller", input, { nestedCalls, timeoutMs: 1_000 }));
    expect(new Set((await Promise.all(calls)).map(codeOf))).toEqual(new Set(["TOOL_TIMEOUT"]));
  });

  test.for([[1], [{ onstart: () => {} }], [{ onStart: 1 }]])("rejects %o", async ([nestedCalls]) => {
    expect(codeOf(await run(glovebox, "add", { a: 1, b: 2 }, { nestedCalls } as never))).toBe("PARAM_INVALID");
  });
});
