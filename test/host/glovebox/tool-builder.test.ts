// What is built of a tool's source: its name, and warnings about schemas that it exports under a name that is not read, so that nothing
// would validate its input.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ToolWarning } from "../../../src/host/config/glovebox-options.ts";
import type { ToolInput } from "../../../src/host/config/tool-options.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, failureOf, makeGlovebox, PYTHON_CACHE } from "../../support/host-zone.ts";

let glovebox: Glovebox;
const warned: ToolWarning[] = [];
beforeAll(async () => {
  glovebox = await makeGlovebox({
    cache: PYTHON_CACHE,
    onWarning: (warning) => warned.push(warning),
    limits: { timeoutMs: 60_000 },
  });
});
afterAll(() => glovebox.close());

const SCHEMA = '{ type: "object", properties: { n: { type: "number" } }, required: ["n"] }';
const warningsOf = async (
  source: string,
  language: "javascript" | "python" = "javascript",
): Promise<readonly string[]> => (await glovebox.inspectTool({ source, language })).warnings;

test("properties of a function that is the default export are part of the definition", async () => {
  const source = `const pay = ({ n }) => n; pay.inputSchema = ${SCHEMA}; pay.description = "Pays"; export default pay`;
  const { definition } = await glovebox.inspectTool({ source });
  expect(definition).toMatchObject({ description: "Pays", inputSchema: { required: ["n"] } });
  const named = await glovebox.inspectTool({ source: `export const description = "Named"; ${source}` });
  expect(named.definition.description).toBe("Named");
});

test.for([
  ["input_schema = []", /^Expected input_schema to be a JSON Schema as a dict, got a value of type list/],
  ["output_schema = ''", /^Expected output_schema to be .*, got a value of type str/],
  ["async def load():\n    return {}\ninput_schema = load()", /got a value of type coroutine. Await it first/],
  ["annotations = []", /^Expected annotations to be a dict, got a value of type list/],
  ["limits = 5", /^Expected limits to be a dict, got a value of type int/],
  ["capabilities = 5", /^Expected capabilities to be a dict or a list of names, got a value of type int/],
  ["description = []", /^Expected description to be a str, got a value of type list/],
  ["name = 5", /^Expected name to be a str, got a value of type int/],
] as const)("a module in Python is rejected with %j", async ([field, message]) => {
  const error = await failureOf(
    glovebox.inspectTool({ source: `${field}\ndef main(input):\n    return 1\n`, language: "python" }),
  );
  expect([error.code, error.message]).toEqual(["BUNDLE_FAILED", expect.stringMatching(message)]);
});

test.for(["inputSchema", "outputSchema"])("inspectTool() rejects an unusable %s, as addTool() does", async (name) => {
  const source = `export const ${name} = { type: "objct" }; export default () => 1`;
  const rejected = {
    code: "BUNDLE_FAILED",
    message: expect.stringContaining(`The ${name} is not a usable JSON Schema`),
  };
  await expect(glovebox.inspectTool({ source })).rejects.toMatchObject(rejected);
  await expect(glovebox.addTool({ source })).rejects.toMatchObject(rejected);
});

describe("a warning names the export and the right one", () => {
  test.for([
    ...["parameters", "schema", "input", "args", "params", "inputschema", "input_schema", "jsonSchema", "INPUT_SCHEMA"],
  ])("a module that exports %s causes a warning", async (name) => {
    const [warning, ...rest] = await warningsOf(`export const ${name} = ${SCHEMA}; export default ({ n }) => n`);
    expect(warning).toContain(JSON.stringify(name));
    expect(warning).toContain('"inputSchema"');
    expect(rest).toEqual([]);
  });

  test("a default export that has parameters causes a warning", async () => {
    const source = `export default { parameters: ${SCHEMA}, execute: ({ n }) => n }`;
    expect(await warningsOf(source)).toEqual([expect.stringMatching(/"parameters".*"inputSchema"/)]);
  });

  test("a function with a property parameters causes a warning", async () => {
    const source = `const f = () => 1; f.parameters = ${SCHEMA}; export default f`;
    expect(await warningsOf(source)).toEqual([expect.stringMatching(/"parameters".*"inputSchema"/)]);
  });

  test.for([
    ["tool", `{ type: "function", function: { name: "f", parameters: ${SCHEMA} } }`],
    ["definition", `{ type: "function", name: "f", parameters: ${SCHEMA} }`],
    ["spec", `{ name: "f", description: "d", input_schema: ${SCHEMA} }`],
  ] as const)("a definition in the form of another framework causes a warning: %s", async ([name, value]) => {
    const [warning, ...rest] = await warningsOf(`export const ${name} = ${value}; export default () => 1`);
    expect(warning).toMatch(new RegExp(`"${name}".*"inputSchema"`));
    expect(rest).toEqual([]);
  });

  test("an output schema under a wrong name causes a warning", async () => {
    const source = `export const output_schema = { type: "number" }; export default () => 1`;
    expect(await warningsOf(source)).toEqual([expect.stringMatching(/"output_schema".*output.*"outputSchema"/)]);
  });

  test("a schema of a library, which may be a function, causes a warning under a wrong name", async () => {
    const standard = "{ '~standard': { version: 1, vendor: 'x', validate: (value) => ({ value }) } }";
    const source = `export const schema = Object.assign(() => 1, ${standard}); export default () => 1`;
    expect(await warningsOf(source)).toHaveLength(1);
  });

  test.for(["inputSchema", "parameters", "schema"])("a module in Python with %s causes a warning", async (name) => {
    const source = `${name} = {"type": "object", "required": ["n"]}\ndef main(input):\n    return 1\n`;
    expect(await warningsOf(source, "python")).toEqual([expect.stringMatching(`"${name}".*"input_schema"`)]);
  });
});

describe("no warning is given", () => {
  test.for<readonly [string, string]>([
    ["with the right export", `export const inputSchema = ${SCHEMA}; export default () => 1`],
    ["with both", `export const inputSchema = ${SCHEMA}; export const parameters = {}; export default () => 1`],
    [
      "for a value that is not a schema",
      "export const args = ['a']; export const schema = 'v1'; export default () => 1",
    ],
    ["for a function", "export function input() {} export default () => 1"],
    ["for a getter that throws", "export default { get parameters() { throw new Error() }, execute: () => 1 }"],
    [
      "for names of Object.prototype",
      "export const constructor = {}; export const toString = {}; export default () => 1",
    ],
  ])("%s", async ([, source]) => {
    expect(await warningsOf(source)).toEqual([]);
  });

  test("no warning is given where the host states the schema", async () => {
    const source = `export const parameters = ${SCHEMA}; export default () => 1`;
    const definition = { inputSchema: { type: "object" } };
    expect((await glovebox.inspectTool({ source, overrides: definition })).warnings).toEqual([]);
  });
});

test("addTool() passes the warning to onWarning, adds the tool, and does not list the name as part of its definition", async () => {
  warned.length = 0;
  const source = `export const parameters = ${SCHEMA}; export default () => 1`;
  const definition = await glovebox.addTool({ name: "misnamed", source });
  expect(definition).toEqual({ name: "misnamed", description: "", inputSchema: { type: "object" } });
  expect(warned).toEqual([{ toolName: "misnamed", message: expect.stringContaining('"inputSchema"') }]);
  expect(codeOf(await glovebox.execute({ id: "c", toolName: "misnamed" }))).toBe("ok");
});

test.for(["parameters", "schema", "input_schema"])("addTool() rejects overrides with %s", async (name) => {
  const overrides = { [name]: { type: "object" } } as never;
  const error = await failureOf(glovebox.addTool({ source: "export default () => 1", overrides }));
  expect([error.code, error.message]).toEqual(["PARAM_INVALID", expect.stringContaining(`overrides.${name}`)]);
});

test("without onWarning and logger the process emits the warning; a listener that throws fails nothing", async () => {
  const source = `export const parameters = ${SCHEMA}; export default () => 1`;
  const seen: Error[] = [];
  const listen = (warning: Error): void => void seen.push(warning);
  process.on("warning", listen);
  await using plain = await makeGlovebox();
  await plain.addTool({ name: "misnamed", source });
  await expect.poll(() => seen.map(({ message }) => message)).toContainEqual(expect.stringContaining('"inputSchema"'));
  process.off("warning", listen);
  const onWarning = () => Promise.reject(new Error("no"));
  await using rejecting = await makeGlovebox({ onWarning: onWarning as never });
  expect((await rejecting.addTool({ name: "misnamed", source })).name).toBe("misnamed");
});

describe("the name of a tool", () => {
  const NAMED = "export const name = 'own'; export default () => 1";
  const UNNAMED = "export default () => 1";
  const PYTHON = 'name = "own"\ndef main(input):\n    return 1\n';
  const nameOf = async (tool: ToolInput): Promise<string> => (await glovebox.inspectTool(tool)).definition.name;

  test.for<readonly [string, ToolInput, string]>([
    ["the given one", { name: "given", source: NAMED }, "given"],
    ["the given one, in Python", { name: "given", source: PYTHON, language: "python" }, "given"],
    ["the exported one, not the default", { defaultName: "other", source: NAMED }, "own"],
    ["the exported one, in Python", { defaultName: "other", source: PYTHON, language: "python" }, "own"],
    ["the default if the code exports none", { defaultName: "other", source: UNNAMED }, "other"],
    ["the given one, with a default", { name: "given", defaultName: "other", source: UNNAMED }, "given"],
    ["the one of overrides", { overrides: { name: "over" }, source: NAMED }, "over"],
    ["stated twice", { name: "same", overrides: { name: "same" }, source: NAMED }, "same"],
    ["that of its entry", { files: { "sum.ts": UNNAMED }, entry: "sum.ts" }, "sum"],
  ])("is %s", async ([, tool, expected]) => {
    expect(await nameOf(tool)).toBe(expected);
  });

  test("applies to addTool() and updateTool(), so that a tool that exports its name can be added twice", async () => {
    expect((await glovebox.addTool({ name: "first", source: NAMED })).name).toBe("first");
    expect((await glovebox.addTool({ name: "second", source: NAMED })).name).toBe("second");
    const updated = await glovebox.updateTool({ name: "second", source: NAMED.replace("=> 1", "=> 2") });
    expect(updated.name).toBe("second");
    const outputs = ["first", "second"].map(
      async (name) => (await glovebox.execute({ id: name, toolName: name })).success,
    );
    expect(await Promise.all(outputs)).toEqual([true, true]);
  });

  test("is rejected if two are given", async () => {
    const failure = await failureOf(glovebox.inspectTool({ name: "a", overrides: { name: "b" }, source: NAMED }));
    expect(failure).toMatchObject({ code: "PARAM_INVALID", message: expect.stringMatching(/"a".*"b".*one name/) });
  });
});
