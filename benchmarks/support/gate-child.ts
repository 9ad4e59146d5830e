// Measures one source tree for the regression gate, and prints its figures relative to raw isolated-vm as JSON.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import type * as GloveboxModule from "../../src/host/index.ts";
import { ADD, answer, PARALLEL, SEQUENTIAL, toToolSource } from "./jobs.ts";
import { createRawTool } from "./raw-isolate.ts";

const [tree = ""] = process.argv.slice(2);
const entry = pathToFileURL(join(tree, "src", "host", "index.ts")).href;
const { createGlovebox, defineCapability } = (await import(entry)) as typeof GloveboxModule;
const ask = defineCapability({
  name: "ask",
  inputSchema: z.number(),
  outputSchema: z.number(),
  handler: async (n) => answer(n),
});
await using box = await createGlovebox({ capabilities: [ask] });

async function meanMs(count: number, run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  for (let n = 0; n < count; n += 1) await run();
  return (performance.now() - started) / count;
}

async function call(toolName: string, input: unknown): Promise<void> {
  const result = await box.execute({ id: "c", toolName, arguments: input });
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
}

const figures: { [name: string]: number } = {};
const JOBS = [
  { name: "warm call", toolName: "warm", job: ADD, count: 2_000, isolateLifetime: "tool" },
  { name: "fresh call", toolName: "fresh", job: ADD, count: 300, isolateLifetime: "call" },
  {
    name: "100 sequential capability calls",
    toolName: "sequential",
    job: SEQUENTIAL,
    count: 50,
    isolateLifetime: "tool",
  },
  { name: "100 parallel capability calls", toolName: "parallel", job: PARALLEL, count: 50, isolateLifetime: "tool" },
] as const;
for (const { name, toolName, job, count, isolateLifetime } of JOBS) {
  const tool = { source: toToolSource(job) };
  const { bundle } = await box.inspectTool(tool);
  await box.addTool({ ...tool, name: toolName }, { grant: ["ask"], isolateLifetime });
  const raw = await createRawTool(bundle.code);
  const input = JSON.stringify(job.input);
  await meanMs(count / 5, () => raw.call(input));
  await meanMs(count / 5, () => call(toolName, job.input));
  const rawMs = await meanMs(count, () => raw.call(input));
  figures[name] = (await meanMs(count, () => call(toolName, job.input))) / rawMs;
  raw.dispose();
}
const before = process.cpuUsage();
await meanMs(2_000, () => call("warm", ADD.input));
const { user, system } = process.cpuUsage(before);
figures["CPU time of the host per warm call in µs"] = (user + system) / 2_000;
console.log(JSON.stringify(figures));
