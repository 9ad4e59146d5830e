// Measures one source tree for the regression gate, and prints its figures as JSON. The rest of the machine can only make a call slower, so
// that a figure is the best of several blocks of calls.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import type * as GloveboxModule from "../../src/host/index.ts";
import { ADD, answer, PARALLEL, SEQUENTIAL, toToolSource } from "./jobs.ts";

const [tree = ""] = process.argv.slice(2);
const entry = pathToFileURL(join(tree, "src", "host", "index.ts")).href;
const { createGlovebox, defineCapability } = (await import(entry)) as typeof GloveboxModule;
const ask = defineCapability({
  name: "ask",
  inputSchema: z.number(),
  outputSchema: z.number(),
  handler: async (n) => answer(n),
});
await using glovebox = await createGlovebox({ capabilities: [ask] });

const BLOCKS = 12;

/** Returns the mean time in µs of a call, in the fastest block of calls. */
async function bestUs(count: number, run: () => Promise<unknown>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let block = 0; block < BLOCKS; block += 1) {
    const started = performance.now();
    for (let n = 0; n < count; n += 1) await run();
    best = Math.min(best, (performance.now() - started) / count);
  }
  return best * 1_000;
}

async function call(toolName: string, input: unknown): Promise<void> {
  const result = await glovebox.execute({ id: "c", toolName, arguments: input });
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
}

const figures: { [name: string]: number } = {};
const JOBS = [
  { name: "warm call", toolName: "warm", job: ADD, count: 250, isolateLifetime: "tool" },
  { name: "fresh call", toolName: "fresh", job: ADD, count: 25, isolateLifetime: "call" },
  {
    name: "100 sequential capability calls",
    toolName: "sequential",
    job: SEQUENTIAL,
    count: 6,
    isolateLifetime: "tool",
  },
  { name: "100 parallel capability calls", toolName: "parallel", job: PARALLEL, count: 10, isolateLifetime: "tool" },
] as const;
for (const { name, toolName, job, count, isolateLifetime } of JOBS) {
  await glovebox.addTool({ source: toToolSource(job), name: toolName }, { grant: ["ask"], isolateLifetime });
  const run = (): Promise<void> => call(toolName, job.input);
  // The first calls compile the code of both processes.
  for (let n = 0; n < 2 * count; n += 1) await run();
  figures[`${name}, µs`] = await bestUs(count, run);
}
const before = process.cpuUsage();
for (let n = 0; n < 2_000; n += 1) await call("warm", ADD.input);
const { user, system } = process.cpuUsage(before);
figures["warm call, CPU time of the host, µs"] = (user + system) / 2_000;
console.log(JSON.stringify(figures));
