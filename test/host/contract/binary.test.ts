// Tests bytes and content parts between a caller and a tool, in both directions, through real processes.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ToolValue, toJson } from "../../../src/host/contract/tool-value.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, errorOf, makeGlovebox } from "../../support/host-zone.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  await glovebox.addTool({ name: "echo", source: "export default (input) => input;", overrides: {} });
});
afterAll(() => glovebox.close());

let added = 0;
async function run(source: string, definition: object = {}, args: unknown = {}) {
  added += 1;
  const { name } = await glovebox.addTool({ name: `binary${added}`, source, overrides: definition });
  return await glovebox.execute({ id: "c", toolName: name, arguments: args }, { timeoutMs: 120_000 });
}

async function outputOf(source: string, definition: object = {}, args: unknown = {}): Promise<ToolValue> {
  const result = await run(source, definition, args);
  if (result.success) return result.output;
  throw new Error(`${result.error.code}: ${result.error.message}`);
}

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);

describe("bytes in an output", () => {
  test.for([
    ["at the top", "new Uint8Array([1, 2])", bytes(1, 2)],
    ["deep inside", "({ a: [{ b: new Uint8Array([1]) }, new Uint8Array([2])] })", { a: [{ b: bytes(1) }, bytes(2)] }],
    ["an ArrayBuffer", "new Uint8Array([3]).buffer", bytes(3)],
    ["a view of a larger buffer", "new Uint8Array([1, 2, 3]).subarray(1, 2)", bytes(2)],
    ["empty bytes", "[new Uint8Array(), new ArrayBuffer(0)]", [bytes(), bytes()]],
    ["a subclass of Uint8Array", "new (class Mine extends Uint8Array {})([5])", bytes(5)],
    [
      "next to text that looks like a placeholder",
      `["glovebox:bytes:0", new Uint8Array([1])]`,
      ["glovebox:bytes:0", bytes(1)],
    ],
    ["a Buffer of node:buffer", "Buffer.from('hi')", bytes(104, 105)],
    ["with a frozen prototype", "(Object.freeze(Uint8Array.prototype), [new Uint8Array([1])])", [bytes(1)]],
    ["with a toJSON method of the tool", "(Uint8Array.prototype.toJSON = () => 5, [new Uint8Array([1])])", [bytes(1)]],
    ["other typed arrays, which are objects", "new Uint16Array([1, 2])", { 0: 1, 1: 2 }],
  ] as const)("%s", async ([, value, expected]) => {
    expect(await outputOf(`export default () => ${value};`)).toStrictEqual(expected);
  });

  test("do not change JSON.stringify in the tool", async () => {
    const source = `export default () => {
      const before = JSON.stringify([new Uint8Array([1]), new ArrayBuffer(1)]);
      return [before, typeof Uint8Array.prototype.toJSON, Object.keys(new Uint8Array(1))];
    };`;
    expect(await outputOf(source)).toEqual(['[{"0":1},{}]', "undefined", ["0"]]);
  });

  test("count towards outputBytes with their exact size", async () => {
    const source = "export default ({ n }) => ({ data: new Uint8Array(n) });";
    const limits = { limits: { outputBytes: 1_000 } };
    expect(codeOf(await run(source, limits, { n: 900 }))).toBe("ok");
    expect(codeOf(await run(source, limits, { n: 1_001 }))).toBe("OUTPUT_TOO_LARGE");
  });

  test("an output has at most 1,000 binary attachments", async () => {
    const source = "export default ({ n }) => Array.from({ length: n }, (_, i) => new Uint8Array([i]));";
    expect(await outputOf(source, {}, { n: 1_000 })).toHaveLength(1_000);
    expect(errorOf(await run(source, {}, { n: 1_001 })).code).toBe("OUTPUT_INVALID");
  });

  test("bytes of several megabytes in an output arrive unchanged", async () => {
    const source = "export default () => ({ data: new Uint8Array(5e6).map((_, i) => i % 251), end: true });";
    const { data } = (await outputOf(source)) as { readonly data: Uint8Array };
    expect(Buffer.from(data).equals(Buffer.from(new Uint8Array(5e6).map((_, i) => i % 251)))).toBe(true);
  });

  test.for([
    ["match a schema with base64", { type: "string", contentEncoding: "base64" }, "ok"],
    ["do not match a schema with another type", { type: "number" }, "OUTPUT_INVALID"],
  ] as const)("%s", async ([, schema, code]) => {
    const outputSchema = { type: "object", properties: { data: schema } };
    const source = "export default ({ n }) => ({ data: new Uint8Array(n) });";
    expect(codeOf(await run(source, { outputSchema }, { n: 3 }))).toBe(code);
    expect(codeOf(await run(source, { outputSchema }, { n: 400_000 }))).toBe(code);
  });

  test("bytes in a definition are rejected", async () => {
    const source = "export const annotations = { title: new Uint8Array(1) }; export default () => 1;";
    await expect(glovebox.addTool({ name: "binary-definition", source })).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
    });
  });
});

describe("bytes in arguments", () => {
  test("bytes of any value in arguments return from a tool unchanged", async () => {
    const leaf = fc.oneof(fc.string(), fc.integer(), fc.constant("glovebox:bytes:0"), fc.uint8Array({ maxLength: 9 }));
    const value = fc.dictionary(
      fc.string().filter((key) => key !== "__proto__"),
      fc.oneof(leaf, fc.array(leaf)),
      {
        noNullPrototype: true,
      },
    );
    await fc.assert(
      fc.asyncProperty(value, async (args) => {
        const result = await glovebox.execute({ id: "c", toolName: "echo", arguments: args }, { timeoutMs: 120_000 });
        expect(result).toMatchObject({ success: true });
        expect(result.success && result.output).toStrictEqual(args);
      }),
      { numRuns: 30 },
    );
  });

  test("are bytes in the tool and for its schema library", async () => {
    const source = `import { z } from "zod";
      export const inputSchema = z.object({ data: z.instanceof(Uint8Array) });
      export default ({ data }) => data.reverse();`;
    expect(await outputOf(source, {}, { data: Buffer.from([1, 2]) })).toStrictEqual(bytes(2, 1));
    expect(codeOf(await run(source, {}, { data: "text" }))).toBe("PARAM_INVALID");
  });

  test("are base64 for a JSON Schema, and count towards inputBytes", async () => {
    const definition = {
      inputSchema: { type: "object", properties: { data: { type: "string", contentEncoding: "base64" } } },
      limits: { inputBytes: 1_000 },
    };
    const source = "export default ({ data }) => data.length;";
    expect(await outputOf(source, definition, { data: bytes(1, 2, 3) })).toBe(3);
    expect(codeOf(await run(source, definition, { data: new Uint8Array(1_000) }))).toBe("PARAM_INVALID");
  });

  test("reach a host function, and return from it", async () => {
    glovebox.router.register("host-echo", {}, (input) => [input, Buffer.from("hi")]);
    const result = await glovebox.execute({ id: "c", toolName: "host-echo", arguments: { data: bytes(9) } });
    expect(result.success && result.output).toStrictEqual([{ data: bytes(9) }, bytes(104, 105)]);
  });
});

const CONTENT = `import { audio, content, image, resource, resourceLink, text } from "glovebox/tool";`;

describe("content", () => {
  test("content of each kind arrives with its bytes, and toJson() converts it to MCP's form", async () => {
    const source = `${CONTENT}
      export default () => content([
        text("hi", { audience: ["user"], priority: 0.5 }),
        image(new Uint8Array([104, 105]), "image/png"),
        audio(new Uint8Array([1]), "audio/wav"),
        resource({ uri: "file:///a", text: "a" }),
        resource({ uri: "file:///b", mimeType: "x/y", blob: new Uint8Array([104, 105]) }),
        resourceLink({ uri: "https://example.com", name: "example", size: 3 }),
      ], { n: 1 });`;
    const result = await run(source);
    expect(result).toMatchObject({ success: true, output: { n: 1 } });
    const content = result.success ? result.content : undefined;
    expect(content?.[1]).toStrictEqual({ type: "image", data: bytes(104, 105), mimeType: "image/png" });
    expect(toJson(content as unknown as ToolValue)).toEqual([
      { type: "text", text: "hi", annotations: { audience: ["user"], priority: 0.5 } },
      { type: "image", data: "aGk=", mimeType: "image/png" },
      { type: "audio", data: "AQ==", mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "file:///a", text: "a" } },
      { type: "resource", resource: { uri: "file:///b", mimeType: "x/y", blob: "aGk=" } },
      { type: "resource_link", uri: "https://example.com", name: "example", size: 3 },
    ]);
  });

  test("content without an output has the output null; a plain output has no content", async () => {
    expect(await run(`${CONTENT} export default () => content([text("a")]);`)).toMatchObject({
      output: null,
      content: [{ type: "text", text: "a" }],
    });
    expect(await run("export default () => 1;")).not.toHaveProperty("content");
  });

  test("does not affect the validation of the output", async () => {
    const outputSchema = { type: "object", required: ["n"] };
    const source = (output: string) => `${CONTENT} export default () => content([text("a")], ${output});`;
    expect(codeOf(await run(source("{ n: 1 }"), { outputSchema }))).toBe("ok");
    expect(codeOf(await run(source("{}"), { outputSchema }))).toBe("OUTPUT_INVALID");
  });

  test("can be the return value of a stream", async () => {
    const source = `${CONTENT} export default async function* () { yield 1; return content([text("a")], "end"); }`;
    const { name } = await glovebox.addTool({ name: "binary-stream", source });
    const items = [];
    for await (const item of glovebox.stream({ id: "c", toolName: name })) items.push(item);
    expect(items).toMatchObject([
      { type: "chunk", value: 1 },
      { type: "result", output: "end", content: [{ type: "text", text: "a" }] },
    ]);
  });

  test.for([
    ["an object instead of a list", "{}", "OUTPUT_INVALID"],
    ["a part of an unknown type", `[{ type: "video" }]`, "OUTPUT_INVALID"],
    ["a part with an unknown key", `[{ type: "text", text: "a", more: 1 }]`, "OUTPUT_INVALID"],
    ["a text part without text", `[{ type: "text" }]`, "OUTPUT_INVALID"],
    ["an image as text", `[{ type: "image", data: "aGk=", mimeType: "image/png" }]`, "OUTPUT_INVALID"],
    ["values that are not JSON", "[() => {}, Symbol.iterator, 1n]", "OUTPUT_INVALID"],
    ["too many parts", `Array.from({ length: 1001 }, () => text(""))`, "OUTPUT_INVALID"],
    ["too many bytes", `[text("x".repeat(9e6))]`, "OUTPUT_TOO_LARGE"],
  ] as const)("content with %s is rejected", async ([, parts, code]) => {
    expect(codeOf(await run(`${CONTENT} export default () => content(${parts}, 1);`))).toBe(code);
  });

  test("content of a host function is validated in the same way", async () => {
    const symbol = Symbol.for("glovebox.content");
    const partsOf = (input: unknown): unknown => (input as { readonly parts: unknown }).parts;
    glovebox.router.register("host-content", {}, (input) => ({ [symbol]: partsOf(input), output: 1 }));
    const call = (parts: unknown) => glovebox.execute({ id: "c", toolName: "host-content", arguments: { parts } });
    expect(await call([{ type: "text", text: "a" }])).toMatchObject({ output: 1, content: [{ type: "text" }] });
    expect(codeOf(await call([{ type: "video" }]))).toBe("OUTPUT_INVALID");
  });
});
