// Tests the correction of arguments in the router: it must be enabled, and the result lists each change.
import fc from "fast-check";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { ToolCall, ToolResult } from "../../../src/host/contract/tool-call.ts";
import { SchemaThread } from "../../../src/host/json-schema/worker/schema-thread.ts";
import type { ArgumentOptions } from "../../../src/host/pipeline/coercion.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { threadMs } from "../../support/processes.ts";

const order = {
  type: "object",
  properties: {
    sku: { type: "string" },
    quantity: { type: "integer", minimum: 1 },
    tags: { type: "array", items: { type: "string" } },
    note: { type: "string" },
  },
  required: ["sku", "quantity"],
} as const;

/** The thread that repairs arguments starts with the first call. */
const limits = PATIENT_LIMITS;
const router = new ToolRouter({ limits });
router.register("order", { inputSchema: order }, (input) => input as never);
const shout = ({ text }: { text: string }) => text;
router.register("open", { inputSchema: { type: "object" } }, (input) => input as never);
router.register("lenient", { inputSchema: order }, (input) => input as never, {
  arguments: { repair: true, unknownKeys: "prune", coerce: true },
});
const strictRouter = new ToolRouter({ limits, arguments: { unknownKeys: "reject" } });
strictRouter.register("order", { inputSchema: order }, (input) => input as never);
strictRouter.register("kept", { inputSchema: order }, (input) => input as never, {
  arguments: { unknownKeys: "keep" },
});
const thread = new SchemaThread();
afterAll(async () => {
  await router[Symbol.asyncDispose]();
  await strictRouter[Symbol.asyncDispose]();
  await thread[Symbol.asyncDispose]();
});

const ALL: ArgumentOptions = { repair: true, unknownKeys: "prune", coerce: true };
const run = (call: Partial<ToolCall>, options?: ArgumentOptions, toolName = "order"): Promise<ToolResult> =>
  router.execute({ id: "c1", toolName, ...call }, options === undefined ? undefined : { arguments: options });

/** Returns the output and the corrections, or the code and message of the failure. */
const summaryOf = (result: ToolResult): unknown[] =>
  result.success ? [result.output, result.coercions] : [result.error.code, result.error.message];

describe("Arguments", () => {
  test.for<[string, Partial<ToolCall>, RegExp]>([
    ["text that is almost JSON", { argumentsText: "{sku: 'A1', quantity: 2}" }, /invalid JSON/],
    ["a number as text", { arguments: { sku: "A1", quantity: "2" } }, /\/quantity/],
    ["null for an optional value", { arguments: { sku: "A1", quantity: 2, note: null } }, /\/note/],
  ])("arguments with %s are rejected by default", async ([, call, message]) => {
    for (const options of [undefined, {}, { repair: false, unknownKeys: "keep", coerce: false } as const]) {
      expect(summaryOf(await run(call, options))).toEqual(["PARAM_INVALID", expect.stringMatching(message)]);
    }
  });

  test("valid arguments pass unchanged with all corrections enabled", async () => {
    const value = { sku: "A1", quantity: 2, tags: ["a"], note: "12" };
    for (const call of [{ arguments: value }, { argumentsText: JSON.stringify(value) }]) {
      const result = await run(call, ALL);
      expect(summaryOf(result)).toEqual([value, undefined]);
      expect("coercions" in result).toBe(false);
    }
  });

  test.for<[string, string, unknown, string, string]>([
    [
      "bare keys and single quotes",
      "{sku: 'A1', quantity: 2}",
      { sku: "A1", quantity: 2 },
      "sku: 'A1', quantity",
      '"sku": "A1", "quantity"',
    ],
    ["a missing brace", '{"sku":"A1","quantity":2', { sku: "A1", quantity: 2 }, "", "}"],
    ["a trailing comma", '{"sku":"A1","quantity":2,}', { sku: "A1", quantity: 2 }, ",", ""],
    [
      "a code fence",
      '```json\n{"sku":"A1","quantity":2}\n```',
      { sku: "A1", quantity: 2 },
      expect.anything() as never,
      "",
    ],
    [
      "unescaped backslashes",
      String.raw`{"sku":"\d+\.\w","quantity":2}`,
      { sku: String.raw`\d+\.\w`, quantity: 2 },
      "d+\\.",
      "\\d+\\\\.\\",
    ],
    ["Python's None", '{"sku":"A1","quantity":2,"note":None}', { sku: "A1", quantity: 2, note: null }, "None", "null"],
  ])(
    "arguments with %s are repaired, and the result lists the change",
    async ([, argumentsText, expected, was, became]) => {
      const result = await run({ argumentsText }, { repair: true }, "open");
      expect(summaryOf(result)[0]).toEqual(expected);
      const [coercion, ...rest] = result.coercions ?? [];
      expect(rest).toEqual([]);
      expect(coercion).toMatchObject({ kind: "repaired", pointer: "" });
      if (coercion?.kind === "repaired" && typeof was === "string") {
        expect(coercion).toEqual({ kind: "repaired", pointer: "", was, became });
      }
    },
  );

  test("are repaired, coerced and pruned, in that order, and then validated", async () => {
    const argumentsText = "{sku: 7, quantity: '2', tags: 'new', note: null, urgent: true}";
    const result = await run({ argumentsText }, ALL);
    expect(summaryOf(result)[0]).toEqual({ sku: "7", quantity: 2, tags: ["new"] });
    expect(result.coercions?.slice(1)).toEqual([
      { kind: "coerced", pointer: "/sku", from: "number", to: "string" },
      { kind: "coerced", pointer: "/quantity", from: "string", to: "number" },
      { kind: "coerced", pointer: "/tags", from: "string", to: "array" },
      { kind: "coerced", pointer: "/note", from: "null", to: "nothing" },
      { kind: "pruned", pointer: "/urgent" },
    ]);
    const rejected = await run({ argumentsText: "{sku: 7, quantity: '0'}" }, ALL);
    expect(summaryOf(rejected)).toEqual(["PARAM_INVALID", expect.stringMatching(/\/quantity/)]);
    expect("coercions" in rejected).toBe(false);
  });

  test("arguments with unknown keys are rejected in mode reject, which names each key", async () => {
    const result = await run({ arguments: { sku: "A1", quantity: 1, a: 1, b: 2 } }, { unknownKeys: "reject" });
    expect(summaryOf(result)).toEqual(["PARAM_INVALID", "The arguments of order: /a: Unknown key; /b: Unknown key"]);
    expect(result.success || result.error.details?.problems).toHaveLength(2);
  });

  test("use the options of the call, then of the tool, then of the host", async () => {
    const args = { sku: "A1", quantity: 1, a: 1 };
    expect(summaryOf(await run({ arguments: args }, undefined, "lenient"))).toEqual([
      { sku: "A1", quantity: 1 },
      [{ kind: "pruned", pointer: "/a" }],
    ]);
    expect(summaryOf(await run({ arguments: args }, { unknownKeys: "keep" }, "lenient"))).toEqual([args, undefined]);
    const call = { id: "c1", arguments: args };
    expect(summaryOf(await strictRouter.execute({ ...call, toolName: "order" }))[0]).toBe("PARAM_INVALID");
    expect(summaryOf(await strictRouter.execute({ ...call, toolName: "kept" }))).toEqual([args, undefined]);
    const pruned = await strictRouter.execute({ ...call, toolName: "order" }, { arguments: { unknownKeys: "prune" } });
    expect(summaryOf(pruned)[0]).toEqual({ sku: "A1", quantity: 1 });
  });

  test("arguments with bytes are pruned without changing the caller's own value", async () => {
    router.register(
      "bytes",
      {
        inputSchema: {
          type: "object",
          properties: { data: { type: "string" }, list: { items: { properties: { x: {} } } } },
        },
      },
      (input) => input as never,
    );
    const args = { extra: new Uint8Array([9]), data: new Uint8Array([1, 2]), list: [{ x: new Uint8Array([3]), y: 1 }] };
    expect(summaryOf(await run({ arguments: args }, { unknownKeys: "prune" }, "bytes"))).toEqual([
      { data: new Uint8Array([1, 2]), list: [{ x: new Uint8Array([3]) }] },
      [
        { kind: "pruned", pointer: "/extra" },
        { kind: "pruned", pointer: "/list/0/y" },
      ],
    ]);
    expect(Object.keys(args)).toEqual(["extra", "data", "list"]);
    expect(summaryOf(await run({ arguments: args }, { unknownKeys: "reject" }, "bytes"))[0]).toBe("PARAM_INVALID");
  });

  test("large arguments are coerced", async () => {
    const tags = Array.from({ length: 8_000 }, (_, index) => `a somewhat longer tag, ${index}`);
    // The budget of a coercion is a CPU time, which a slow machine can use up.
    await vi.waitFor(async () => {
      const result = await run({ arguments: { sku: "A1", quantity: "3", tags } }, ALL);
      expect(result).toMatchObject({ success: true, coercions: [{ kind: "coerced", pointer: "/quantity" }] });
    });
  });

  test("are repaired, coerced and pruned before hooks see them", async () => {
    const seen: unknown[] = [];
    const hooked = new ToolRouter({
      limits,
      arguments: ALL,
      hooks: [
        { name: "see", validate: ({ arguments: args }: { arguments: unknown }) => void seen.push(args) } as never,
      ],
    });
    hooked.register("order", { inputSchema: order }, (input) => input as never);
    const result = await hooked.execute({
      id: "c",
      toolName: "order",
      argumentsText: "{sku: 'A1', quantity: '2', x: 1}",
    });
    expect(summaryOf(result)[0]).toEqual({ sku: "A1", quantity: 2 });
    expect(result.coercions?.map(({ kind }) => kind)).toEqual(["repaired", "coerced", "pruned"]);
    expect(seen).toEqual([{ sku: "A1", quantity: 2 }]);
    await hooked[Symbol.asyncDispose]();
  });

  test("arguments with invalid options are rejected, naming the path", async () => {
    const result = await run({ arguments: {} }, { repair: "yes" } as never);
    expect(summaryOf(result)).toEqual(["PARAM_INVALID", expect.stringMatching(/context\.arguments\.repair/)]);
    const make = () => new ToolRouter({ arguments: { unknownKeys: "drop" } as never });
    expect(make).toThrow(/arguments\.unknownKeys/);
    expect(() => router.register("x", {}, shout as never, { arguments: { all: true } as never })).toThrow(
      /options\.arguments/,
    );
  });

  test("arguments of any text are either valid for the tool or rejected with PARAM_INVALID", async () => {
    const piece = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ":",
      ",",
      '"',
      "'",
      "sku",
      "quantity",
      "1",
      "null",
      "\\",
      "\n",
      "//",
      "`",
      "…",
      "__proto__",
    );
    const written = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(""));
    await fc.assert(
      fc.asyncProperty(fc.oneof(written, fc.json(), fc.string()), async (argumentsText) => {
        const result = await run({ argumentsText: argumentsText.toWellFormed() }, ALL);
        if (result.success)
          expect(result.output).toMatchObject({ sku: expect.any(String), quantity: expect.any(Number) });
        else expect(result.error.code).toBe("PARAM_INVALID");
      }),
      { numRuns: 200 },
    );
  });
});

describe("Hostile text to repair", () => {
  test.for<[string, string]>([
    ["larger than the limit of a repair", `{a:${" ".repeat(70_000)}`],
    ["nested deeper than the stack", "[".repeat(60_000)],
    ["repaired to more than the tool's limit", `{a:'${"x".repeat(1_000)}'`],
  ])("%s is rejected unchanged", async ([name, argumentsText]) => {
    const small = new ToolRouter({ limits: { ...limits, inputBytes: name.startsWith("repaired") ? 500 : 8_000_000 } });
    small.register("open", {}, () => null);
    const result = await small.execute({ id: "c", toolName: "open", argumentsText }, { arguments: { repair: true } });
    expect(summaryOf(result)[0]).toBe("PARAM_INVALID");
    await small[Symbol.asyncDispose]();
  });

  test("uses the time of a thread, which is limited, and not of the host", async () => {
    const hostile = `["${"{".repeat(60_000)}`;
    const before = threadMs();
    const text = await thread.repair(hostile, AbortSignal.timeout(200_000));
    const usedMs = threadMs() - before;
    expect(text === undefined || text.length > 60_000).toBe(true);
    // The host waits for most of the time: the thread's limit is 2 s.
    expect(usedMs).toBeLessThan(1_000);
    // A new thread has started.
    expect(await thread.repair("{a: 1}", AbortSignal.timeout(200_000))).toBe('{"a": 1}');
  });

  test("stops when the call's signal aborts", async () => {
    const stop = new AbortController();
    const repairing = thread.repair(`["${"{".repeat(60_000)}`, stop.signal);
    stop.abort(new Error("enough"));
    await expect(repairing).rejects.toThrow("enough");
  });
});
