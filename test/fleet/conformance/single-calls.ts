// Tools, and what one call of each returns: the table that every set-up of the server, and the library with executors, is tested with.
import { expect } from "vitest";

export interface ScenarioTool {
  readonly source?: string;
  readonly files?: { readonly [path: string]: string };
  readonly entry?: string;
  readonly isolateLifetime?: "call" | "tool" | "session";
  readonly grant?: readonly string[];
}

const PYTHON = `"""Counts words"""
def main(input):
    print("counting")
    if input["text"] == "":
        raise ValueError("no text")
    return {"words": len(input["text"].split())}
`;

const python = (code: string, grant: readonly string[] = []): ScenarioTool => ({
  files: { "tool.py": code },
  entry: "tool.py",
  grant,
});

export const TOOLS: { readonly [name: string]: ScenarioTool } = {
  add: { source: "export default ({ a, b }) => ({ sum: a + b })" },
  logs: {
    source:
      "export default () => { console.log('one'); console.warn('two', { three: 3 }); console.error('four'); return 5 }",
  },
  throws: { source: "export default () => { throw new TypeError('no such thing') }" },
  strict: {
    source: `export const inputSchema = { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"], additionalProperties: false };
      export default ({ n }) => n;`,
  },
  invalid: { source: "export const outputSchema = { type: 'object' }; export default () => 'text'" },
  loop: { source: "export const limits = { cpuMs: 300 }; export default () => { for (;;); }" },
  waits: {
    source:
      "export default () => { console.log('begun'); return new Promise((resolve) => setTimeout(resolve, 280_000)); }",
  },
  memory: {
    source: "export default () => { const kept = []; for (;;) kept.push(new Array(100_000).fill(Math.random())); }",
  },
  streams: {
    source: `export default async function* ({ chunks }) {
      console.log("begun");
      for (let index = 0; index < chunks; index += 1) yield { index, text: "x".repeat(index) };
      yield new Uint8Array([1, 2, 3]);
    }`,
  },
  crypto: {
    source:
      "import { createHash } from 'node:crypto'; export default ({ text }) => createHash('sha256').update(text).digest('hex')",
  },
  large: { source: "export default ({ text, times }) => ({ text: text.repeat(times), length: text.length })" },
  counts: {
    source: `export const capabilities = { kv: true };
      export default async ({ key }, { kv }) => { const old = (await kv.get(key)) ?? 0; await kv.set(key, old + 1); return old + 1; }`,
    grant: ["kv"],
  },
  denied: {
    source: `export const capabilities = { tools: ["add"] }; export default (_, { tools }) => tools.other({})`,
    grant: ["tools"],
  },
  nests: {
    source: `export const capabilities = { tools: ["add"] };
      export default async ({ n }, { tools }) => [await tools.add({ a: n, b: 1 }), await tools.add({ a: n, b: 2 })]`,
    grant: ["tools"],
  },
  nestsDeeper: {
    source: `export const capabilities = { tools: ["add", "nests", "throws"] };
      export default async (_, { tools }) => [
        await tools.add({ a: 1, b: 1 }),
        await tools.nests({ n: 5 }),
        await tools.throws({}).catch(({ code }) => code),
      ]`,
    grant: ["tools"],
  },
  fetches: {
    source: `export const capabilities = { fetch: true, secrets: true };
      export default async ({ url }, ctx) => {
        const response = await fetch(url, { headers: { authorization: "Bearer " + await ctx.secrets.use("token") } });
        return { status: response.status, text: await response.text() };
      }`,
    grant: ["fetch", "secrets"],
  },
  random: {
    source: `export default async ({ sentAt }) => {
      const numbers = Array.from({ length: 100 }, Math.random);
      const [random] = crypto.getRandomValues(new Uint32Array(1));
      const before = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 30));
      return {
        distinct: new Set(numbers).size,
        isInRange: numbers.every((number) => number >= 0 && number < 1),
        isUuid: /^[0-9a-f]{8}-[0-9a-f]{4}-4/.test(crypto.randomUUID()),
        isInteger: Number.isInteger(random),
        isNow: Math.abs(Date.now() - sentAt) < 600_000,
        hasWaited: performance.now() - before >= 20,
        offset: new Date(0).getTimezoneOffset(),
      };
    }`,
  },
  python: python(PYTHON),
  pythonCounts: python(
    `capabilities = {"kv": True}
async def main(input, ctx):
    count = ((await ctx.kv.get("count")) or 0) + 1
    await ctx.kv.set("count", count)
    return count
`,
    ["kv"],
  ),
  pythonNests: python(
    `capabilities = {"tools": ["add", "python"]}
async def main(input, ctx):
    return [await tools.add(a=1, b=2), await tools.python(text="a b")]
`,
    ["tools"],
  ),
  pythonFetches: python(
    `capabilities = {"fetch": True, "secrets": True}
async def main(input, ctx):
    token = await ctx.secrets.use("token")
    response = await fetch(input["url"], headers={"authorization": "Bearer " + token})
    return {"status": response.status, "text": await response.text()}
`,
    ["fetch", "secrets"],
  ),
  pythonLoop: python('limits = {"cpuMs": 1_000}\ndef main(input):\n    while True: pass\n'),
  pythonMemory: python("def main(input):\n    kept = []\n    while True: kept.append(bytearray(10_000_000))\n"),
  pythonWaits: python('import asyncio\nasync def main(input):\n    print("begun")\n    await asyncio.sleep(600)\n'),
  pythonLarge: python(
    `${Array.from({ length: 500 }, (_, index) => `# line ${index} of many`).join("\n")}\ndef main(input):\n    return input["text"] * 2\n`,
  ),
};

export interface SingleCall {
  readonly what: string;
  readonly tool: string;
  /** @param origin of a server that echoes the header `authorization` */
  readonly input: (origin: string) => object;
  /** Longest time of a call that ends with it. */
  readonly timeoutMs?: number;
  /** What one process returns: `output` or `code`, and `logs`. */
  readonly expected: object;
}

export const SINGLE_CALLS: readonly SingleCall[] = [
  { what: "an output", tool: "add", input: () => ({ a: 1, b: 2 }), expected: { output: { sum: 3 } } },
  {
    what: "log lines",
    tool: "logs",
    input: () => ({}),
    expected: {
      output: 5,
      logs: [
        ["info", "one"],
        ["warn", "two { three: 3 }"],
        ["error", "four"],
      ],
    },
  },
  { what: "an error of the tool", tool: "throws", input: () => ({}), expected: { code: "TOOL_FAILED" } },
  {
    what: "an input that does not match its schema",
    tool: "strict",
    input: () => ({ n: 0, more: 1 }),
    expected: { code: "PARAM_INVALID" },
  },
  {
    what: "an output that does not match its schema",
    tool: "invalid",
    input: () => ({}),
    expected: { code: "OUTPUT_INVALID" },
  },
  {
    what: "a hash",
    tool: "crypto",
    input: () => ({ text: "text" }),
    expected: { output: expect.stringMatching(/^[0-9a-f]{64}$/) },
  },
  {
    what: "a nested call of a tool that was not granted",
    tool: "denied",
    input: () => ({}),
    expected: { code: "CAPABILITY_DENIED" },
  },
  { what: "a key-value store", tool: "counts", input: () => ({ key: "k" }), expected: { output: 1 } },
  {
    what: "nested calls",
    tool: "nestsDeeper",
    input: () => ({}),
    expected: { output: [{ sum: 2 }, [{ sum: 6 }, { sum: 7 }], "TOOL_FAILED"] },
  },
  {
    what: "a request with a secret, which the response echoes",
    tool: "fetches",
    input: (origin) => ({ url: `${origin}/` }),
    expected: { output: { status: 200, text: expect.stringMatching(/^got Bearer (?!s3cret)/) } },
  },
  {
    what: "a request to a host that is not allowed",
    tool: "fetches",
    input: () => ({ url: "http://127.0.0.1:1/" }),
    expected: { code: "TOOL_FAILED" },
  },
  { what: "a tool that computes for ever", tool: "loop", input: () => ({}), expected: { code: "CPU_LIMIT" } },
  {
    what: "a tool that waits for ever",
    tool: "waits",
    input: () => ({}),
    timeoutMs: 4_000,
    expected: { code: "TOOL_TIMEOUT" },
  },
  { what: "a tool that uses too much memory", tool: "memory", input: () => ({}), expected: { code: "MEMORY_LIMIT" } },
  {
    what: "an input and an output of more than a message",
    tool: "large",
    input: () => ({ text: "x".repeat(1_500_000), times: 3 }),
    expected: { output: { text: "x".repeat(4_500_000), length: 1_500_000 } },
  },
  {
    what: "an output that is too large",
    tool: "large",
    input: () => ({ text: "x".repeat(1_000_000), times: 30 }),
    expected: { code: "OUTPUT_TOO_LARGE" },
  },
  {
    what: "random values and clocks",
    tool: "random",
    input: () => ({ sentAt: Date.now() }),
    expected: {
      output: {
        distinct: 100,
        isInRange: true,
        isUuid: true,
        isInteger: true,
        isNow: true,
        hasWaited: true,
        offset: 0,
      },
    },
  },
  { what: "a tool that does not exist", tool: "nothing", input: () => ({}), expected: { code: "TOOL_UNAVAILABLE" } },
  {
    what: "a tool in Python",
    tool: "python",
    input: () => ({ text: "a b c" }),
    expected: { output: { words: 3 }, logs: [["info", "counting"]] },
  },
  {
    what: "an error of a tool in Python",
    tool: "python",
    input: () => ({ text: "" }),
    expected: { code: "TOOL_FAILED" },
  },
  { what: "a key-value store in Python", tool: "pythonCounts", input: () => ({}), expected: { output: 1 } },
  {
    what: "nested calls of a tool in Python",
    tool: "pythonNests",
    input: () => ({}),
    expected: { output: [{ sum: 3 }, { words: 2 }] },
  },
  {
    what: "a request with a secret in Python",
    tool: "pythonFetches",
    input: (origin) => ({ url: `${origin}/` }),
    expected: { output: { status: 200, text: expect.stringMatching(/^got Bearer (?!s3cret)/) } },
  },
  {
    what: "a long source and a long input in Python",
    tool: "pythonLarge",
    input: () => ({ text: "x".repeat(400_000) }),
    expected: { output: "x".repeat(800_000) },
  },
  {
    what: "a tool in Python that computes for ever",
    tool: "pythonLoop",
    input: () => ({}),
    expected: { code: "CPU_LIMIT" },
  },
  {
    what: "a tool in Python that uses too much memory",
    tool: "pythonMemory",
    input: () => ({}),
    expected: { code: "MEMORY_LIMIT" },
  },
  {
    what: "a tool in Python that waits for ever",
    tool: "pythonWaits",
    input: () => ({}),
    timeoutMs: 15_000,
    expected: { code: "TOOL_TIMEOUT" },
  },
];
