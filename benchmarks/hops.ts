// What does the way of a call cost? Calls one after another in a tight loop, capability calls, CPU time and context switches of host and
// worker.
import { readdirSync, readFileSync } from "node:fs";
import * as z from "zod";
import { createGlovebox, defineCapability } from "../src/host/index.ts";
import { ADD, answer, PARALLEL, SEQUENTIAL, toToolSource } from "./support/jobs.ts";
import { report, times } from "./support/measure.ts";
import { createRawTool, type RawTool } from "./support/raw-isolate.ts";
import { createCaller } from "./support/tools.ts";

const ROUNDS = times(7, 1);
const WARM_CALLS = times(4_000, 20);
const CAPABILITY_CALLS = times(100, 2);
/** User and system time in /proc/PID/stat count in steps of 10 ms. */
const TICK_MS = 10;

const ask = defineCapability({
  name: "ask",
  inputSchema: z.number(),
  outputSchema: z.number(),
  handler: async (n) => answer(n),
});
await using glovebox = await createGlovebox({ tenancy: "multi", capabilities: [ask] });
const call = createCaller(glovebox);

/** What processes have used so far. */
interface Use {
  readonly cpuMs: number;
  /** How often a thread has gone to sleep, and so has had to be woken. */
  readonly wakeUps: number;
  /** How often a thread has had to make room for another one. */
  readonly preemptions: number;
}

function useOf(pids: readonly number[]): Use {
  let cpuMs = 0;
  let wakeUps = 0;
  let preemptions = 0;
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    cpuMs += (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const status = readFileSync(`/proc/${pid}/task/${thread}/status`, "latin1");
      wakeUps += Number(/^voluntary_ctxt_switches:\s*(\d+)/m.exec(status)?.[1]);
      preemptions += Number(/^nonvoluntary_ctxt_switches:\s*(\d+)/m.exec(status)?.[1]);
    }
  }
  return { cpuMs, wakeUps, preemptions };
}

/** Returns the mean time in ms of one call in a tight loop. */
async function loop(count: number, run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  for (let n = 0; n < count; n += 1) await run();
  return (performance.now() - started) / count;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

interface Subject {
  readonly count: number;
  readonly raw: () => Promise<unknown>;
  readonly ours: () => Promise<unknown>;
  readonly rawMs: number[];
  readonly oursMs: number[];
  /** Sums over all measured calls. */
  readonly used: { calls: number; host: Use; worker: Use };
}

const NOTHING: Use = { cpuMs: 0, wakeUps: 0, preemptions: 0 };

const add = (sum: Use, before: Use, after: Use): Use => ({
  cpuMs: sum.cpuMs + after.cpuMs - before.cpuMs,
  wakeUps: sum.wakeUps + after.wakeUps - before.wakeUps,
  preemptions: sum.preemptions + after.preemptions - before.preemptions,
});

const subjects = new Map<string, Subject>();
const rawTools: RawTool[] = [];
const JOBS = {
  "warm call": ADD,
  "100 sequential capability calls": SEQUENTIAL,
  "100 parallel capability calls": PARALLEL,
};
for (const [index, [name, job]] of Object.entries(JOBS).entries()) {
  const tool = { source: toToolSource(job) };
  const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
  const toolName = `job-${index}`;
  await glovebox.addTool({ ...tool, name: toolName }, { tenantId: "acme", grant: ["ask"], isolateLifetime: "tool" });
  const raw = await createRawTool(bundle.code);
  rawTools.push(raw);
  subjects.set(name, {
    count: job === ADD ? WARM_CALLS : CAPABILITY_CALLS,
    raw: () => raw.call(JSON.stringify(job.input)).then(JSON.parse),
    ours: () => call(toolName, job.input),
    rawMs: [],
    oursMs: [],
    used: { calls: 0, host: NOTHING, worker: NOTHING },
  });
}

for (let round = -1; round < ROUNDS; round += 1) {
  for (const { count, raw, ours, rawMs, oursMs, used } of subjects.values()) {
    const rawTime = await loop(count, raw);
    await loop(Math.ceil(count / 10), ours);
    const workers = glovebox.workerPids;
    const before = [useOf([process.pid]), useOf(workers)] as const;
    const oursTime = await loop(count, ours);
    const after = [useOf([process.pid]), useOf(workers)] as const;
    if (round < 0) continue;
    rawMs.push(rawTime);
    oursMs.push(oursTime);
    used.calls += count;
    used.host = add(used.host, before[0], after[0]);
    used.worker = add(used.worker, before[1], after[1]);
  }
}

/** Row of one subject. A tick of CPU time is 10 ms, so the sums are over all rounds. */
function toRow({ rawMs, oursMs, used }: Subject): { readonly [column: string]: string } {
  const perCall = (name: keyof Use): string =>
    [used.host, used.worker].map((use) => (use[name] / used.calls).toFixed(2)).join(" + ");
  return {
    "raw ms": median(rawMs).toFixed(4),
    "Glovebox ms": median(oursMs).toFixed(4),
    ratio: median(oursMs.map((ms, index) => ms / (rawMs[index] ?? Number.NaN))).toFixed(2),
    "CPU s per 10,000, host + worker": [used.host, used.worker]
      .map(({ cpuMs }) => ((cpuMs / used.calls) * 10).toFixed(2))
      .join(" + "),
    "wake-ups, host + worker": perCall("wakeUps"),
    "preemptions, host + worker": perCall("preemptions"),
  };
}

await report({
  name: "hops",
  question: "A call in a tight loop, against raw isolate.apply in process: medians of interleaved rounds",
  rows: Object.fromEntries([...subjects].map(([name, subject]) => [name, toRow(subject)])),
  notes: [
    "CPU time and wake-ups are those of all threads, from /proc. A wake-up is a voluntary context switch: a thread went to sleep and was woken again.",
  ],
});
for (const raw of rawTools) raw.dispose();
