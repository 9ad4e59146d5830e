// Schemas of a library for host functions validate and transform each call; if the library fails, the call fails.
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { toRegisteredTool } from "../../../src/host/routing/registered-tool.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import type { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { FAILING_CALLBACKS, inOtherRealm, toThenable } from "../../support/failing-callbacks.ts";
import { codeOf, errorOf, outputOf } from "../../support/host-zone.ts";
import { fixedExecutor } from "../../support/registered-tool.ts";

const ECHO = (input: unknown): unknown => input;

/** Runs one call of a function with these schemas. */
async function callWith(definition: object, args: unknown, handler: (input: never) => unknown = ECHO) {
  const inputs: unknown[] = [];
  const errors: ToolError[] = [];
  const router = new ToolRouter({ onInternalError: (error) => errors.push(error) });
  router.register("tool", definition, (input) => {
    inputs.push(input);
    return handler(input as never);
  });
  const result = await router.execute({ id: "c", toolName: "tool", arguments: args }, { timeoutMs: 5_000 });
  return { result, inputs, errors };
}

/** A Standard Schema whose `validate` is this function. */
const standard = (validate: (value: unknown) => unknown, rest: object = {}): object => ({
  "~standard": { version: 1, vendor: "test", validate, ...rest },
});
const thrownBy = (action: () => unknown): unknown => {
  try {
    return action();
  } catch (thrown) {
    return thrown;
  }
};

describe("ToolRouter.register() with a Standard Schema", () => {
  const inputSchema = z.object({ n: z.number().max(1_000) });

  test("rejects arguments that the library rejects, and does not call the function", async () => {
    for (const args of [{ n: "1e9" }, { n: 1e9 }, {}, []]) {
      const { result, inputs } = await callWith({ inputSchema }, args);
      expect([codeOf(result), inputs]).toEqual(["PARAM_INVALID", []]);
    }
  });

  test("names the path of what JSON Schema cannot express", async () => {
    const refined = z.object({
      list: z.array(z.object({ n: z.number().refine((n) => n % 2 === 0, "Expected an even number") })),
    });
    const { result } = await callWith({ inputSchema: refined }, { list: [{ n: 2 }, { n: 3 }] });
    expect(errorOf(result)).toMatchObject({
      code: "PARAM_INVALID",
      message: "The arguments of tool: /list/1/n: Expected an even number",
      details: { problems: [{ pointer: "/list/1/n", message: "Expected an even number" }] },
    });
  });

  test("hands the function the value that the library returns", async () => {
    const transformed = z.object({ n: z.number().default(2), at: z.string().transform((text) => text.length) });
    const { result, inputs } = await callWith({ inputSchema: transformed }, { at: "abc" });
    expect([outputOf(result), inputs]).toEqual([{ n: 2, at: 3 }, [{ n: 2, at: 3 }]]);
  });

  test("infers the type of the function's input", () => {
    const router = new ToolRouter();
    router.register("typed", { inputSchema }, ({ n }) => n.toFixed(2));
    router.register("plain", { inputSchema: { type: "object" } }, (input) => input);
    // @ts-expect-error there is no such member
    router.register("wrong", { inputSchema }, ({ m }) => m);
  });

  test("lists the JSON Schema that the library converts it to", () => {
    const router = new ToolRouter();
    router.register("tool", { inputSchema, outputSchema: z.object({ at: z.date() }) }, ECHO);
    expect(router.getRegisteredTools()).toMatchObject([
      {
        inputSchema: { type: "object", properties: { n: { type: "number", maximum: 1_000 } }, required: ["n"] },
        outputSchema: { type: "object", properties: { at: {} } },
      },
    ]);
    expect(JSON.parse(JSON.stringify(router.getRegisteredTools()))).toEqual(router.getRegisteredTools());
  });

  test.for<[string, object]>([
    ["has none", {}],
    [
      "throws",
      {
        jsonSchema: {
          input: () => {
            throw new Error("no");
          },
        },
      },
    ],
    ["returns a promise", { jsonSchema: { input: () => Promise.reject(new Error("later")) } }],
    ["returns text", { jsonSchema: { input: () => "object" } }],
  ])("lists any object where the library's conversion %s, and the library still validates", async ([, rest]) => {
    const schema = standard(
      (value) => ((value as { n?: unknown }).n === 1 ? { value } : { issues: [{ message: "no" }] }),
      rest,
    );
    const router = new ToolRouter();
    router.register("tool", { inputSchema: schema as never }, ECHO);
    expect(router.getRegisteredTools()).toEqual([{ name: "tool", description: "", inputSchema: { type: "object" } }]);
    const codes = [1, 2].map(async (n) =>
      codeOf(await router.execute({ id: "c", toolName: "tool", arguments: { n } })),
    );
    expect(await Promise.all(codes)).toEqual(["ok", "PARAM_INVALID"]);
  });

  test("takes a schema that is a function, as arktype's are", async () => {
    const schema = Object.assign(
      () => {},
      standard((value) => ({ value: { ...(value as object), seen: true } })),
    );
    const { result } = await callWith({ inputSchema: schema }, { n: 1 });
    expect(outputOf(result)).toEqual({ n: 1, seen: true });
  });

  test("validates and transforms outputs, and keeps content", async () => {
    const outputSchema = z.object({ n: z.number().transform((n) => n * 2) });
    const good = await callWith({ outputSchema }, {}, () => ({ n: 21 }));
    const bad = await callWith({ outputSchema }, {}, () => ({ n: "21" }));
    const content = [{ type: "text", text: "shown" }];
    const rich = await callWith({ outputSchema }, {}, () => ({
      [Symbol.for("glovebox.content")]: content,
      output: { n: 1 },
    }));
    expect(outputOf(good.result)).toEqual({ n: 42 });
    expect(errorOf(bad.result)).toMatchObject({ code: "OUTPUT_INVALID", message: expect.stringContaining("/n: ") });
    expect(rich.result).toMatchObject({ success: true, output: { n: 2 }, content });
  });

  test("validates what a stream returns", async () => {
    const outputSchema = z.object({ n: z.number() });
    const { result } = await callWith({ outputSchema }, {}, async function* () {
      yield 1;
      return { n: "text" };
    });
    expect(codeOf(result)).toBe("OUTPUT_INVALID");
  });
});

/** What no library may answer with. */
const JUNK: readonly (readonly [string, () => unknown])[] = [
  ...FAILING_CALLBACKS,
  ["returns undefined", () => undefined],
  ["returns null", () => null],
  ["returns true", () => true],
  ["returns text", () => "valid"],
  ["returns {}", () => ({})],
  ["resolves with {}", async () => ({})],
  ["resolves with undefined", async () => undefined],
  ["returns a thenable of junk", () => toThenable((resolve) => resolve("valid"))],
  [
    "returns an object whose issues cannot be read",
    () => inOtherRealm('({ get issues() { throw new Error("no"); } })'),
  ],
];

describe("a Standard Schema whose library fails", () => {
  test.for(JUNK)("a library that %s counts as invalid, for inputs and for outputs", async ([, validate]) => {
    const input = await callWith({ inputSchema: standard(validate) }, {});
    const output = await callWith({ outputSchema: standard(validate) }, {});
    expect([codeOf(input.result), input.inputs]).toEqual(["TOOL_FAILED", []]);
    expect(codeOf(output.result)).toBe("TOOL_FAILED");
    expect(input.errors).toMatchObject([
      { code: "TOOL_FAILED", cause: { message: expect.stringMatching(/^inputSchema: /) } },
    ]);
    expect(output.errors).toMatchObject([
      { code: "TOOL_FAILED", cause: { message: expect.stringMatching(/^outputSchema: /) } },
    ]);
  });

  test.for<[string, () => unknown]>([
    ["issues that are not a list", () => ({ issues: "none", value: 1 })],
    ["issues that are null", () => ({ issues: null, value: 1 })],
    ["a promise", async () => ({ issues: [{ message: "no" }] })],
    ["a promise of another realm", () => inOtherRealm('Promise.resolve({ issues: [{ message: "no" }] })')],
    ["a thenable", () => toThenable((resolve) => resolve({ issues: [{ message: "no" }] }))],
    ["an empty list of issues", () => ({ issues: [] })],
    ["an invalid issue", () => ({ issues: [null] })],
  ])("a rejection that comes as %s rejects the call", async ([, validate]) => {
    const { result, inputs } = await callWith({ inputSchema: standard(validate) }, {});
    expect([codeOf(result), inputs]).toEqual(["PARAM_INVALID", []]);
  });

  test("waits for a value that comes as a thenable of another realm", async () => {
    const { result } = await callWith(
      { inputSchema: standard(() => inOtherRealm("Promise.resolve({ value: 7 })")) },
      {},
    );
    expect(outputOf(result)).toBe(7);
  });

  test("a library that never answers costs the call its own time, and no more", async () => {
    const router = new ToolRouter();
    let ran = false;
    router.register("tool", { inputSchema: standard(() => new Promise(() => {})) as never }, () => {
      ran = true;
    });
    const result = await router.execute({ id: "c", toolName: "tool" }, { timeoutMs: 50 });
    expect([codeOf(result), ran]).toEqual(["TOOL_TIMEOUT", false]);
  });
});

describe("a schema that is neither JSON Schema nor of a library", () => {
  class Schema {
    readonly type = "object";
  }
  const BAD: readonly (readonly [string, unknown, string])[] = [
    ["a promise", Promise.resolve({ type: "object" }), "a Promise"],
    ["a promise of another realm", inOtherRealm("Promise.resolve({})"), "a Promise"],
    ["a Map", new Map(), "a Map"],
    ["an array", [], "an array"],
    ["an instance of a class", new Schema(), "an instance of Schema"],
    ["a function", () => ({}), "a function"],
    ["text", "object", "a string"],
    ["true", true, "a boolean"],
    ["null", null, "null"],
    [
      "a Standard Schema without validate",
      Object.assign(new Schema(), { "~standard": { version: 1 } }),
      "an instance of Schema",
    ],
  ];
  test.for(BAD)("%s is rejected with its path", ([, schema, got]) => {
    const rule = "Expected a Standard Schema or a JSON Schema object, got";
    for (const field of ["inputSchema", "outputSchema"]) {
      const definition = { [field]: schema } as never;
      const error = { code: "PARAM_INVALID", message: `definition.${field}: ${rule} ${got}` };
      expect(thrownBy(() => new ToolRouter().register("tool", definition, ECHO))).toMatchObject(error);
      const source = new ToolRouter().addToolProvider("remote", { call: ECHO });
      expect(thrownBy(() => source.register("tool", definition))).toMatchObject(error);
    }
  });

  test.for<[string, unknown]>([
    ["a library's schema", z.number()],
    ["a promise", Promise.resolve({ type: "number" })],
  ])("%s inside a JSON Schema is rejected, also by toRegisteredTool()", ([, inner]) => {
    const inputSchema = { type: "object", properties: { n: inner } } as never;
    const error = {
      code: "BUNDLE_FAILED",
      message: expect.stringContaining("at /properties/n: expected a plain object"),
    };
    expect(thrownBy(() => new ToolRouter().register("tool", { inputSchema }, ECHO))).toMatchObject(error);
    const definition = { name: "tool", description: "", inputSchema };
    expect(thrownBy(() => toRegisteredTool(definition, fixedExecutor("null"), {}))).toMatchObject(error);
  });
});

describe("AddedToolProvider.register() with a Standard Schema", () => {
  test("validates arguments before the transport is called, and its answers after", async () => {
    const calls: unknown[] = [];
    const router = new ToolRouter();
    const source = router.addToolProvider("remote", {
      call: (_name, input) => {
        calls.push(input);
        return input;
      },
    });
    const inputSchema = z.object({ n: z.number().refine((n) => n > 0, "Expected more than 0") });
    const outputSchema = z.object({ n: z.number().refine((n) => n < 10, "Expected less than 10") });
    source.register("tool", { inputSchema, outputSchema });
    const results = [5, 0, "5", 50].map((n) => router.execute({ id: "c", toolName: "tool", arguments: { n } }));
    expect((await Promise.all(results)).map(codeOf)).toEqual([
      "ok",
      "PARAM_INVALID",
      "PARAM_INVALID",
      "OUTPUT_INVALID",
    ]);
    expect(calls).toEqual([{ n: 5 }, { n: 50 }]);
    expect(router.health()).toMatchObject([{ sourceId: "remote", failures: 0 }]);
  });

  test("keeps the tool's own handling of arguments", async () => {
    const router = new ToolRouter();
    const source = router.addToolProvider("remote", { call: (_name, input) => input });
    const definition = { inputSchema: { type: "object", properties: { n: { type: "number" } } } };
    source.register("tool", definition, { arguments: { coerce: true } });
    expect(outputOf(await router.execute({ id: "c", toolName: "tool", arguments: { n: "5" } }))).toEqual({ n: 5 });
  });
});
