// Calls of the tools in tools/ and examples/, and of the random programs of the tests: what the test of offline replays records.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import * as z from "zod";
import { createGlovebox, defineCapability, type Glovebox } from "../../../src/host/index.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { OTHER_TOOL, PROGRAM_TOOL, programs } from "../../support/programs.ts";

const root = new URL("../../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");
const json = <Value>(path: string): Value => JSON.parse(read(path)) as Value;

type Folder = readonly [name: string, path: string, grant: readonly string[]];
/** Folders of tools, and what they are granted. Those that take long to build or to start are only in the whole corpus. */
const QUICK_FOLDERS: readonly Folder[] = [
  ["echo", "tools/echo", []],
  ["json-query", "tools/json-query", []],
  ["run-js", "tools/run-js", ["stringToCode"]],
  ["http-get", "tools/http-get", ["fetch"]],
];
const SLOW_FOLDERS: readonly Folder[] = [
  ["csv-stats", "tools/csv-stats", []],
  ["markdown-to-html", "tools/markdown-to-html", []],
  ["pdf-invoice", "tools/pdf-invoice", []],
  ["python", "examples/python-tool", ["kv"]],
];

export interface CorpusOptions {
  readonly cache: string | undefined;
  /** Server that `http-get` may reach. */
  readonly origin: string;
  readonly isWhole: boolean;
}

/** Creates a Glovebox with the tools of the corpus. */
export async function openCorpus({ cache, origin, isWhole }: CorpusOptions): Promise<Glovebox> {
  const slow = defineCapability({
    name: "slow",
    inputSchema: z.strictObject({ ms: z.number(), fail: z.boolean().optional() }),
    outputSchema: z.unknown(),
    handler: async ({ ms, fail }) => {
      await sleep(ms * Math.random());
      if (fail) throw new Error("no");
      return Math.random();
    },
  });
  const glovebox = await createGlovebox({
    cache: cache === undefined ? false : { directory: cache },
    kv: "memory",
    capabilities: [slow],
    egress: { allow: [{ to: origin, addresses: ["127.0.0.1/32"] }] },
    bundler: { root: new URL(".", root).pathname },
    limits: PATIENT_LIMITS,
    workers: { max: 4, warmProcesses: 0, warmPythonProcesses: 0 },
  });
  for (const [name, path, grant] of isWhole ? [...QUICK_FOLDERS, ...SLOW_FOLDERS] : QUICK_FOLDERS)
    await glovebox.addTool({ name, path: new URL(path, root).pathname }, { grant: [...grant] });
  await glovebox.addTool({ name: "program", source: PROGRAM_TOOL }, { grant: ["kv", "slow", "tools"] });
  await glovebox.addTool({ name: "other", source: OTHER_TOOL });
  return glovebox;
}

export interface CorpusCall {
  readonly toolName: string;
  readonly arguments: unknown;
}

const CODE = [
  "const s = input.xs; s.reduce((a, b) => a + b, 0)",
  "[...Array(input.n)].map(() => Math.random())",
  "new Date().toISOString() + crypto.randomUUID()",
  "input.xs.toSorted((a, b) => a - b).map(String).join('-')",
  "console.log(input); Object.groupBy(input.xs, (x) => x % 2 ? 'odd' : 'even')",
  "throw new RangeError('out of ' + input.n)",
];
const PATHS = ["/json", "/text", "/png", "/long", "/missing", "/random"];
const QUERIES = ["$[lat > 43]", "$count($)", "$[0].city", "$sum($.lon)", "$.{ 'a': state }"];
const cells = fc.array(
  fc.array(fc.oneof(fc.integer(), fc.double(), fc.string({ maxLength: 8 })), { minLength: 3, maxLength: 3 }),
  {
    minLength: 1,
    maxLength: 30,
  },
);
const texts = readdirSync(new URL("docs/guides/", root)).filter((name) => name.endsWith(".md"));

/** Returns this number of calls, the same for each seed. Every fourth one is a random program. */
export function corpusCalls(
  count: number,
  seed: number,
  { origin, isWhole }: Pick<CorpusOptions, "origin" | "isWhole">,
): readonly CorpusCall[] {
  const sample = fc.sample(programs, { numRuns: count, seed });
  const rows = fc.sample(cells, { numRuns: count, seed });
  const values = fc.sample(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })), { numRuns: count, seed });
  const invoice = json<{ readonly items?: readonly unknown[] }>("tools/pdf-invoice/example.json");
  const { data } = json<{ readonly data: unknown }>("tools/json-query/example.json");
  const pick = <Item>(items: readonly Item[], n: number): Item => items[n % items.length] as Item;
  type Maker = (n: number) => CorpusCall;
  const quick: readonly Maker[] = [
    (n) => ({ toolName: "echo", arguments: values[n] }),
    (n) => ({ toolName: "json-query", arguments: { query: pick(QUERIES, n), language: "jsonata", data } }),
    (n) => ({ toolName: "run-js", arguments: { code: pick(CODE, n), input: { n: n % 9, xs: [n, 3, 1, 2] } } }),
    (n) => ({ toolName: "http-get", arguments: { url: `${origin}${pick(PATHS, n)}` } }),
  ];
  const slow: readonly Maker[] = [
    (n) => ({
      toolName: "csv-stats",
      arguments: {
        csv: `a,b,c\n${(rows[n] ?? []).map((row) => row.map((cell) => JSON.stringify(cell)).join(",")).join("\n")}`,
      },
    }),
    (n) => ({
      toolName: "markdown-to-html",
      arguments: { markdown: read(`docs/guides/${pick(texts, n)}`).slice(n % 500) },
    }),
    (n) => ({ toolName: "pdf-invoice", arguments: { ...invoice, number: `2026-${n}` } }),
    (n) => ({
      toolName: "python",
      arguments: { numbers: Array.from({ length: 1 + (n % 12) }, (_, i) => i * n), ignore_outliers: n % 2 === 0 },
    }),
  ];
  const makers = isWhole ? [...quick, ...slow] : quick;
  return Array.from({ length: count }, (_, n) => {
    if (n % 4 === 3) return { toolName: "program", arguments: { program: sample[n] } };
    const index = n - Math.floor(n / 4);
    return (makers[index % makers.length] as Maker)(Math.floor(index / makers.length));
  });
}
