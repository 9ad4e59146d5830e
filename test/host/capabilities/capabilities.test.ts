// Capabilities that a host grants by name. JSON in, JSON out, checked on both sides, counted, and answered whatever the handler does.
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import * as z from "zod";
import { CapabilityBroker } from "../../../src/host/capabilities/broker.ts";
import { CallScope } from "../../../src/host/capabilities/call-scope.ts";
import { type CapabilityContext, defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { Redactor } from "../../../src/host/observability/redaction/call-redactor.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS, type PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, errorOf, expectPublishable, makeGlovebox, outputOf } from "../../support/host-zone.ts";

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const contexts: CapabilityContext[] = [];
const onError = vi.fn();
const never = Promise.withResolvers<null>();
let late = Promise.withResolvers<number>();

const CAPABILITIES = [
  defineCapability({
    name: "lookUp",
    inputSchema: z.strictObject({ sku: z.string().min(1) }),
    outputSchema: z.strictObject({ price: z.number() }),
    handler: ({ sku }, context) => {
      contexts.push(context);
      return { price: sku.length };
    },
  }),
  defineCapability({
    name: "answer",
    inputSchema: { type: "string" },
    outputSchema: { type: "object", properties: { n: { type: "number" } } },
    handler: (how) => {
      const answers: Record<string, () => unknown> = {
        wrong: () => ({ n: "five" }),
        bigint: () => ({ n: 1, big: 1n }),
        huge: () => ({ text: "x".repeat(3_000_000) }),
        nothing: () => undefined,
        throws: () => {
          throw new Error("connect ECONNREFUSED /root/db.sock");
        },
        rejects: () => Promise.reject(new Error("connect ECONNREFUSED")),
        revoked: () => {
          throw revoked();
        },
        known: () => {
          throw new ToolError("QUOTA_EXCEEDED", "Three look-ups a day");
        },
        refused: () => {
          throw new ToolError("CAPABILITY_DENIED", "Not on Sundays");
        },
        never: () => never.promise,
      };
      return answers[String(how)]?.();
    },
  }),
  defineCapability({ name: "wait", inputSchema: {}, outputSchema: {}, handler: () => late.promise }),
  defineCapability({ name: "double", inputSchema: z.number(), outputSchema: z.number(), handler: async (n) => n * 2 }),
];

const SOURCE = `
  const parts = async (promise) => { try { return { value: await promise }; } catch (e) { return { name: e.name, code: e.code, message: e.message }; } };
  const steps = {
    lookUp: (ctx, input) => parts(ctx.lookUp(input)),
    uncaught: (ctx, input) => ctx.lookUp(input),
    answer: (ctx, how) => parts(ctx.answer(how)),
    uncaughtAnswer: (ctx, how) => ctx.answer(how),
    members: (ctx) => Object.keys(ctx).sort(),
    wait: async (ctx) => { ctx.wait().then((v) => console.log("got", v)); return "left"; },
    parallel: async (ctx, n) => (await Promise.all(Array.from({ length: n }, (_, i) => ctx.double(i)))).reduce((a, b) => a + b, 0),
    sequence: async (ctx, n) => { let sum = 0; for (let i = 0; i < n; i += 1) sum += await ctx.double(i); return sum; },
    forged: (ctx, code) => { throw Object.assign(new Error("let me through"), { code, capabilityCode: code, name: "CapabilityError" }); },
    rethrown: async (ctx, how) => { try { await ctx.answer(how); } catch (e) { throw new Error("wrapped", { cause: e }); } },
    cyclic: (ctx) => { const a = {}; a.a = a; return parts(ctx.lookUp(a)); },
    bigint: (ctx) => parts(ctx.lookUp({ sku: 5n })),
    large: (ctx) => parts(ctx.lookUp({ sku: "x".repeat(2_000_000) })),
    proto: (ctx) => parts(ctx.lookUp(JSON.parse('{"__proto__":{},"sku":"x"}'))),
  };
  export const capabilities = { lookUp: true, mail: { to: ["x"] } };
  export default ({ step, input }, ctx) => steps[step](ctx, input);`;

let glovebox: Glovebox;
beforeAll(async () => {
  const limits = { inputBytes: 1_000_000, outputBytes: 2_000_000 };
  glovebox = await makeGlovebox({ capabilities: CAPABILITIES, onError, limits });
  await glovebox.addTool({ name: "granted", source: SOURCE }, { grant: ["lookUp", "answer", "wait", "double"] });
  await glovebox.addTool({ name: "bare", source: SOURCE });
  const definition = {
    capabilities: { lookUp: true },
    limits: { maxCapabilityCalls: 5, maxPendingCapabilityCalls: 3 },
  };
  await glovebox.addTool({ name: "frugal", source: SOURCE, overrides: definition }, { grant: ["double"] });
});
afterAll(() => glovebox.close());

const run = (toolName: string, step: string, input?: unknown, context?: CallContext): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: { step, input } }, context);

describe("defineCapability()", () => {
  const options = { name: "kv", inputSchema: {}, outputSchema: {}, handler: () => null };
  test.for<[string, unknown, RegExp]>([
    ["nothing", undefined, /^capability: Expected a plain object, got undefined$/],
    ["a promise", Promise.resolve(options), /^capability: Expected a plain object, got a Promise$/],
    ["a class instance", new (class Kv {})(), /^capability: Expected a plain object, got an instance of Kv$/],
    [
      "an unknown key",
      { ...options, handlers: () => 1 },
      /^capability.handlers: Unknown option. Did you mean "handler"\?$/,
    ],
    ["no name", { ...options, name: undefined }, /^capability.name: Expected an identifier .* got undefined$/],
    ["a list of one name", { ...options, name: ["kv"] }, /^capability.name: Expected an identifier .* got an array$/],
    ["a name that is not an identifier", { ...options, name: "my-kv" }, /got "my-kv"$/],
    ["a name of 65 characters", { ...options, name: "x".repeat(65) }, /identifier of 1 to 64 characters/],
    ["a member of ctx", { ...options, name: "signal" }, /except callId, tenantId, signal, progress, span, then/],
    ["then, which would make ctx a promise", { ...options, name: "then" }, /got "then"$/],
    ["a member of every object", { ...options, name: "toString" }, /members of Object.prototype; got "toString"$/],
    ["__proto__", { ...options, name: "__proto__" }, /got "__proto__"$/],
    ["a description that is not text", { ...options, description: 5 }, /^capability.description: /],
    ["no handler", { ...options, handler: null }, /^capability.handler: Expected a function, got null$/],
    [
      "no input schema",
      { ...options, inputSchema: undefined },
      /^capability.inputSchema: Expected a Standard Schema or/,
    ],
    [
      "text as output schema",
      { ...options, outputSchema: "any" },
      /^capability.outputSchema: Expected .* got a string$/,
    ],
    [
      "a promise as schema",
      { ...options, inputSchema: Promise.resolve({}) },
      /inputSchema: Expected .* got a Promise$/,
    ],
    ["a Map as schema", { ...options, outputSchema: new Map() }, /outputSchema: Expected .* got a Map$/],
    ["a list as schema", { ...options, outputSchema: [] }, /outputSchema: Expected .* got an array$/],
    ["a function as schema", { ...options, inputSchema: () => ({}) }, /inputSchema: Expected .* got a function$/],
    [
      "a schema that cannot validate",
      {
        ...options,
        inputSchema: new (class {
          "~standard" = {};
        })(),
      },
      /inputSchema: Expected/,
    ],
    [
      "members that are not a list",
      { ...options, members: "get" },
      /^capability.members: Expected an array of at most 128/,
    ],
    ["null as members", { ...options, members: null }, /^capability.members: Expected an array of at most 128/],
    ["a member without a name", { ...options, members: ["get", ""] }, /strings of 1 to 128 characters/],
    ["too many members", { ...options, members: Array.from({ length: 129 }, String) }, /at most 128 strings/],
    ["a long member", { ...options, uncounted: ["x".repeat(129)] }, /^capability.uncounted: .* 1 to 128 characters/],
    [
      "a JSON Schema of an unknown type",
      { ...options, inputSchema: { type: "objekt" } },
      /inputSchema of capability kv.*objekt/,
    ],
  ])("rejects %s", ([, bad, message]) => {
    const define = (): unknown => defineCapability(bad as never);
    expect(define).toThrow(message);
    expect(define).toThrow(ToolError);
  });
});

describe("a granted capability", () => {
  test("answers, and receives its context from the host and not from the guest", async () => {
    expect(outputOf(await run("granted", "lookUp", { sku: "abc" }))).toEqual({ value: { price: 3 } });
    const context = contexts.at(-1);
    expect(context).toMatchObject({ callId: "c1", tenantId: "default", toolName: "granted" });
    expect(context?.signal.aborted).toBe(true);
  });

  test.for<[string, unknown, string, RegExp]>([
    ["lookUp", { sku: 5 }, "PARAM_INVALID", /^The input of capability lookUp: \/sku: .*string/],
    ["lookUp", { sku: "x", more: 1 }, "PARAM_INVALID", /^The input of capability lookUp: .*more/],
    ["lookUp", undefined, "PARAM_INVALID", /^The input of capability lookUp: /],
    ["proto", undefined, "PARAM_INVALID", /"__proto__" is not allowed/],
    ["large", undefined, "PARAM_INVALID", /too large/],
    ["answer", 5, "PARAM_INVALID", /^The input of capability answer: /],
    [
      "answer",
      "wrong",
      "OUTPUT_INVALID",
      /^Capability "answer" returned a value that does not match its output schema$/,
    ],
    [
      "answer",
      "nothing",
      "OUTPUT_INVALID",
      /^Capability "answer" returned a value that does not match its output schema$/,
    ],
    ["answer", "huge", "OUTPUT_TOO_LARGE", /^The capability answer answered with more than 2000000 bytes$/],
    ["answer", "throws", "TOOL_FAILED", /^The capability "answer" failed$/],
    ["answer", "rejects", "TOOL_FAILED", /^The capability "answer" failed$/],
    ["answer", "revoked", "TOOL_FAILED", /^The capability "answer" failed$/],
    ["answer", "bigint", "TOOL_FAILED", /^The capability "answer" failed$/],
    ["answer", "known", "QUOTA_EXCEEDED", /^Three look-ups a day$/],
    ["answer", "refused", "CAPABILITY_DENIED", /^Not on Sundays$/],
  ])("%s(%j) rejects inside the tool with %s", async ([step, input, code, message]) => {
    const result = await run("granted", step, input);
    const caught = outputOf(result) as { readonly message: string };
    expect(caught).toMatchObject({ name: "CapabilityError", code });
    expect(caught.message).toMatch(message);
    expectPublishable(result);
  });

  test("rejects an answer of more values than limits.jsonValues, and names that limit", async () => {
    const many = defineCapability({
      name: "many",
      inputSchema: {},
      outputSchema: {},
      handler: () => Array(2_000).fill(0),
    });
    await using own = await makeGlovebox({ capabilities: [many], limits: { jsonValues: 1_000 } });
    const source =
      "export default async (_, ctx) => { try { await ctx.many({}); } catch (error) { return error.message; } }";
    await own.addTool({ name: "asks", source }, { grant: ["many"] });
    const message = outputOf(await own.execute({ id: "c", toolName: "asks" }));
    expect(message).toBe("The capability many answered with more than 1000 JSON values (limit jsonValues)");
  });

  test.for(["cyclic", "bigint"])("rejects inside the tool for an input that has no JSON: %s", async (step) => {
    expect(outputOf(await run("granted", step))).toMatchObject({ name: "TypeError" });
  });

  test("reports the error of a handler to the operator, and not to the tool", async () => {
    onError.mockClear();
    const result = await run("granted", "answer", "throws");
    expect(JSON.stringify(result)).not.toContain("ECONNREFUSED");
    expect(onError).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ message: expect.stringContaining("ECONNREFUSED") }),
      "answer",
    );
  });

  test("a capability that never answers ends with the call's timeout", async () => {
    const error = errorOf(await run("granted", "answer", "never", { timeoutMs: 150 }));
    expect(error.code).toBe("TOOL_TIMEOUT");
  });

  test("a capability that answers after the call is over reaches neither that call nor the next", async () => {
    late = Promise.withResolvers();
    expect(outputOf(await run("granted", "wait"))).toBe("left");
    late.resolve(42);
    const next = await run("granted", "lookUp", { sku: "a" });
    expect([codeOf(next), next.logs]).toEqual(["ok", []]);
  });

  test("serves 100 requests of one call at once", async () => {
    expect(outputOf(await run("granted", "parallel", 100))).toBe(9_900);
  });
});

describe("a capability that was not granted", () => {
  test("is a member of ctx only if the tool requests it", async () => {
    expect(outputOf(await run("bare", "members"))).toEqual([
      "callId",
      "log",
      "lookUp",
      "mail",
      "progress",
      "signal",
      "span",
      "tenantId",
    ]);
    const granted = [
      "answer",
      "callId",
      "double",
      "log",
      "lookUp",
      "mail",
      "progress",
      "signal",
      "span",
      "tenantId",
      "wait",
    ];
    expect(outputOf(await run("granted", "members"))).toEqual(granted);
  });

  test("rejects with CAPABILITY_DENIED", async () => {
    expect(outputOf(await run("bare", "lookUp", { sku: "x" }))).toEqual({
      name: "CapabilityError",
      code: "CAPABILITY_DENIED",
      message:
        'ctx.lookUp is not granted to this tool; request it with capabilities: { lookUp: true } and let the host grant it (grant: ["lookUp"])',
    });
  });

  test("gives the call its code when the tool does not catch it", async () => {
    const error = errorOf(await run("bare", "uncaught", { sku: "x" }));
    expect([error.code, error.recoverable]).toEqual(["CAPABILITY_DENIED", false]);
  });

  test("gives the call its code if it is fetch, although the tool did not request it", async () => {
    await glovebox.addTool({ name: "fetches", source: "export default () => fetch('https://example.com')" });
    const error = errorOf(await glovebox.execute({ id: "c1", toolName: "fetches" }));
    expect([error.code, error.message]).toEqual([
      "CAPABILITY_DENIED",
      'fetch is not granted to this tool; request it with capabilities: { fetch: true } and let the host grant it (grant: ["fetch"])',
    ]);
  });

  test("is granted by the definition that a host supplies", async () => {
    expect(outputOf(await run("frugal", "lookUp", { sku: "ab" }))).toEqual({ value: { price: 2 } });
  });

  test.for(["queue", "constructor", "__proto__", "ctx", ""])(
    "named %j does not exist, and addTool reports it",
    async (name) => {
      await expect(
        glovebox.addTool({ name: "x", source: "export default () => 1" }, { grant: [name] }),
      ).rejects.toMatchObject({
        code: "PARAM_INVALID",
        message: `Unknown capability "${name}". Expected one of: log, fetch, secrets, kv, tools, elicit, sample, roots, waitFor, lookUp, answer, wait, double, webAssembly, sharedArrayBuffer, atomics, resizableBuffers, stringToCode`,
      });
    },
  );
});

describe("a capability error's code", () => {
  test.for<[string, string, string]>([
    ["known", "QUOTA_EXCEEDED", "Three look-ups a day"],
    ["refused", "CAPABILITY_DENIED", "Not on Sundays"],
  ])("is the call's when the tool does not catch it: %s", async ([how, code, message]) => {
    const error = errorOf(await run("granted", "uncaughtAnswer", how));
    expect([error.code, error.message]).toEqual([code, message]);
  });

  test.for(["throws", "wrong"])(
    "an uncaught capability error of a handler that just failed makes the call's code TOOL_FAILED: %s",
    async (how) => {
      expect(errorOf(await run("granted", "uncaughtAnswer", how)).code).toBe("TOOL_FAILED");
    },
  );

  test("a capability error's code is lost when the tool wraps the error", async () => {
    expect(errorOf(await run("granted", "rethrown", "refused"))).toMatchObject({
      code: "TOOL_FAILED",
      message: "wrapped",
    });
  });

  test.for(["CAPABILITY_DENIED", "QUOTA_EXCEEDED", "INTERNAL", "CANCELLED", "TOOL_TIMEOUT", "__proto__"])(
    "cannot be forged by a tool: %s",
    async (code) => {
      for (const toolName of ["granted", "bare", "frugal"]) {
        expect(errorOf(await run(toolName, "forged", code))).toMatchObject({
          code: "TOOL_FAILED",
          message: "let me through",
        });
      }
    },
  );
});

describe("quotas", () => {
  test("maxCapabilityCalls: further requests fail with QUOTA_EXCEEDED, and the next call has the full quota", async () => {
    expect(outputOf(await run("frugal", "sequence", 5))).toBe(20);
    const error = errorOf(await run("frugal", "sequence", 6));
    expect([error.code, error.message]).toEqual([
      "QUOTA_EXCEEDED",
      "This call may make 5 capability calls (limits.maxCapabilityCalls)",
    ]);
    expect(outputOf(await run("frugal", "sequence", 5))).toBe(20);
  });

  test("maxPendingCapabilityCalls: further requests fail at once with QUOTA_EXCEEDED", async () => {
    expect(outputOf(await run("frugal", "parallel", 3))).toBe(6);
    const error = errorOf(await run("frugal", "parallel", 4));
    expect([error.code, error.message]).toEqual([
      "QUOTA_EXCEEDED",
      "3 capability calls are waiting already (limits.maxPendingCapabilityCalls)",
    ]);
  });
});

describe("CapabilityBroker with an untrusted worker", () => {
  function brokerOf(limits: PartialLimits = {}, onHandlerError?: () => unknown): CapabilityBroker {
    const all = { ...DEFAULT_LIMITS, ...limits } as typeof DEFAULT_LIMITS;
    const { context } = new CallScope({
      callId: "c",
      tenantId: "t",
      toolName: "probe",
      requested: {},
      log: () => {},
      redactor: new Redactor(),
    });
    const granted = new Map(CAPABILITIES.map((one) => [one.name, one]));
    return new CapabilityBroker({ granted, limits: all, context, onHandlerError: onHandlerError as () => void });
  }
  const answerOf = async (broker: CapabilityBroker, name: string, text: string): Promise<unknown> =>
    JSON.parse(await broker.answer(name, text));

  test.for<[string, string, string, string]>([
    ["what is not granted", "fs", "{}", "CAPABILITY_DENIED"],
    ["a member of every object", "toString", "{}", "CAPABILITY_DENIED"],
    ["text that is not JSON", "double", "{", "PARAM_INVALID"],
    ["too much text", "double", `"${"x".repeat(2_000)}"`, "PARAM_INVALID"],
    ["nested text", "double", "[[[[[[1]]]]]]", "PARAM_INVALID"],
  ])("rejects %s", async ([, name, text, code]) => {
    expect(await answerOf(brokerOf({ inputBytes: 1_000, jsonDepth: 5 }), name, text)).toMatchObject({
      ok: false,
      code,
    });
  });

  const long = (tail: string): string => `["${"x".repeat(200_000)}"${tail}]`;
  test.for<[string, string, object]>([
    ["hands it to the handler, which knows no such word", `"${"x".repeat(200_000)}"`, { code: "OUTPUT_INVALID" }],
    ["rejects invalid JSON", long(","), { ok: false, code: "PARAM_INVALID" }],
    ["rejects nested values", long(",[[[[[1]]]]]"), { ok: false, code: "PARAM_INVALID" }],
    ["rejects too many values", long(`${",1".repeat(100)}`), { ok: false, code: "PARAM_INVALID" }],
    ["rejects a __proto__ key", long(',{"__proto__":1}'), { ok: false, code: "PARAM_INVALID" }],
    ["rejects a value that does not match the schema", long(",1"), { ok: false, code: "PARAM_INVALID" }],
  ])("reads a large input over several turns, and %s", async ([, text, answer]) => {
    const broker = brokerOf({ jsonDepth: 5, jsonValues: 100 });
    expect(await answerOf(broker, "answer", text)).toMatchObject(answer);
  });

  test("counts again what the guest should have counted", async () => {
    const broker = brokerOf({ maxCapabilityCalls: 2, maxPendingCapabilityCalls: 10 });
    const answers = await Promise.all([1, 2, 3].map((n) => answerOf(broker, "double", String(n))));
    expect(answers).toEqual([
      { ok: true, value: 2 },
      { ok: true, value: 4 },
      {
        ok: false,
        code: "QUOTA_EXCEEDED",
        message: "This call may make 2 capability calls (limits.maxCapabilityCalls)",
      },
    ]);
    expect(broker.wasDeniedWith("QUOTA_EXCEEDED")).toBe(true);
  });

  test("never rejects, though the operator's listener throws or rejects", async () => {
    const rejections: unknown[] = [];
    const listener = (reason: unknown): void => {
      rejections.push(reason);
    };
    process.on("unhandledRejection", listener);
    onTestFinished(() => {
      process.off("unhandledRejection", listener);
    });
    const fail = (): never => {
      throw new Error("the listener's own");
    };
    for (const onHandlerError of [fail, async () => fail()]) {
      const broker = brokerOf({}, onHandlerError);
      for (const how of ["throws", "rejects", "revoked"]) {
        expect(await answerOf(broker, "answer", JSON.stringify(how))).toMatchObject({ ok: false, code: "TOOL_FAILED" });
      }
    }
    await pause(0);
    expect(rejections).toEqual([]);
  });
});

describe("createGlovebox({ capabilities })", () => {
  test("rejects two capabilities of the same name, and one named log", async () => {
    const fake = (name: string) => defineCapability({ name, inputSchema: {}, outputSchema: {}, handler: () => null });
    await expect(makeGlovebox({ capabilities: [fake("kv"), fake("kv")] })).rejects.toMatchObject({
      code: "PARAM_INVALID",
    });
    await expect(makeGlovebox({ capabilities: [fake("log")] })).rejects.toMatchObject({ code: "PARAM_INVALID" });
  });
});
