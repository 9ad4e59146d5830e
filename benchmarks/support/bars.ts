// The limits of the benchmarks, as a table: each with the result file of its figure, the way to compute it, and its bound.
import { FRESH, IN_PROCESS, ON_EXECUTOR, QUICKJS, RAW, RAW_COLD, type Result, type Summary, WARM } from "./result.ts";

export interface Bar {
  readonly question: string;
  /** As the project states it. */
  readonly bar: string;
  /** The result that the figure is read from. */
  readonly result: string;
  readonly how: string;
  readonly figure: (result: Result) => number;
  readonly unit: "x" | "ms" | "MiB";
  readonly atMost?: number;
  readonly atLeast?: number;
  /** Not among the bars of speed: it was set for something else, and still counts. */
  readonly isOlder?: true;
}

const subject = (result: Result, name: string): Summary | undefined => result.subjects?.[name];
const p50 = (result: Result, name: string): number => subject(result, name)?.p50Ms ?? Number.NaN;
/** Result files of the agent loop, by API. */
const worseP50 = (result: Result, what: string): number =>
  Math.max(p50(result, `Responses: ${what}`), p50(result, `Chat Completions: ${what}`));
const ratio = (result: Result, name: string, baseline: string): number => p50(result, name) / p50(result, baseline);
const cell = (result: Result, row: string, column: string): number =>
  Number(result.rows?.[row]?.[column] ?? Number.NaN);

/** The worst of the rows that have this word in this column. */
function worst(result: Result, where: readonly [column: string, word: string], column: string): number {
  const rows = Object.values(result.rows ?? {}).filter((row) => row[where[0]] === where[1]);
  return rows.length === 0 ? Number.NaN : Math.max(...rows.map((row) => Number(row[column])));
}

export const BARS: readonly Bar[] = [
  {
    question: "Warm call in a tight loop",
    bar: "≤ 3× raw isolated-vm's async apply",
    result: "hops",
    how: "4,000 calls, one after the other, in turns with raw; median of the rounds' ratios",
    figure: (result) => cell(result, "warm call", "ratio"),
    unit: "x",
    atMost: 3,
  },
  {
    question: "100 sequential capability calls in a tight loop",
    bar: "≤ 1.5× raw isolated-vm's",
    result: "hops",
    how: "The same, in isolates that are loaded",
    figure: (result) => cell(result, "100 sequential capability calls", "ratio"),
    unit: "x",
    atMost: 1.5,
  },
  {
    question: "100 parallel capability calls in a tight loop",
    bar: "≤ 1.5 ms",
    result: "hops",
    how: "The same; the whole call",
    figure: (result) => cell(result, "100 parallel capability calls", "Glovebox ms"),
    unit: "ms",
    atMost: 1.5,
  },
  {
    question: "Warm call",
    bar: "≤ 3× raw isolated-vm's async apply",
    result: "warm",
    how: "One call after another, in turns with a loaded raw isolate in this process; p50 over p50",
    figure: (result) => ratio(result, WARM, RAW),
    unit: "x",
    atMost: 3,
  },
  {
    question: "Warm call",
    bar: "≤ 60 µs",
    result: "warm",
    how: "p50 of the same calls",
    figure: (result) => p50(result, WARM),
    unit: "ms",
    atMost: 0.06,
  },
  {
    question: "Fresh call, paced, trivial tool",
    bar: "≤ 1.3× the warm call at the same pace",
    result: "fresh",
    how: "One call each 5 ms, in blocks of 50 that take turns; p50 over p50",
    figure: (result) => ratio(result, FRESH, WARM),
    unit: "x",
    atMost: 1.3,
  },
  {
    question: "Fresh call, paced, trivial tool",
    bar: "≤ 0.2× raw isolated-vm's cold start",
    result: "fresh",
    how: "The same run; raw: isolate, context, script, one call, dispose",
    figure: (result) => ratio(result, FRESH, RAW_COLD),
    unit: "x",
    atMost: 0.2,
  },
  {
    question: "Fresh call, paced, trivial tool",
    bar: "below QuickJS's cold start in this process",
    result: "fresh",
    how: "The same run; quickjs-emscripten: a new runtime and context, one call, dispose",
    figure: (result) => ratio(result, FRESH, QUICKJS),
    unit: "x",
    atMost: 1,
  },
  {
    question: "Fresh call, paced, p99",
    bar: "≤ 1× raw isolated-vm's cold p50",
    result: "fresh",
    how: "The same run; p99 over raw's p50",
    figure: (result) => (subject(result, FRESH)?.p99Ms ?? Number.NaN) / p50(result, RAW_COLD),
    unit: "x",
    atMost: 1,
  },
  {
    question: "A tool that touches every global of the platform, nothing made ahead",
    bar: "≤ 6 ms",
    result: "platform",
    how: "A whole call in a new isolate, code caches on disk, chunks at hand from the process's first call on; p50",
    figure: (result) => p50(result, "Glovebox, touches everything"),
    unit: "ms",
    atMost: 6,
  },
  {
    question: "Fresh calls, saturated",
    bar: "≥ 80 % of the isolates per second that raw isolated-vm makes on all cores",
    result: "fresh-saturated",
    how: "16 callers of one tenant, in turns with one raw process for each core; raw at its better of one and two isolates at a time",
    figure: (result) => cell(result, FRESH, "of raw"),
    unit: "x",
    atLeast: 0.8,
  },
  {
    question: "Fresh call, one each 50 ms, 477 KB bundle",
    bar: "≤ 0.03× raw isolated-vm's cold start of it",
    result: "bundle-call",
    how: "Paced so that a spare can be made between two calls; p50 over p50",
    figure: (result) => ratio(result, `${FRESH}, one each 50 ms`, RAW_COLD),
    unit: "x",
    atMost: 0.03,
  },
  {
    question: "Fresh call, one each 5 ms, 477 KB bundle",
    bar: "≤ 0.03× raw isolated-vm's cold start of it",
    result: "bundle-call",
    how: "Blocks of 20 calls at the pace of the trivial tool; p50 over p50",
    figure: (result) => ratio(result, `${FRESH}, one each 5 ms`, RAW_COLD),
    unit: "x",
    atMost: 0.03,
  },
  {
    question: "nbody 200k, fresh",
    bar: "≤ 1.1× raw isolated-vm",
    result: "compute",
    how: "200,000 steps in a new isolate on both sides; p50 over p50",
    figure: (result) => ratio(result, FRESH, RAW_COLD),
    unit: "x",
    atMost: 1.1,
  },
  {
    question: "100 sequential host calls, new isolates",
    bar: "≤ 2.5× raw isolated-vm's",
    result: "code-mode-sequential",
    how: "Each awaited before the next; both sides in a new isolate; p50 over p50",
    figure: (result) => ratio(result, FRESH, RAW_COLD),
    unit: "x",
    atMost: 2.5,
  },
  {
    question: "100 sequential host calls, loaded isolates",
    bar: "≤ 2.5× raw isolated-vm's",
    result: "code-mode-sequential",
    how: "The same, both sides in an isolate that is loaded already",
    figure: (result) => ratio(result, WARM, RAW),
    unit: "x",
    atMost: 2.5,
  },
  {
    question: "100 parallel host calls",
    bar: "≤ 1.5 ms",
    result: "code-mode-parallel",
    how: "Promise.all of 100 in a new isolate; p50 of the whole call",
    figure: (result) => p50(result, FRESH),
    unit: "ms",
    atMost: 1.5,
  },
  {
    question: "1 MB JSON in and out, loaded isolates",
    bar: "≤ 1.4× raw isolated-vm with JSON text",
    result: "payload-1mb",
    how: "A tool that returns its argument; raw: stringify, apply, parse, stringify, parse; p50 over p50",
    figure: (result) => ratio(result, WARM, RAW),
    unit: "x",
    atMost: 1.4,
  },
  {
    question: "1 MB JSON in and out, fresh",
    bar: "≤ 1.4× raw isolated-vm with JSON text",
    result: "payload-1mb",
    how: "A new isolate for each call of Glovebox, against the same loaded raw isolate",
    figure: (result) => ratio(result, FRESH, RAW),
    unit: "x",
    atMost: 1.4,
  },
  {
    question: "Density: idle warm tool",
    bar: "≤ 2 MB",
    result: "density",
    how: "Pss of a tenant's process with 9 loaded tools, less its Pss with 1, over 8",
    figure: (result) => cell(result, "an idle warm tool", "Pss MiB"),
    unit: "MiB",
    // 2 MB are 1.907 MiB.
    atMost: 2e6 / 2 ** 20,
  },
  {
    question: "Density: idle tenant process",
    bar: "≤ 40 MB Pss",
    result: "density",
    how: "Mean Pss of the processes of 4 tenants that have made a call and whose tool has gone cold",
    figure: (result) => cell(result, "an idle tenant process", "Pss MiB"),
    unit: "MiB",
    atMost: 40e6 / 2 ** 20,
  },
  {
    question: "Density: cold tool",
    bar: "0",
    result: "density",
    how: "Pss of a tenant's process after 7 more tools have been called and gone cold, less its Pss after the first 8 had; over 7. What it has once had it keeps for what comes next; up to 0.1 MiB is noise",
    figure: (result) => cell(result, "a cold tool", "Pss MiB"),
    unit: "MiB",
    atMost: 0.1,
  },
  {
    question: "Kill: where dispose works, p99",
    bar: "≤ deadline + 30 ms",
    result: "kill",
    how: "From the deadline to the result; the worst p99 of the kinds of loop that dispose stops",
    figure: (result) => worst(result, ["stopped by", "dispose"], "p99 ms late"),
    unit: "ms",
    atMost: 30,
  },
  {
    question: "Kill: where only SIGKILL works, p99",
    bar: "≤ deadline + 300 ms",
    result: "kill",
    how: "The same of the kinds that go on until their process is ended",
    figure: (result) => worst(result, ["stopped by", "SIGKILL"], "p99 ms late"),
    unit: "ms",
    atMost: 300,
  },
  {
    question: "Start: createGlovebox and the first execute of a cached bundle",
    bar: "≤ 150 ms",
    result: "start",
    how: "In a new process, from before createGlovebox to the first result, addTool included; bundle and code cache on disk; p50",
    figure: (result) => p50(result, "Glovebox, createGlovebox to first result"),
    unit: "ms",
    atMost: 150,
  },
  {
    question: "Start: import of the package",
    bar: "≤ 100 ms",
    result: "start",
    how: "In the same processes; p50",
    figure: (result) => p50(result, "Glovebox, import"),
    unit: "ms",
    atMost: 100,
  },
  {
    question: "Start: glovebox --help",
    bar: "≤ 120 ms",
    result: "start",
    how: "From the start of the command to its end; p50",
    figure: (result) => p50(result, "glovebox --help"),
    unit: "ms",
    atMost: 120,
  },
  {
    question: "Start: addTool of a zod tool, first time",
    bar: "≤ 120 ms",
    result: "add-tool",
    how: "50 tools of one tenant, one after the other, with nothing in a cache; p50",
    figure: (result) => p50(result, "Glovebox, one after the other"),
    unit: "ms",
    atMost: 120,
  },
  {
    question: "Start: glovebox run tools/echo",
    bar: "≤ 400 ms",
    result: "start",
    how: "From the start of the command to its end; caches on disk; p50",
    figure: (result) => p50(result, "glovebox run tools/echo"),
    unit: "ms",
    atMost: 400,
  },
  {
    question: "Scale: 1 to 1,000 tools",
    bar: "flat within 20 %",
    result: "scale-tools",
    how: "p50 of a warm call with 1,000 tools registered, over that with 1",
    figure: (result) => ratio(result, "1,000 tools", "1 tool"),
    unit: "x",
    atMost: 1.2,
  },
  {
    question: "Scale: 1 to 1,000 tenants, one after another",
    bar: "flat within 20 %",
    result: "scale-tenants",
    how: "p50 of a fresh call whose tenant is the next of 1,000, in one shared process, over that of always the same",
    figure: (result) => ratio(result, "1,000 tenants", "1 tenant"),
    unit: "x",
    atMost: 1.2,
  },
  {
    question: "Scale: 1 to 1,000 tenants, all waiting at one time",
    bar: "flat within 20 %",
    result: "scale-queue",
    how: "1,000 calls at one time, of 1,000 tenants and of 1; time per call; p50 over p50",
    figure: (result) => ratio(result, "1,000 tenants", "1 tenant"),
    unit: "x",
    atMost: 1.2,
  },
  {
    question: "Fleet: 2 executors, each on a core of its own",
    bar: "≥ 85 % of twice the calls of one",
    result: "fleet-scaling",
    how: "A tool that computes; control plane, NATS and callers on the same cores; median of the rounds' ratios",
    figure: (result) => cell(result, "2 executors", "efficiency"),
    unit: "x",
    atLeast: 0.85,
  },
  {
    question: "Fleet: 4 executors on 2 cores",
    bar: "≥ 85 % of twice the calls of one",
    result: "fleet-scaling",
    how: "The same",
    figure: (result) => cell(result, "4 executors", "efficiency"),
    unit: "x",
    atLeast: 0.85,
  },
  {
    question: "Fleet: dispatch of a call, one each 5 ms",
    bar: "≤ 1.5 ms above the call in this process",
    result: "fleet-call-paced",
    how: "Turns with a host without executors in the same process; difference of the p50",
    figure: (result) => p50(result, ON_EXECUTOR) - p50(result, IN_PROCESS),
    unit: "ms",
    atMost: 1.5,
  },
  {
    question: "Fleet: dispatch of a call in a tight loop",
    bar: "≤ 1.5 ms above the call in this process",
    result: "fleet-call-loop",
    how: "The same, one call after another",
    figure: (result) => p50(result, ON_EXECUTOR) - p50(result, IN_PROCESS),
    unit: "ms",
    atMost: 1.5,
  },
  {
    question: "Fleet: idle executor",
    bar: "≤ 120 MB",
    result: "fleet-memory",
    how: "All its processes after the start, memory that they share counted once",
    figure: (result) => cell(result, "an idle executor, after its start", "alone MiB"),
    unit: "MiB",
    // 120 MB are 114.4 MiB.
    atMost: 120e6 / 2 ** 20,
  },
  {
    question: "Fleet: idle executor that has run calls",
    bar: "≤ 120 MB",
    result: "fleet-memory",
    how: "The same, when the process of the tenant has ended",
    figure: (result) => cell(result, "idle again, the tenant's process ended", "alone MiB"),
    unit: "MiB",
    atMost: 120e6 / 2 ** 20,
  },
  {
    question: "Router: look-up and validation",
    bar: "≤ 1 ms",
    result: "router",
    how: "An order of 20 lines against its schema, 1,001 tools registered; p50",
    figure: (result) => p50(result, "look-up and validation"),
    unit: "ms",
    atMost: 1,
    isOlder: true,
  },
  {
    question: "Router: the whole of it",
    bar: "≤ 5 ms",
    result: "router",
    how: "The same call through the router to a host function; p50",
    figure: (result) => p50(result, "router"),
    unit: "ms",
    atMost: 5,
    isOlder: true,
  },
  {
    question: "Agent loop: from a call's last byte to the tool's start",
    bar: "≤ 5 ms",
    result: "agent",
    how: "Over OpenAI's own client and a local server, the worse of both APIs; p50",
    figure: (result) => worseP50(result, "call complete → tool starts"),
    unit: "ms",
    atMost: 5,
    isOlder: true,
  },
  {
    question: "Agent loop: from the result to the next request",
    bar: "≤ 5 ms",
    result: "agent",
    how: "Over OpenAI's own client and a local server, the worse of both APIs; p50",
    figure: (result) => worseP50(result, "result → next request"),
    unit: "ms",
    atMost: 5,
    isOlder: true,
  },
  {
    question: "Models' calls, validated and routed by one core",
    bar: "≥ 10,000 a second: 1,164 in ≤ 116 ms",
    result: "tool-calls",
    how: "14 tools, arguments as a model's text, through the router to host functions, one after the other; p50",
    figure: (result) => p50(result, "Glovebox, argumentsText"),
    unit: "ms",
    atMost: 116.4,
    isOlder: true,
  },
  {
    question: "tools/call over MCP, 16 at one time",
    bar: "≤ 0.5× the SDK's own server with an equal tool",
    result: "mcp",
    how: 'The sandboxed tool with isolation "tool" next to a plain function behind the SDK, in turns; p50 over p50',
    figure: (result) =>
      ratio(result, 'glovebox/mcp, sandboxed, isolation "tool"', "the SDK's server, a function of its own process"),
    unit: "x",
    atMost: 0.5,
  },
];

export interface Verdict {
  readonly figure: number;
  readonly text: string;
  readonly word: "holds" | "MISSED" | "no figure";
}

export function judgeBar(bar: Bar, result: Result | undefined): Verdict {
  const figure = result === undefined ? Number.NaN : bar.figure(result);
  if (!Number.isFinite(figure)) return { figure, text: "–", word: "no figure" };
  const holds =
    figure <= (bar.atMost ?? Number.POSITIVE_INFINITY) && figure >= (bar.atLeast ?? Number.NEGATIVE_INFINITY);
  const text = bar.unit === "x" ? `${figure.toFixed(3)}×` : `${figure.toFixed(figure < 10 ? 3 : 1)} ${bar.unit}`;
  return { figure, text, word: holds ? "holds" : "MISSED" };
}

export function toLine(bar: Bar, verdict: Verdict): string {
  return `${verdict.word}: ${bar.question} ${bar.bar}: ${verdict.text}`;
}
