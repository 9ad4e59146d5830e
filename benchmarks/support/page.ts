// Writes RESULTS.md and its picture from the result files: the bars first, then a table for each benchmark.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { BARS, judgeBar } from "./bars.ts";
import { QUICK, resultsUrl, toColumns } from "./measure.ts";
import { drawPlot, type PlotRow } from "./plot.ts";
import { FRESH, NOT_AHEAD, QUICKJS, RAW, RAW_COLD, type Result, type Row, WARM } from "./result.ts";

const PLOT = "latency.svg";
const SERIES = [
  { name: "nothing made ahead", colour: "#0072b2" },
  { name: "fresh isolate, one call each 5 ms", colour: "#d55e00" },
  { name: "loaded already", colour: "#009e73" },
] as const;

/** Results at the start of the page. Other results follow by name. */
const ORDER = [
  "fresh",
  "fresh-saturated",
  "cold",
  "cold-tenant",
  "warm",
  "compute",
  "code-mode-sequential",
  "code-mode-parallel",
  "bundle-call",
  "bundle-build",
  "payload-1kb",
  "payload-10kb",
  "payload-100kb",
  "payload-1mb",
  "payload-10mb",
  "stream",
  "density",
  "kill",
  "start",
  "scale-callers",
  "scale-tools",
  "scale-tenants",
  "scale-queue",
  "router",
  "agent",
];

export async function readResults(): Promise<ReadonlyMap<string, Result>> {
  const files = (await readdir(resultsUrl)).filter((file) => file.endsWith(".json"));
  const results = await Promise.all(
    files.map(async (file) => JSON.parse(await readFile(new URL(file, resultsUrl), "utf8")) as Result),
  );
  return new Map(results.map((result) => [result.name, result]));
}

function toTable(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = rows.map((cells) => `| ${cells.join(" | ")} |`);
  return [`| ${head.join(" | ")} |`, `|${head.map(() => "---").join("|")}|`, ...lines].join("\n");
}

function rowsTable(rows: { readonly [name: string]: Row }): string {
  const columns = [...new Set(Object.values(rows).flatMap((row) => Object.keys(row)))];
  const cells = Object.entries(rows).map(([name, row]) => [name, ...columns.map((column) => row[column] ?? "–")]);
  return toTable(["", ...columns], cells);
}

function barsTable(results: ReadonlyMap<string, Result>, isOlder: boolean): string {
  const rows = BARS.filter((bar) => (bar.isOlder ?? false) === isOlder).map((bar) => {
    const { text, word } = judgeBar(bar, results.get(bar.result));
    return [bar.question, bar.bar, text, word === "MISSED" ? "**misses**" : word, `${bar.how} (${bar.result})`];
  });
  return toTable(["question", "bar", "figure", "", "how it is obtained"], rows);
}

function section(result: Result): string | undefined {
  const { subjects, rows, notes = [], leftOut = [] } = result;
  if (subjects === undefined && rows === undefined) return undefined;
  const columns = Object.entries(subjects ?? {}).map(([name, summary]): [string, Row] => [name, toColumns(summary)]);
  const missing = leftOut.map(({ name, reason }) => `${name} (${reason})`).join("; ");
  return [
    `### ${result.name}\n\n${result.question}.`,
    rowsTable(rows ?? Object.fromEntries(columns)),
    ...notes,
    ...(missing === "" ? [] : [`Left out: ${missing}.`]),
  ].join("\n\n");
}

/** The names under which three results know the same thing. */
function plotRows(results: ReadonlyMap<string, Result>): readonly PlotRow[] {
  const p50 = (result: string, subject: string): number | undefined => results.get(result)?.subjects?.[subject]?.p50Ms;
  const [ahead, fresh, loaded] = SERIES;
  const peers = Object.keys(results.get("cold")?.subjects ?? {}).filter(
    (name) => ![RAW_COLD, NOT_AHEAD].includes(name),
  );
  const rows: readonly (readonly [name: string, cold: string, fresh: string, warm: string])[] = [
    ["Glovebox", NOT_AHEAD, FRESH, WARM],
    [RAW, RAW_COLD, RAW_COLD, RAW],
    ...peers.map((name) => [name, name, name === QUICKJS ? name : "", name] as const),
  ];
  return rows
    .map(([name, cold, paced, warm]) => ({
      name,
      bars: [
        { series: ahead.name, ms: p50("cold", cold) },
        { series: fresh.name, ms: p50("fresh", paced) },
        { series: loaded.name, ms: p50("warm", warm) },
      ].flatMap(({ series, ms }) => (ms === undefined ? [] : [{ series, ms }])),
    }))
    .filter(({ bars }) => bars.length > 0);
}

function describeMachine(results: readonly Result[]): string {
  const lines = results.flatMap(({ versions, machine }) =>
    versions === undefined || machine === undefined
      ? []
      : [
          `Node ${versions.node}, V8 ${versions.v8}, isolated-vm ${versions["isolated-vm"]}, ${machine.cores} cores (${machine.cpu})`,
        ],
  );
  return [...new Set(lines)].join("; ");
}

/** Whatever a person has to add to the figures, and why some cannot be better, is kept in a file of its own. */
async function readFloors(): Promise<string> {
  try {
    return await readFile(new URL("../FLOORS.md", import.meta.url), "utf8");
  } catch {
    return "";
  }
}

export async function writePage(): Promise<void> {
  const results = await readResults();
  const rows = plotRows(results);
  if (rows.length > 0) {
    const caption =
      "p50 of one trivial call, logarithmic scale: shorter is faster, and each line is ten times the one before.";
    const plot = drawPlot({ title: "What a call costs", caption, rows, series: SERIES });
    await writeFile(new URL(PLOT, resultsUrl), plot);
  }
  const ordered = [...results.values()].toSorted((a, b) => rank(a.name) - rank(b.name) || a.name.localeCompare(b.name));
  const floors = await readFloors();
  const parts = [
    "# Results",
    "Written by `npm run bench` from `results/*.json`; not to be edited. Subjects of one table took turns in one run, because machines are shared and noisy: compare ratios, not milliseconds. [README.md](README.md) says what each benchmark asks.",
    describeMachine(ordered),
    "## The bars",
    barsTable(results, false),
    ...(rows.length > 0 ? [`![What a call costs](${QUICK ? "" : "results/"}${PLOT})`] : []),
    ...(floors === "" ? [] : [floors.trim()]),
    "## Bars of earlier work",
    barsTable(results, true),
    "## Benchmarks",
    ...ordered.flatMap((result) => section(result) ?? []),
    "Of `noisy-neighbour` and `soak`, which measure no latencies of single calls, see [README.md](README.md).",
  ];
  await writeFile(new URL(QUICK ? "RESULTS.md" : "../RESULTS.md", resultsUrl), `${parts.join("\n\n")}\n`);
}

function rank(name: string): number {
  const index = ORDER.indexOf(name);
  return index === -1 ? ORDER.length : index;
}
