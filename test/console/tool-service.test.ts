// What the editor says about the code of a tool: with the types of what the tool was granted, and of the tools of its tenant.
import { createRequire } from "node:module";
import { beforeAll, describe, expect, test } from "vitest";
import type { ToolFacts } from "../../src/console/editor/granted-types.ts";
import { readLibraries, TYPESCRIPT } from "../../src/console/editor/libraries.ts";
import { ToolService } from "../../src/console/editor/tool-service.ts";

const FACTS: ToolFacts = {
  allowed: ["fetch", "kv", "secrets", "tools", "look_up"],
  granted: ["fetch", "kv", "secrets", "tools", "look_up"],
  tools: [
    {
      name: "price",
      description: "Looks up a price */ export const x = 1; /*",
      inputSchema: { type: "object", properties: { sku: { type: "string" } }, required: ["sku"] },
      outputSchema: { type: "object", properties: { total: { type: "number" } }, required: ["total"] },
    },
    { name: "my-tool" },
    { name: "new" },
  ],
};

let service: ToolService;
beforeAll(() => {
  service = new ToolService(createRequire(import.meta.url)(TYPESCRIPT) as never, readLibraries());
});

const messagesOf = (source: string, facts: ToolFacts = FACTS): readonly string[] => {
  service.update(source, facts);
  return service.diagnostics().map(({ from, to, message }) => `${source.slice(from, to)}: ${message}`);
};
const INPUT = `export const inputSchema = { type: "object", properties: { name: { type: "string" }, count: { type: "integer" } }, required: ["name"] };`;

describe("a tool without problems", () => {
  test.for([
    ["a function", `${INPUT} export default async ({ name, count = 1 }, ctx) => name.repeat(count) + ctx.tenantId;`],
    ["a function declaration", `${INPUT} export default async function run({ name }, ctx) { return name.trim(); }`],
    [
      "defineTool",
      `import { defineTool } from "glovebox/tool"; export default defineTool({ description: "a", inputSchema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] }, execute: ({ a }) => a.toFixed(2) });`,
    ],
    [
      "an object",
      `export default { description: "a", capabilities: { kv: {} }, execute: async (input, ctx) => await ctx.kv.get("a") };`,
    ],
    [
      "plain JavaScript without a schema",
      "const half = (x) => x / 2; export default ({ skus }) => skus.map((one) => half(one.total));",
    ],
    ["a stream", `${INPUT} export default async function* ({ name }) { yield name.length; }`],
    [
      "the platform",
      `import { createHash } from "node:crypto"; export default () => [new URL("https://a.b").host, crypto.randomUUID(), Buffer.from("a").toString("hex"), createHash("sha256"), structuredClone(1), process.env.A, new TextEncoder()];`,
    ],
    [
      "granted capabilities",
      `export const capabilities = { fetch: ["a.b"], kv: {}, secrets: ["KEY"], tools: true, look_up: {} };
      export default async (input, ctx) => {
        const response = await ctx.fetch("https://a.b", { headers: { key: await ctx.secrets.use("KEY") } });
        const { total } = await ctx.tools.price({ sku: (await response.json()).sku });
        await fetch("https://a.b"); new WebSocket("wss://a.b"); await ctx.look_up({});
        return total.toFixed(2) + (await ctx.tools["my-tool"]({})) + (await ctx.tools.new()) + (await ctx.tools.call("other"));
      };`,
    ],
  ] as const)("%s", ([, source]) => {
    expect(messagesOf(source)).toEqual([]);
  });
});

describe("a tool with problems", () => {
  test.for([
    [
      "a wrong type",
      `${INPUT} export default ({ name }) => name.toFixed();`,
      "toFixed: Property 'toFixed' does not exist on type 'string'",
    ],
    ["syntax", "export default () => {", ": '}' expected"],
    [
      "a capability that it does not request",
      "export default (input, ctx) => ctx.fetch('https://a.b');",
      'fetch: ctx.fetch is missing: this tool has no grant for "fetch". Request it: export const capabilities',
    ],
    [
      "a global that needs a grant",
      "export default () => new WebSocket('wss://a.b');",
      'WebSocket: WebSocket is missing: this tool has no grant for "fetch"',
    ],
    [
      "input of another tool",
      `export const capabilities = { tools: true }; export default (input, ctx) => ctx.tools.price({ sku: 1 });`,
      "sku: Type 'number' is not assignable to type 'string'",
    ],
    [
      "output of another tool",
      `export const capabilities = { tools: true }; export default async (input, ctx) => (await ctx.tools.price({ sku: "a" })).totl;`,
      "totl: Property 'totl' does not exist",
    ],
    [
      "a tool that does not exist",
      `export const capabilities = { tools: true }; export default (input, ctx) => ctx.tools.nope();`,
      'nope: There is no live tool "nope" in this tenant',
    ],
    [
      "a secret that it does not request",
      `export const capabilities = { secrets: ["A"] }; export default (input, ctx) => ctx.secrets.use("B");`,
      `Argument of type '"B"' is not assignable to parameter of type '"A"'`,
    ],
    [
      "an output of another type",
      `export const outputSchema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] }; export default async () => ({ a: "x" });`,
      "Type 'string' is not assignable to type 'number'",
    ],
    [
      "a package",
      `import _ from "lodash"; export default () => _;`,
      "npx glovebox deploy PATH bundles a tool with its packages",
    ],
    ["browsers' globals", "export default () => document.title;", "document: Cannot find name 'document'"],
  ] as const)("%s", ([, source, expected]) => {
    expect(messagesOf(source).join("\n")).toContain(expected);
  });

  test("a capability that the policy does not allow, and one that needs an approval", () => {
    const source = "export const capabilities = { fetch: ['a.b'], kv: {} }; export default () => 1;";
    expect(messagesOf(source, { allowed: ["kv"], granted: [], tools: [] })).toEqual([
      'fetch: The policy of this tenant does not allow the capability "fetch" (policy.capabilities)',
      'kv: The live version does not have "kv": this version waits for approval when it is deployed',
    ]);
    service.update(source.replace("=> 1", "=> fetch('https://a.b')"), { allowed: ["kv"], granted: [], tools: [] });
    expect(service.diagnostics().some(({ message }) => message.startsWith("fetch is missing"))).toBe(true);
  });
});

test("completions are the granted capabilities, and the tools of the tenant", () => {
  const source = "export const capabilities = { tools: true }; export default async (input, ctx) => { ctx.tools. };";
  service.update(source, FACTS);
  const labelsAt = (position: number) => service.completions(position, false)?.options.map(({ label }) => label);
  expect(labelsAt(source.indexOf("ctx.tools") + 4)).toEqual(
    expect.arrayContaining(["callId", "log", "progress", "signal", "tenantId", "tools"]),
  );
  expect(labelsAt(source.indexOf("ctx.tools") + 4)).not.toContain("fetch");
  const at = source.indexOf("tools. ") + "tools.".length;
  expect(labelsAt(at)).toEqual(expect.arrayContaining(["call", "my-tool", "price"]));
  const quoted = service.completions(at, false)?.options.find(({ label }) => label === "my-tool");
  expect(quoted?.insert).toEqual({ from: at - 1, text: '["my-tool"]' });
  expect(service.describeCompletion(at, "price")).toMatchObject({
    code: "(method) TenantTools.price(input: PriceInput): Promise<PriceOutput>",
    documentation: "Looks up a price * / export const x = 1; /*",
  });
});

test("positions are those of the author's text, where types are added too", () => {
  const source = `${INPUT}\nexport default async ({ name }, ctx) => { return name; };\nconst later: string = 1;`;
  expect(messagesOf(source)).toEqual(["later: Type 'number' is not assignable to type 'string'."]);
  const hovered = service.describe(source.indexOf("return name") + "return n".length);
  expect([hovered?.code, source.slice(hovered?.from, hovered?.to)]).toEqual(["(parameter) name: string", "name"]);
});
