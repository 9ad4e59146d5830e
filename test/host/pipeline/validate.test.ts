// Tests stage 1 alone: it returns a validated call or throws a ToolError for any value.
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import { Clocks } from "../../../src/host/pipeline/clock.ts";
import { checkTimeout, readContext } from "../../../src/host/pipeline/read-context.ts";
import {
  readEnvelope,
  type ValidatedCall,
  type ValidateOptions,
  validateCall,
} from "../../../src/host/pipeline/validate.ts";
import { MemoryToolRegistry } from "../../../src/host/routing/registry.ts";
import { Tenancy } from "../../../src/host/tenants/tenancy.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { inOtherRealm } from "../../support/failing-callbacks.ts";
import { fixedExecutor, makeTool, type ToolParts } from "../../support/registered-tool.ts";

const BOUNDS = { bytes: 1_000, depth: 4, values: 100 };
const thread = new SchemaThread();
afterAll(() => thread[Symbol.asyncDispose]());

/** Options of the router. Small arguments need no clock. */
const routerOptions = (bounds = BOUNDS): ValidateOptions => ({
  bounds,
  thread,
  startClock: () => {
    throw new Error("Expected small arguments");
  },
});

function errorFrom(action: () => unknown): ToolError {
  try {
    action();
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
  throw new Error("Expected a ToolError, got none");
}

function throwing(): never {
  throw new Error("a caller's own trap, at /root/secret.js");
}
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** Runs the whole stage for arguments of one tool. */
function validate(args: unknown, parts: ToolParts = {}, bounds = BOUNDS): ValidatedCall {
  const registry = new MemoryToolRegistry();
  registry.add(makeTool(parts));
  const envelope = { callId: "c1", toolName: "probe", arguments: args };
  const call = validateCall(envelope, { tenantId: "acme" }, registry, routerOptions(bounds));
  if (call instanceof Promise) throw new Error("Expected a call at once");
  return call;
}

/** Runs the whole stage for arguments as text of any size. */
async function validateText(argumentsText: string, parts: ToolParts = {}, bounds = BOUNDS): Promise<ValidatedCall> {
  const registry = new MemoryToolRegistry();
  registry.add(makeTool(parts));
  const clocks = new Clocks();
  const envelope = readEnvelope({ id: "c1", toolName: "probe", argumentsText });
  return await validateCall(envelope, { tenantId: "acme" }, registry, {
    bounds,
    thread,
    startClock: () =>
      clocks.start({ timeoutMs: 30_000, toolName: "probe", caller: undefined, admittedAt: performance.now() }),
  });
}

describe("argumentsText", () => {
  const LARGE = { bytes: 1_000_000, depth: 4, values: 1_000_000 };

  test.for<["text" | "value"]>([["text"], ["value"]])(
    "contains the arguments as JSON text, for a tool that takes %s",
    async ([wants]) => {
      const text = ' {"a": [1, "\\ud83d\\ude00"]}\n';
      const call = await validateText(text, { executor: { ...fixedExecutor("null"), wants } });
      expect(JSON.parse(call.inputText.toString())).toEqual({ a: [1, "😀"] });
      if (wants === "value") expect(call.input).toEqual({ a: [1, "😀"] });
    },
  );

  test.for(["", " ", "\n\t "])("argumentsText that is blank, %j, means an empty object", async (text) => {
    expect((await validateText(text)).inputText).toBe("{}");
  });

  test.for<[string, string, RegExp]>([
    ["invalid JSON", '{"a": 1,, }', /invalid JSON at character 9$/],
    ["truncated", '{"a": 1', /invalid JSON(: unexpected end of input| at character 8)$/],
    ["JavaScript", "{a: 1}", /invalid JSON at character 2$/],
    ["JSON after other white space", "\u00a0{}", /invalid JSON/],
    ["an object with a __proto__ key", '{"__proto__": {}}', /"__proto__" is not allowed, at \/__proto__/],
    ["a number beyond a double", '{"a": 1e400}', /numbers within the range of a double/],
    ["nested too deeply", "[[[[[]]]]]", /nested at most 4 deep/],
    ["too large", `"${"x".repeat(2_000)}"`, /at most 1000 bytes/],
  ])("is rejected if it is %s, for tools that take text or a value", async ([, text, message]) => {
    for (const wants of ["text", "value"] as const) {
      const error = await validateText(text, { executor: { ...fixedExecutor("null"), wants } }).catch(
        (thrown: unknown) => thrown,
      );
      expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(message) });
    }
  });

  test("is parsed if it is large, even for a tool that takes any object as text", async () => {
    const asText = { executor: { ...fixedExecutor("null"), wants: "text" as const } };
    const large = JSON.stringify({ list: Array.from({ length: 30_000 }, (_, index) => `value ${index}`) });
    expect((await validateText(large, asText, LARGE)).inputText.length).toBe(large.length);
    const error = await validateText(`${large.slice(0, -1)},}`, asText, LARGE).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/invalid JSON/) });
  });

  test("is rejected together with arguments, as another type, and with a lone surrogate", () => {
    const call = { id: "c1", toolName: "probe" };
    const both = () => readEnvelope({ ...call, arguments: {}, argumentsText: "{}" });
    expect(errorFrom(both).message).toBe("toolCall: expected either arguments or argumentsText, got both");
    expect(errorFrom(() => readEnvelope({ ...call, argumentsText: {} })).message).toMatch(
      /expected JSON text, got an object/,
    );
    expect(errorFrom(() => readEnvelope({ ...call, argumentsText: '"\ud800"' })).message).toMatch(/unpaired surrogate/);
    expect(readEnvelope({ ...call, arguments: undefined, argumentsText: "{}" }).argumentsText).toBe("{}");
  });
});

describe("readEnvelope()", () => {
  test("reads a call's three fields", () => {
    const call = { id: "c1", toolName: "add", arguments: { a: 1 } };
    expect(readEnvelope(call)).toEqual({ callId: "c1", toolName: "add", arguments: { a: 1 } });
  });

  test("reads each field once, so that a getter cannot return two values", () => {
    const reads: string[] = [];
    const call = new Proxy({ id: "c1", toolName: "add", arguments: 1 } as Record<string, unknown>, {
      get: (target, key) => {
        reads.push(String(key));
        return target[String(key)];
      },
    });
    readEnvelope(call);
    expect(reads.sort()).toEqual(["arguments", "argumentsText", "id", "toolName"]);
  });

  test.for<[string, unknown, string]>([
    ["nothing", undefined, "toolCall: expected an object { id, toolName, arguments }, got nothing"],
    ["null", null, "toolCall: expected an object { id, toolName, arguments }, got null"],
    ["text", "add", 'toolCall: expected an object { id, toolName, arguments }, got "add"'],
    ["a number", Number.NaN, "toolCall: expected an object { id, toolName, arguments }, got NaN"],
    ["a function", () => {}, "toolCall: expected an object { id, toolName, arguments }, got a function"],
    ["a list", [], "toolCall: expected an object { id, toolName, arguments }, got an array"],
    ["no id", { toolName: "add" }, "toolCall.id: expected text of 1 to 1024 characters, got nothing"],
    ["an empty id", { id: "", toolName: "add" }, 'toolCall.id: expected text of 1 to 1024 characters, got ""'],
    ["a number as id", { id: 7, toolName: "add" }, "toolCall.id: expected text of 1 to 1024 characters, got 7"],
    [
      "a very long id",
      { id: "x".repeat(1e6), toolName: "add" },
      "toolCall.id: expected text of 1 to 1024 characters, got text of 1000000 characters",
    ],
    ["no tool name", { id: "c" }, "toolCall.toolName: expected text of 1 to 1024 characters, got nothing"],
    [
      "a symbol as tool name",
      { id: "c", toolName: Symbol("x") },
      "toolCall.toolName: expected text of 1 to 1024 characters, got a symbol",
    ],
    [
      "an unknown field",
      { id: "c", toolName: "add", args: {} },
      'toolCall.args: Unknown option. Did you mean "arguments"?',
    ],
  ])("rejects %s, and names the expected value", ([, call, message]) => {
    const error = errorFrom(() => readEnvelope(call));
    expect([error.code, error.message]).toEqual(["PARAM_INVALID", message]);
  });

  test.for<[string, () => unknown]>([
    [
      "a getter that throws",
      () => ({
        id: "c",
        toolName: "add",
        get arguments() {
          return throwing();
        },
      }),
    ],
    ["a proxy whose traps throw", () => new Proxy({}, { get: throwing, ownKeys: throwing, getPrototypeOf: throwing })],
    ["a revoked proxy", revoked],
    [
      "a getter that throws a revoked proxy",
      () => ({
        get id() {
          throw revoked();
        },
      }),
    ],
  ])("rejects %s without disclosing what was thrown", ([, make]) => {
    const error = errorFrom(() => readEnvelope(make()));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toMatch(
      /^toolCall: expected .* got (one whose fields cannot be read|an object that is not plain)$/,
    );
  });
});

/** Undefined, as for a nested call, whose tenant is already known. */
const TENANCY = undefined;
describe("readContext()", () => {
  test.for([undefined, {}, { tenantId: undefined }])("resolves the tenant of %s by the tenancy", (context) => {
    expect(readContext(context, new Tenancy("single")).tenantId).toBe("default");
    expect(errorFrom(() => readContext(context, new Tenancy("multi"))).message).toMatch(/^context\.tenantId: Missing/);
  });

  test("copies the fields of a context", () => {
    const { signal } = new AbortController();
    const known = { tenantId: "acme", executionId: "e", stepId: "s", signal, timeoutMs: 5, onLog: () => {} };
    expect(readContext(known, TENANCY)).toMatchObject(known);
  });

  test.for<[string, unknown, string]>([
    ["a timeout", { timeout: 5 }, 'context.timeout: Unknown option. Did you mean "timeoutMs"?'],
    ["a tenant", { tenant: "acme" }, 'context.tenant: Unknown option. Did you mean "tenantId"?'],
    ["a second tenant", { tenantId: "a", TenantID: "b" }, 'context.TenantID: Unknown option. Did you mean "tenantId"?'],
    ["a key whose value is undefined", { onlog: undefined }, 'context.onlog: Unknown option. Did you mean "onLog"?'],
    [
      "a field of the seed",
      { deterministic: { seed: "s", Now: 1 } },
      'context.deterministic.Now: Unknown option. Did you mean "now"?',
    ],
    [
      "a field of the arguments",
      { arguments: { coerc: true } },
      'context.arguments.coerc: Unknown option. Did you mean "coerce"?',
    ],
    [
      "a method of the client",
      { client: { elicits() {} } },
      'context.client.elicits: Unknown option. Did you mean "elicit"?',
    ],
  ])("rejects the unknown key of %s, and suggests the right one", ([, context, message]) => {
    const error = errorFrom(() => readContext(context, TENANCY));
    expect([error.code, error.message]).toEqual(["PARAM_INVALID", message]);
  });

  test("rejects maxConcurrency, which only a batch has", () => {
    expect(errorFrom(() => readContext({ maxConcurrency: 2 }, TENANCY)).message).toMatch(
      /^context\.maxConcurrency: Unknown option/,
    );
  });

  class Context {
    readonly tenantId = "acme";
  }
  test.for<[string, unknown, string]>([
    ["null", null, "null"],
    ["a promise", Promise.resolve({ tenantId: "acme" }), "a Promise"],
    ["a promise of another realm", inOtherRealm("Promise.resolve({})"), "a Promise"],
    ["an array", [{ tenantId: "acme" }], "an array"],
    ["a Map", new Map([["tenantId", "acme"]]), "a Map"],
    ["an instance of a class", new Context(), "an instance of Context"],
    ["a function", () => ({ tenantId: "acme" }), "a function"],
    ["an object with another prototype", Object.create({ tenantId: "acme" }), "an object that is not plain"],
  ])("rejects %s as a context", ([, context, got]) => {
    const error = errorFrom(() => readContext(context, TENANCY));
    expect([error.code, error.message]).toEqual([
      "PARAM_INVALID",
      `context: expected a plain object { tenantId, signal, timeoutMs }, got ${got}`,
    ]);
  });

  test("accepts a plain object of another realm", () => {
    expect(readContext(inOtherRealm("({ tenantId: 'acme' })"), TENANCY)).toMatchObject({ tenantId: "acme" });
  });

  test.for<[string, object, RegExp]>([
    ["a promise as client", { client: Promise.resolve({}) }, /^context\.client: expected an object \{ elicit/],
    [
      "a client whose method is not a function",
      { client: { sample: true } },
      /^context\.client\.sample: expected a function/,
    ],
    [
      "a promise as arguments",
      { arguments: Promise.resolve({}) },
      /^context\.arguments: Expected a plain object, got a Promise$/,
    ],
    [
      "a promise as seed",
      { deterministic: Promise.resolve({ seed: "s" }) },
      /^context\.deterministic: .*got a Promise$/,
    ],
    ["a Map as seed", { deterministic: new Map() }, /^context\.deterministic: .*got a Map$/],
  ])("rejects %s", ([, context, message]) => {
    expect(errorFrom(() => readContext(context, TENANCY))).toMatchObject({
      code: "PARAM_INVALID",
      message: expect.stringMatching(message),
    });
  });

  test("accepts an instance of a host's class as client", () => {
    class Person {
      elicit(): undefined {
        return undefined;
      }
    }
    const client = new Person();
    expect(readContext({ client }, TENANCY).client).toBe(client);
  });

  test.for<[string, unknown, RegExp]>([
    ["text", "acme", /^context: expected a plain object \{ tenantId, signal, timeoutMs \}, got "acme"$/],
    ["an empty tenant", { tenantId: "" }, /^context\.tenantId: expected text of 1 to 1024 characters, got ""$/],
    ["null as tenant", { tenantId: null }, /^context\.tenantId: expected text of .*, got null$/],
    ["a number as tenant", { tenantId: 5 }, /^context\.tenantId: expected text of .*, got 5$/],
    ["a number as execution", { executionId: 5 }, /^context\.executionId: expected text of .*, got 5$/],
    ["an object as step", { stepId: {} }, /^context\.stepId: expected text of .*, got an object$/],
    ["a controller as signal", { signal: new AbortController() }, /^context\.signal: expected an AbortSignal, got an/],
    ["true as signal", { signal: true }, /^context\.signal: expected an AbortSignal, got a boolean$/],
    ["text as onLog", { onLog: "log" }, /^context\.onLog: expected a function, got "log"$/],
    ["null as onProgress", { onProgress: null }, /^context\.onProgress: expected a function, got null$/],
    ["text as timeout", { timeoutMs: "5" }, /^context\.timeoutMs: expected a number of milliseconds from 1 to 300000/],
  ])("rejects %s", ([, context, message]) => {
    const error = errorFrom(() => readContext(context, TENANCY));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toMatch(message);
  });

  test.for<[string, () => unknown]>([
    [
      "a getter that throws",
      () => ({
        get tenantId() {
          return throwing();
        },
      }),
    ],
    ["a proxy whose traps throw", () => new Proxy({}, { get: throwing })],
    ["a revoked proxy", revoked],
    ["a revoked proxy as signal", () => ({ signal: revoked() })],
    ["an object that only looks like a signal", () => ({ signal: Object.create(AbortSignal.prototype) as unknown })],
  ])("rejects %s with PARAM_INVALID", ([, make]) => {
    const error = errorFrom(() => readContext(make(), TENANCY));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toMatch(
      /^context: expected .* got (one whose fields cannot be read|an object that is not plain)$/,
    );
  });
});

describe("checkTimeout()", () => {
  test.for([undefined, 1, 1.5, 299_999, 300_000])("accepts %s", (timeoutMs) => {
    expect(() => checkTimeout(timeoutMs, "timeoutMs")).not.toThrow();
  });

  test.for<[unknown, string]>([
    [0, "0"],
    [-1, "-1"],
    [0.5, "0.5"],
    [300_001, "300001"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    ["1000", '"1000"'],
    [null, "null"],
    [10n, "a bigint"],
    [{}, "an object"],
  ])("rejects %s", ([timeoutMs, shown]) => {
    const error = errorFrom(() => checkTimeout(timeoutMs, "timeoutMs"));
    expect([error.code, error.message]).toEqual([
      "PARAM_INVALID",
      `timeoutMs: expected a number of milliseconds from 1 to 300000, got ${shown}`,
    ]);
  });
});

describe("validateCall()", () => {
  test("copies the arguments, so later changes by the caller have no effect", () => {
    const args = { list: [1] };
    const { input, inputText } = validate(args);
    args.list.push(2);
    expect([input, inputText]).toEqual([{ list: [1] }, '{"list":[1]}']);
  });

  test("uses an empty object for missing arguments", () => {
    expect(validate(undefined).input).toEqual({});
  });

  test("accepts any JSON value that matches the schema", () => {
    expect(validate([1, "2", null], { inputSchema: { type: "array" } }).input).toEqual([1, "2", null]);
  });

  test("names an unknown tool and the tools of the tenant", () => {
    const registry = new MemoryToolRegistry();
    registry.add(makeTool({ name: "ours", tenantId: "acme" }));
    registry.add(makeTool({ name: "global" }));
    registry.add(makeTool({ name: "theirs", tenantId: "other" }));
    const envelope = { callId: "c", toolName: "theirs", arguments: {} };
    const error = errorFrom(() => validateCall(envelope, { tenantId: "acme" }, registry, routerOptions()));
    expect(error.code).toBe("TOOL_UNAVAILABLE");
    expect(error.message).toBe('There is no tool named "theirs"; known tools: global, ours');
    expect(error.details).toEqual({ reason: "not_found", toolName: "theirs", known: ["global", "ours"] });
  });

  test("truncates and escapes a long or unprintable tool name", () => {
    const envelope = { callId: "c", toolName: `\u001b[2J${"x".repeat(1_000)}`, arguments: {} };
    const { message } = errorFrom(() =>
      validateCall(envelope, { tenantId: "acme" }, new MemoryToolRegistry(), routerOptions()),
    );
    expect(message).toMatch(/^There is no tool named "\\u001b\[2Jx{120,124}"; no tools are registered$/);
  });

  const cyclic: Record<string, unknown> = { a: [{}] };
  (cyclic.a as Record<string, unknown>[])[0] = { "b/c": cyclic };
  let deep: unknown = 0;
  for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];

  test.for<[string, unknown, RegExp]>([
    ["a function", () => {}, /^toolCall\.arguments: expected a JSON value, got a function$/],
    ["a symbol", Symbol("s"), /^toolCall\.arguments: expected a JSON value, got a symbol$/],
    ["a BigInt", 5n, /^toolCall\.arguments: expected a JSON value, got a BigInt at the top$/],
    ["a BigInt inside", { list: [1, { n: 5n }] }, /^toolCall\.arguments: .*, got a BigInt at \/list\/1\/n$/],
    ["a cycle", cyclic, /^toolCall\.arguments: .*, got a cycle at \/a\/0\/b~1c$/],
    [
      "100,000 levels",
      deep,
      // In Node 24 the stack overflows. Newer versions return the text, which is too long.
      /^(The arguments of probe: expected at most 1000 bytes of JSON, got 200001|toolCall\.arguments: .* nested too deep)$/,
    ],
    [
      "a stack overflow",
      {
        toJSON: () => {
          throw new RangeError("stack");
        },
      },
      /got a value too large or nested too deep$/,
    ],
    ["a toJSON that throws", { toJSON: throwing }, /^toolCall\.arguments: .*, got a value that cannot be read$/],
    [
      "a getter that throws a TypeError",
      {
        get x() {
          throw new TypeError("no");
        },
      },
      /got a value that cannot be read$/,
    ],
    [
      "a toJSON that throws a revoked proxy",
      {
        toJSON: () => {
          throw revoked();
        },
      },
      /got a value that cannot be read$/,
    ],
    ["a revoked proxy", revoked(), /^toolCall\.arguments: .*, got a value that cannot be read$/],
    ["a toJSON that returns undefined", { toJSON: () => undefined }, /^toolCall\.arguments: .*, got an object$/],
    ["too many bytes", "x".repeat(2_000), /^The arguments of probe: expected at most 1000 bytes of JSON, got 2002$/],
    [
      "too many bytes in UTF-8",
      "ü".repeat(600),
      /^The arguments of probe: expected at most 1000 bytes of JSON, got 1202$/,
    ],
    [
      "101 values with a limit of 100",
      Array(97).fill(1),
      /^The arguments of probe: expected at most 100 JSON values \(each key counts as 1, each array and object as 4\)$/,
    ],
    ["five levels with a limit of four", [[[[[]]]]], /^The arguments of probe: expected JSON nested at most 4 deep$/],
    [
      "a __proto__ key",
      JSON.parse('{"a":[{"__proto__":1}]}'),
      /^The arguments of probe: the key "__proto__" .* \/a\/0\/__proto__$/,
    ],
    ["text instead of an object", "{}", /^The arguments of probe: at the top: .*object.*$/],
  ])("rejects %s as arguments, and names its path", ([, args, message]) => {
    const error = errorFrom(() => validate(args));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toMatch(message);
    expect(JSON.stringify(error.details ?? null)).not.toContain("/root");
  });

  const person = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 0 } },
    required: ["name"],
    additionalProperties: false,
  } as const;
  test.for<[string, unknown, string, string]>([
    ["a wrong type", { name: 5 }, "/name", "type"],
    ["a missing key", {}, "", "required"],
    ["an unknown key", { name: "x", nam: "y" }, "/nam", "additionalProperties"],
    ["a number out of range", { name: "x", age: -1 }, "/age", "minimum"],
    ["a fraction", { name: "x", age: 1.5 }, "/age", "type"],
  ])("lists %s with its pointer", ([, args, pointer, keyword]) => {
    const error = errorFrom(() => validate(args, { inputSchema: person }));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.details?.problems).toMatchObject([{ pointer, keyword }]);
    expect(error.message).toMatch(/^The arguments of probe: (at the top|\/\w+): /);
  });

  test("lists three issues in the message, and counts the others", () => {
    const items = { type: "array", items: { type: "number" } };
    const error = errorFrom(() => validate(["a", "b", "c", "d", "e"], { inputSchema: items }));
    expect(error.message).toMatch(/^The arguments of probe: \/0: .*; \/1: .*; \/2: .*; and 2 more$/);
    expect(error.details?.problems).toHaveLength(5);
  });

  test.for<[string, ToolParts]>([
    ["the host", { hostLimits: { inputBytes: 100, jsonDepth: 2, jsonValues: 4 } }],
    ["its author", { authorLimits: { inputBytes: 100, jsonDepth: 2, jsonValues: 4 } }],
  ])("enforces the bounds of a tool that are set by %s", ([, parts]) => {
    expect(errorFrom(() => validate({ text: "x".repeat(200) }, parts)).message).toContain("at most 100 bytes");
    expect(errorFrom(() => validate({ a: { b: {} } }, parts)).message).toContain("at most 2 deep");
    expect(errorFrom(() => validate({ a: 1, b: 2 }, parts)).message).toContain("at most 4 JSON values");
  });

  test("does not let an author raise the host's bounds", () => {
    const parts = { authorLimits: { inputBytes: 1_000_000 } };
    expect(errorFrom(() => validate("x".repeat(2_000), parts)).message).toContain("at most 1000 bytes");
  });

  test("throws only PARAM_INVALID for any arguments", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }), (args) => {
        try {
          const { input, inputText } = validate(
            args,
            { inputSchema: {} },
            { bytes: 100_000, depth: 100, values: 10_000 },
          );
          expect(JSON.parse(inputText.toString())).toEqual(input);
        } catch (thrown) {
          expect(thrown).toMatchObject({ name: "ToolError", code: "PARAM_INVALID" });
        }
      }),
    );
  });
});
