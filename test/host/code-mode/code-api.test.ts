// The declarations of tools for code: they compile in strict mode, accept every valid value, and no schema can inject other code.
import { execFileSync } from "node:child_process";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { createApiOf, createCodeApi } from "../../../src/host/code-mode/api/code-api.ts";
import { codePathsOf, toIdentifier } from "../../../src/host/code-mode/api/code-names.ts";
import { toPythonSignature } from "../../../src/host/code-mode/api/python-api.ts";
import { TypeChecker } from "../../../src/host/code-mode/type-checker/type-checker.ts";
import { compileSchema } from "../../../src/host/json-schema/compile-schema.ts";
import { TypeNames } from "../../../src/host/json-schema/typescript/type-text.ts";
import type { JsonSchema, ToolDefinition } from "../../../src/sandbox/contract/definition.ts";

// The checker is the compiler itself. A busy machine needs time to start it.
const checker = new TypeChecker({ timeoutMs: 60_000 });
afterAll(() => checker[Symbol.asyncDispose]());

const toolOf = (name: string, inputSchema: object, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: `The tool */ \`${name}\``,
  inputSchema: inputSchema as JsonSchema,
  ...more,
});

/** The compiler's messages about code, and about the declarations as a module of their own. */
async function messagesOf(definitions: readonly ToolDefinition[], code: string): Promise<readonly string[]> {
  const { typescript: declarations } = createCodeApi(definitions);
  const own = await checker.check({ code: declarations, declarations: "export {};", form: "module" });
  const use = await checker.check({ code, declarations });
  return [...own.diagnostics, ...use.diagnostics].map(({ message }) => message);
}

interface Pair {
  readonly schema: object;
  readonly value: unknown;
}

const leaf: fc.Arbitrary<Pair> = fc.oneof(
  fc.string({ unit: "binary" }).map((value) => ({ schema: { type: "string", format: "date", minLength: 0 }, value })),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => ({ schema: { type: "number" }, value })),
  fc.integer().map((value) => ({ schema: { type: "integer", minimum: -5 }, value })),
  fc.boolean().map((value) => ({ schema: { type: ["boolean", "null"] }, value })),
  fc.string({ unit: "binary" }).map((value) => ({ schema: { type: "string", nullable: true }, value })),
  fc.jsonValue({ maxDepth: 0 }).map((value) => ({ schema: { const: value }, value })),
  fc
    .array(fc.jsonValue({ maxDepth: 0 }), { minLength: 1, maxLength: 5 })
    .map((values) => ({ schema: { enum: values }, value: values[0] })),
  fc.jsonValue({ maxDepth: 2 }).map((value) => ({ schema: {}, value })),
);
const name = fc.oneof(fc.string({ unit: "binary", maxLength: 8 }), fc.constantFrom("a", "b-c", "new", "constructor"));

const pairs: fc.Arbitrary<Pair> = fc.letrec<{ pair: Pair }>((tie) => ({
  pair: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    leaf,
    fc
      .uniqueArray(fc.tuple(name, tie("pair"), fc.boolean()), { maxLength: 4, selector: ([key]) => key })
      .filter((entries) => entries.every(([key]) => key !== "__proto__"))
      .map((entries) => ({
        schema: {
          type: "object",
          description: "*/ declare const injected: 1; /*",
          properties: Object.fromEntries(entries.map(([key, { schema }]) => [key, schema])),
          required: entries.filter(([, , isRequired]) => isRequired).map(([key]) => key),
        },
        value: Object.fromEntries(entries.map(([key, { value }]) => [key, value])),
      })),
    fc.array(tie("pair"), { maxLength: 3 }).map((items) => ({
      schema: { type: "array", items: { anyOf: items.length === 0 ? [{}] : items.map(({ schema }) => schema) } },
      value: items.map(({ value }) => value),
    })),
    fc.array(tie("pair"), { minLength: 1, maxLength: 3 }).map((items) => ({
      schema: { type: "array", prefixItems: items.map(({ schema }) => schema), minItems: items.length, items: false },
      value: items.map(({ value }) => value),
    })),
    tie("pair").map(({ schema, value }) => ({
      schema: { type: "object", additionalProperties: schema },
      value: { some: value, other: value },
    })),
    tie("pair").map(({ schema, value }) => ({ schema: { oneOf: [{ type: "null" }, schema] }, value })),
  ),
})).pair;

/**
 * Returns a value as code with the types of its literals. Without `as const`, the compiler widens a literal in a union with an index signature
 * (`false` to `boolean` in `[{ constructor: false }]`), and then rejects it.
 */
function toLiterals(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(toLiterals).join(",")}]`;
  if (typeof value !== "object") return `${JSON.stringify(value)} as const`;
  if (value === null) return "null";
  const entries = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}:${toLiterals(each)}`);
  return `{${entries.join(",")}}`;
}

test("accepts every valid value of every schema, in strict mode", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(pairs, { minLength: 20, maxLength: 40 }), async (list) => {
      const definitions = list.map(({ schema }, index) =>
        toolOf(`t${index}`, { type: "object" }, { outputSchema: schema as JsonSchema }),
      );
      const code = list
        .map(
          ({ value }, index) => `const v${index}: Awaited<ReturnType<typeof tools.t${index}>> = ${toLiterals(value)};`,
        )
        .join("\n");
      expect(await messagesOf(definitions, code)).toEqual([]);
    }),
    { numRuns: 25 },
  );
});

test("accepts inputs without an optional property that each object inherits", async () => {
  const names = ["constructor", "toString", "toLocaleString", "valueOf", "hasOwnProperty", "isPrototypeOf"];
  const properties = { x: { type: "string" }, ...Object.fromEntries(names.map((name) => [name, { type: "number" }])) };
  const nested = { type: "object", properties: { in: { type: "array", items: { type: "object", properties } } } };
  const definitions = [
    toolOf("plain", { type: "object", properties }),
    toolOf("nested", nested),
    toolOf("needs", { type: "object", properties, required: ["constructor"] }),
  ];
  const valid = `await tools.plain({}); await tools.plain({ x: "a" }); await tools.plain({ constructor: 1, valueOf: 2 });
    await tools.nested({ in: [{}, { toString: 1 }] }); await tools.needs({ constructor: 1 });`;
  expect(await messagesOf(definitions, valid)).toEqual([]);
  for (const wrong of ['tools.plain({ constructor: "a" })', "tools.plain({ x: 1 })", "tools.needs({})"])
    expect(await messagesOf(definitions, `await ${wrong};`), wrong).toHaveLength(1);
});

test("agrees with the validation that nullable, a keyword of OpenAPI 3.0, does not allow null", async () => {
  const schema: JsonSchema = { type: "object", properties: { x: { type: "string", nullable: true } } };
  const definitions = [toolOf("write", schema), toolOf("read", { type: "object" }, { outputSchema: schema })];
  for (const x of ["a", null]) {
    const isValid = (await compileSchema(schema).validate({ x })).valid;
    const code = `await tools.write({ x: ${JSON.stringify(x)} });`;
    expect(isValid).toBe(x !== null);
    expect(await messagesOf(definitions, code)).toHaveLength(isValid ? 0 : 1);
  }
  expect(await messagesOf(definitions, "const { x } = await tools.read({}); return x?.length;")).toEqual([]);
  const python = toPythonSignature({ path: ["write"], definition: toolOf("write", schema) }, new TypeNames());
  expect(python.method).toContain("x: str = ...");
});

test("has the properties that are next to a reference, unless the dialect ignores them", async () => {
  const Base = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
  const more = { properties: { extra: { type: "string" } }, required: ["extra"] };
  const schema: JsonSchema = { $ref: "#/$defs/Base", ...more, $defs: { Base } };
  const old: JsonSchema = { $schema: "http://json-schema.org/draft-07/schema#", ...schema };
  const definitions = [toolOf("now", schema), toolOf("old", old)];
  for (const [tool, given] of [
    ["now", schema],
    ["old", old],
  ] as const)
    for (const input of [{ id: 1 }, { id: 1, extra: "a" }, { extra: "a" }]) {
      const isValid = (await compileSchema(given).validate(input)).valid;
      // The types of an open object list its properties: others are a mistake more often than not.
      const isListed = tool === "now" || !("extra" in input);
      const code = `await tools.${tool}(${JSON.stringify(input)});`;
      expect(await messagesOf(definitions, code), code).toHaveLength(isValid && isListed ? 0 : 1);
    }
});

test("a class in Python has the fields of references and of allOf", () => {
  const Base: JsonSchema = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
  const more: JsonSchema = { type: "object", properties: { extra: { type: "string" } } };
  for (const schema of [
    { $ref: "#/$defs/Base", ...more, $defs: { Base } },
    { ...more, allOf: [{ $ref: "#/$defs/Base" }], $defs: { Base } },
    { allOf: [{ $ref: "#/$defs/Base" }, more, { $ref: "#" }], $defs: { Base } },
  ] as readonly JsonSchema[]) {
    const { method, classes } = toPythonSignature(
      { path: ["save"], definition: toolOf("save", schema) },
      new TypeNames(),
    );
    expect(method).toMatch(/^async def save\(self, input: SaveInput, \/\)/);
    expect(classes.join()).toContain("    id: int");
    expect(classes.join()).toContain("    extra: NotRequired[str]");
  }
});

test("Python types of schemas that share their parts do not multiply what is shared", () => {
  const twice = (target: JsonSchema): JsonSchema => ({ allOf: [target, target] });
  const levels = 40;
  const shared: JsonSchema = { required: ["a"], properties: { a: { type: "integer" } } };
  const doubled = Object.fromEntries(
    Array.from({ length: levels }, (_, n) => [`d${n}`, n > 5 ? shared : twice({ $ref: `#/$defs/d${n + 1}` })]),
  );
  const input: JsonSchema = { type: "object", allOf: [{ $ref: "#/$defs/d0" }], $defs: doubled };
  const { method, classes } = toPythonSignature({ path: ["save"], definition: toolOf("save", input) }, new TypeNames());
  expect(method).toContain("input: SaveInput");
  expect(classes.join()).toBe("class SaveInput(TypedDict):\n    a: int");
  // Each level doubles the names of the next one: without a limit, 2 ** 39 of them.
  const deep = Object.fromEntries(
    Array.from({ length: levels }, (_, n) => [
      `d${n}`,
      n === levels - 1 ? shared : twice({ $ref: `#/$defs/d${n + 1}` }),
    ]),
  );
  const api = createCodeApi([toolOf("deep", { ...input, $defs: deep })]);
  expect(api.describe(api.tools[0] as never, "python")).toContain("async def tools.deep(input: ");
  // Each of many parts refers to the same schema with many fields.
  const names = Array.from({ length: 5_000 }, (_, n) => `field${n}`);
  const fields = { properties: Object.fromEntries(names.map((key) => [key, {}])), required: names };
  const properties = Object.fromEntries(
    names.slice(0, 150).map((key) => [
      key,
      {
        anyOf: Array(30)
          .fill(null)
          .map(() => twice({ $ref: "#/$defs/d0" })),
      },
    ]),
  );
  const wide = createCodeApi([toolOf("wide", { type: "object", properties, $defs: { d0: fields } })]);
  expect(wide.describe(wide.tools[0] as never, "python")).toContain("field0: dict[str, Any]");
});

test("a list in Python has the types of all its items, also of those that are described one by one", () => {
  const number = { type: "number" };
  const outputSchema = {
    type: "object",
    properties: {
      pair: { type: "array", prefixItems: [number, { type: "string" }], items: false },
      flags: { type: "array", prefixItems: [number], items: { type: "boolean" } },
      open: { type: "array", prefixItems: [number] },
      all: { type: "array", items: number },
    },
    required: ["pair", "flags", "open", "all"],
  } as const;
  const definition = { name: "lists", description: "", inputSchema: { type: "object" }, outputSchema } as const;
  const { python } = createCodeApi([definition as never]);
  expect(python).toContain(
    "    pair: list[float | str]\n    flags: list[float | bool]\n    open: list[Any]\n    all: list[float]\n",
  );
});

test("compiles for any JSON as a schema", async () => {
  const keyword = fc.constantFrom(
    ...["type", "properties", "items", "prefixItems", "enum", "$ref", "allOf", "anyOf", "oneOf", "const", "required"],
    ...["additionalProperties", "patternProperties", "description", "default", "nullable", "format"],
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.string({ minLength: 1 }), fc.dictionary(keyword, fc.jsonValue({ maxDepth: 3 }))), {
        maxLength: 40,
      }),
      async (list) => {
        const definitions = list.map(([tool, schema], index) =>
          toolOf(`${tool.replaceAll(/[^\w.-]/g, "-")}${index}`, schema, {
            outputSchema: schema as JsonSchema,
            description: tool,
          }),
        );
        expect(await messagesOf(definitions, "return 1")).toEqual([]);
      },
    ),
    { numRuns: 25 },
  );
});

const TEXTS = [
  "*/ } declare const injected: number; /*",
  "`$\u007binjected}`",
  "\u2028// @ts-ignore\u2029",
  "\u202e\u{e0041}",
  "\n/// <reference path='/etc/passwd'/>",
  '"; injected; "',
  "\\",
];

test("a text of a schema never becomes code", async () => {
  const schema = {
    title: TEXTS[0],
    type: "object",
    properties: Object.fromEntries(
      TEXTS.map((text) => [text, { type: "string", description: text, default: text, pattern: text, enum: TEXTS }]),
    ),
    required: TEXTS,
    $defs: { [TEXTS[0] as string]: { type: "string" } },
    additionalProperties: { $ref: `#/$defs/${TEXTS[0]}` },
  };
  const definitions = [toolOf("a", schema, { description: TEXTS.join(" ") })];
  const { typescript, python } = createCodeApi(definitions);
  expect(await messagesOf(definitions, "return typeof tools.a")).toEqual([]);
  for (const text of [typescript, python]) {
    expect(text).not.toMatch(/[^\P{Cc}\n]|[\u2028\u2029\u202a-\u202e]|[\u{e0000}-\u{e007f}]/u);
    // Outside of comments and literals there is nothing of it.
    expect(text.replaceAll(/"(?:[^"\\\n]|\\.)*"|\/\*.*?\*\//g, "")).not.toMatch(/injected|reference|ts-ignore/);
  }
});

test("bounds what hostile schemas become", () => {
  const nested = Array.from({ length: 5_000 }).reduce<object>((inner) => ({ type: "array", items: inner }), {});
  const $defs = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [
      `d${n}`,
      {
        type: "object",
        properties: { a: { $ref: `#/$defs/d${n + 1}` }, b: { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, {}] } },
      },
    ]),
  );
  const wide = {
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length: 50_000 }, (_, n) => [`p${n}`, { type: "string", description: "x".repeat(300) }]),
    ),
  };
  const long = { type: "object", properties: { ["x".repeat(1_000_000)]: { const: "y".repeat(1_000_000) } } };
  const many = Array.from({ length: 20 }, (_, n) => toolOf(`many${n}`, wide));
  for (const schema of [nested, { $defs, $ref: "#/$defs/d0" }, wide, long, { $ref: "#" }, { allOf: [{ $ref: "#" }] }]) {
    const api = createCodeApi([toolOf("a", schema, { outputSchema: schema as JsonSchema })]);
    expect(api.typescript.length).toBeLessThan(200_000);
    expect(api.python.length).toBeLessThan(200_000);
  }
  const api = createCodeApi(many);
  expect(api.typescript.length + api.python.length).toBeLessThan(8 * 1024 * 1024);
});

test("converts chains of thousands of references, and thousands of definitions of one name", async () => {
  const length = 4_900;
  const chainOf = (link: (next: object) => object, end: object): object =>
    Object.fromEntries(
      Array.from({ length }, (_, n) => [`d${n}`, n === length - 1 ? end : link({ $ref: `#/$defs/d${n + 1}` })]),
    );
  const first = { properties: { first: { $ref: "#/$defs/d0" } } };
  const chains = [
    chainOf((next) => next, { type: "string" }),
    chainOf((next) => ({ allOf: [next] }), { type: "string" }),
    chainOf((next) => ({ anyOf: [next, { type: "null" }] }), { type: "string" }),
    chainOf((next) => ({ type: "array", items: next }), { type: "string" }),
  ];
  const same = Object.fromEntries(Array.from({ length }, (_, n) => [`a${"-".repeat(n)}`, { type: "string" }]));
  const definitions = [
    ...chains.map(($defs, n) => toolOf(`chain${n}`, { type: "object", ...first, $defs })),
    toolOf("same", { anyOf: Object.keys(same).map((key) => ({ $ref: `#/$defs/${key}` })), $defs: same }),
  ];
  expect(await messagesOf(definitions, "return await tools.chain1({ first: null as any });")).toEqual([]);
  const api = createCodeApi(definitions);
  for (const tool of api.tools)
    for (const language of ["typescript", "python"] as const)
      expect(api.describe(tool, language)).toContain(`tools.${tool.codeName}(`);
});

test("references keep their types where types refer to each other directly and within objects", async () => {
  const ref = (name: string): object => ({ $ref: `#/$defs/${name}` });
  const schema = {
    type: "object",
    properties: { a: ref("a"), b: ref("b"), tree: ref("tree"), self: { $ref: "#" } },
    $defs: {
      a: { anyOf: [ref("b"), { type: "string" }] },
      b: { anyOf: [ref("a"), { type: "number" }] },
      tree: { type: "object", properties: { children: { type: "array", items: ref("tree") }, value: ref("text") } },
      text: { allOf: [{ type: "string" }] },
    },
  };
  const definitions = [toolOf("walk", schema, { outputSchema: schema as JsonSchema })];
  const valid = `const { tree } = await tools.walk({ a: "x", tree: { children: [{ value: "y" }] }, self: { a: "z" } });
    return tree?.children?.[0]?.children?.length;`;
  expect(await messagesOf(definitions, valid)).toEqual([]);
  expect(await messagesOf(definitions, "await tools.walk({ tree: { children: [{ value: true }] } });")).toHaveLength(1);
});

test("makes a bounded amount of declarations, between which other work goes on", async () => {
  const properties = Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`p${n}`, { type: "string" }]));
  const large = Array.from({ length: 1_000 }, (_, n) => toolOf(`large${n}`, { type: "object", properties }));
  const small = { type: "object", properties: { a: { type: "string" } } };
  const api = createApiOf([toolOf("first", small), ...large, toolOf("last", small)], { isDurable: false });
  let turns = 0;
  const count = (): void => {
    turns += 1;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  const text = await api.declareTypeScript().finally(() => clearImmediate(timer));
  expect(turns).toBeGreaterThan(30);
  expect(text).toContain("first(input?: {\n    a?: string;\n  }): Promise<unknown>;");
  // Types that are too long are made, and left out, for the first of the tools only.
  expect(text).toContain("large0(input?: { [key: string]: unknown }): Promise<unknown>;");
  expect(text).toContain("large999(input?: any): Promise<any>;");
  expect(text).toContain("last(input?: any): Promise<any>;");
  expect(api.typescript).toBe(text);
  expect(await api.declareTypeScript()).toBe(text);
  expect(api.python).toContain("async def last(self, ");
});

test("the declarations in Python are valid", () => {
  const tree = {
    type: "object",
    properties: { value: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } },
    required: ["value"],
  };
  const { python } = createCodeApi([
    toolOf("walk", { $ref: "#/$defs/tree", $defs: { tree } }, { outputSchema: { enum: ["a", 1, null, true] } }),
    toolOf("csv-stats", { type: "object", properties: { from: { type: "string" }, "a b": { type: "number" } } }),
    toolOf("send", {
      type: "object",
      properties: { to: { type: "string" }, cc: { type: ["string", "null"] } },
      required: ["to"],
    }),
    toolOf("gh__list", {}, { origin: { server: "gh", toolName: "list", isTrusted: false } }),
    ...TEXTS.map((text, index) =>
      toolOf(`t${index}`, { type: "object", properties: { [text]: { const: text } } }, { description: text }),
    ),
  ]);
  execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.stdin.read())"], { input: python });
  expect(python).toContain("async def send(self, *, to: str, cc: str | None = ...) -> Any:");
  expect(python).toContain("class GhTools:");
});

test("shows constraints, namespaces and optional inputs", () => {
  const api = createCodeApi([
    toolOf(
      "gh__create_issue",
      {
        type: "object",
        properties: {
          title: { type: "string", maxLength: 80, description: "Title" },
          due: { type: "string", format: "date" },
        },
        required: ["title"],
      },
      {
        origin: { server: "gh", toolName: "create_issue", isTrusted: false },
        description: "Creates an issue",
        outputSchema: { type: "object", properties: { id: { type: "integer" } }, required: ["id"] },
      },
    ),
    toolOf("list", { type: "object", properties: { limit: { type: "integer" } } }),
  ]);
  const [create, list] = api.tools;
  expect(api.describe(create as never, "typescript")).toBe(
    `/** Creates an issue */
tools.gh.create_issue(input: {
  /** Title (maxLength: 80) */
  title: string;
  /** format: date */
  due?: string;
}): Promise<{
  /** integer */
  id: number;
}>;`,
  );
  expect(api.describe(list as never, "typescript")).toContain("tools.list(input?: {");
  expect(api.describe(create as never, "python")).toContain(
    "async def tools.gh.create_issue(*, title: str, due: str = ...) -> GhCreateIssueOutput:",
  );
  expect(api.find("gh.create_issue")?.toolName).toBe("gh__create_issue");
  expect(api.find("gh__create_issue")?.codeName).toBe("gh.create_issue");
});

test("names in code are identifiers, unique, and the same in any order", () => {
  const tool = fc.record({
    name: fc.stringMatching(/^[A-Za-z0-9_.-]{1,20}$/),
    server: fc.option(fc.constantFrom("gh", "my-server", "a.b", "list")),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(tool, { maxLength: 30, selector: ({ name: own, server }) => `${server ?? ""}__${own}` }),
      (tools) => {
        const definitions = tools.map(({ name: own, server }) =>
          server === null
            ? toolOf(own, {})
            : toolOf(`${server}__${own}`, {}, { origin: { server, toolName: own, isTrusted: true } }),
        );
        const unique = [...new Map(definitions.map((one) => [one.name, one])).values()];
        const paths = codePathsOf(unique);
        const names = [...paths.values()].map((path) => path.join("."));
        expect(new Set(names).size).toBe(unique.length);
        for (const path of paths.values()) for (const part of path) expect(part).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
        expect(codePathsOf([...unique].reverse())).toEqual(paths);
      },
    ),
  );
  expect(["csv-stats", "2d.plot", "new", "class", "add", "then", "__x"].map(toIdentifier)).toEqual([
    ...["csv_stats", "t2d_plot", "new_", "class_", "add", "then_", "x"],
  ]);
});

test("durable code in Python has declarations of what it can wait for and undo", () => {
  const tools = [toolOf("awaitable", { type: "object", properties: { a: { type: "object", properties: { b: {} } } } })];
  const { python } = createApiOf(tools, { isDurable: true });
  const check = "import ast, sys; text = sys.stdin.read(); ast.parse(text); exec(text)";
  execFileSync("python3", ["-c", check], { input: python });
  expect(python).toContain("def onRollback(self, run: Callable[[], Any], /) -> Awaitable[None]:");
  expect(createCodeApi(tools).python).not.toContain("_Ctx");
});
