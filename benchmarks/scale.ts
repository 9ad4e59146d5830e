// Does a call cost the same with many callers, many tools and many tenants?
import { createGlovebox, type Glovebox } from "../src/host/index.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { measure, report, summarize, times } from "./support/measure.ts";
import { runRawTool } from "./support/raw-isolate.ts";
import { FRESH, type Row, WARM } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

const MANY = times(1_000, 20);
/** Tools that are added at one time. */
const LANES = 4;
const CALLERS = times<readonly number[]>([1, 2, 4, 8, 16, 32, 64], [1, 8]);
const WINDOW_MS = times(1_500, 150);
const ROUNDS = times(4, 1);
const source = toToolSource(ADD);
const countOf = (count: number, word: string): string =>
  `${(count === MANY ? 1_000 : count).toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Calls per second of the given number of callers, each with one call at a time. */
async function throughput(callers: number, call: () => Promise<unknown>): Promise<number> {
  let count = 0;
  const end = performance.now() + WINDOW_MS;
  const caller = async (): Promise<void> => {
    while (performance.now() < end) {
      await call();
      if (performance.now() <= end) count += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return count / (WINDOW_MS / 1_000);
}

async function measureCallers(): Promise<void> {
  await using glovebox = await createGlovebox({ tenancy: "multi" });
  const call = createCaller(glovebox);
  await glovebox.addTool({ name: "add", source }, { tenantId: "acme" });
  await glovebox.addTool({ name: "warm-add", source }, { tenantId: "acme", isolateLifetime: "tool" });
  const { bundle } = await glovebox.inspectTool({ source }, { tenantId: "acme" });
  const subjects = {
    "raw isolated-vm in this process, calls/s": () => runRawTool(bundle.code, ADD.input),
    [`${FRESH}, calls/s`]: () => call("add", ADD.input),
    [`${WARM}, calls/s`]: () => call("warm-add", ADD.input),
  };
  const rates = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const callers of CALLERS) {
      for (const [name, subject] of Object.entries(subjects)) {
        const key = `${callers} ${name}`;
        rates.set(key, [...(rates.get(key) ?? []), await throughput(callers, subject)]);
      }
    }
  }
  const rateOf = (callers: number, name: string): number =>
    Math.round(summarize(rates.get(`${callers} ${name}`) ?? []).p50Ms);
  const rows = CALLERS.map((callers): [string, Row] => [
    `${callers} caller${callers === 1 ? "" : "s"}`,
    Object.fromEntries(Object.keys(subjects).map((name) => [name, rateOf(callers, name)])),
  ]);
  await report({
    name: "scale-callers",
    question: "Calls per second with 1 to 64 callers at one time",
    rows: Object.fromEntries(rows),
    notes: [
      `One tenant; windows of ${WINDOW_MS} ms in turns, medians of ${ROUNDS}. Raw makes a new isolate for each call, on the threads that isolated-vm has.`,
    ],
  });
}

/** A Glovebox with the given number of tools, of which one is called. They differ, because equal tools would share one bundle. */
async function openWithTools(count: number): Promise<{ readonly glovebox: Glovebox; readonly msPerTool: number }> {
  const glovebox = await createGlovebox({ tenancy: "multi", isolateLifetime: "tool", cache: false });
  const started = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const numbered = `${source}\nexport const description = "Tool ${index}";`;
      await glovebox.addTool({ name: `add-${index}`, source: numbered }, { tenantId: "acme" });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return { glovebox, msPerTool: (performance.now() - started) / count };
}

async function measureTools(): Promise<void> {
  const gloveboxes = new Map<number, Awaited<ReturnType<typeof openWithTools>>>();
  try {
    for (const count of [1, 10, MANY]) gloveboxes.set(count, await openWithTools(count));
    const subjects = [...gloveboxes].map(([count, { glovebox }]) => {
      const call = createCaller(glovebox);
      return [countOf(count, "tool"), () => call("add-0", ADD.input)] as const;
    });
    const adding = [...gloveboxes].map(([count, { msPerTool }]) => `${msPerTool.toFixed(1)} ms each for ${count}`);
    await measure({
      name: "scale-tools",
      question: "A warm call of one tool, by the number of registered tools",
      samples: 3_000,
      warmup: 500,
      block: 20,
      subjects: Object.fromEntries(subjects),
      notes: [
        "Three instances take turns; each tool has a bundle of its own, built and extracted without a cache on disk.",
        `To add the tools took ${adding.join(", ")}.`,
      ],
    });
  } finally {
    for (const { glovebox } of gloveboxes.values()) await glovebox.close();
  }
}

async function measureTenants(): Promise<void> {
  // In one shared process: with one each, a thousand tenants would measure the start of processes and nothing else.
  await using glovebox = await createGlovebox({
    tenancy: "multi",
    placement: "shared",
    limits: { queueMs: 60_000, timeoutMs: 60_000 },
  });
  const call = createCaller(glovebox);
  await glovebox.addTool({ name: "add", source }, { scope: "global" });
  for (let tenant = 0; tenant < MANY; tenant += 1) {
    // Each tenant has its own tool in the registry, in addition to the one that all of them call.
    glovebox.router.register("own", { description: "A tenant's own" }, () => null, { tenantId: `tenant-${tenant}` });
  }
  const rotating = (count: number): (() => Promise<unknown>) => {
    let next = 0;
    return () => {
      next += 1;
      return call("add", ADD.input, `tenant-${next % count}`);
    };
  };
  const counts = [1, 10, MANY];
  await measure({
    name: "scale-tenants",
    question: "A fresh call by the number of tenants",
    samples: 3_000,
    warmup: MANY,
    paceMs: 5,
    block: 50,
    budgetMs: 60_000,
    subjects: Object.fromEntries(counts.map((count) => [countOf(count, "tenant"), rotating(count)])),
    notes: [
      'placement: "shared", so that few processes live and what is measured is the registry, the accounts, the scheduler and the caches. One call each 5 ms.',
    ],
  });
  const burst = (count: number) => async (): Promise<void> => {
    await Promise.all(Array.from({ length: MANY }, (_, n) => call("add", ADD.input, `tenant-${n % count}`)));
  };
  await measure({
    name: "scale-queue",
    question: "1,000 calls at one time, by the number of tenants: time until all have a result",
    samples: 15,
    warmup: 2,
    budgetMs: 60_000,
    subjects: Object.fromEntries(counts.map((count) => [countOf(count, "tenant"), burst(count)])),
    notes: ["As many calls in each row; the scheduler has 1 to 1,000 tenants to be fair between."],
  });
}

// With names, those only: the tools take five minutes to build.
const PARTS = { callers: measureCallers, tools: measureTools, tenants: measureTenants } as const;
const asked = process.argv.slice(2).filter((word) => word in PARTS);
for (const [name, run] of Object.entries(PARTS)) if (asked.length === 0 || asked.includes(name)) await run();
