// What does it cost in memory to keep a tool ready, to keep a tenant's process, and to keep an unused tool?
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox, type Glovebox } from "../src/host/index.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { QUICK, report, times } from "./support/measure.ts";
import { type Memory, memoryOf } from "./support/memory.ts";
import { createRawTool, type RawTool } from "./support/raw-isolate.ts";
import { createCaller } from "./support/tools.ts";

const TOOLS = 8;
const TENANTS = times(4, 2);
/** Fewer spares than tools are kept; each gets calls enough to earn one. */
const CALLS = 5;
/** A tool that has not been called for 3 s is cold. The host checks this each second. */
const COLD_MS = times(6_000, 500);
const SETTLE_MS = times(2_000, 300);

const less = (a: Memory, b: Memory, over: number): Memory => ({
  rssMiB: (a.rssMiB - b.rssMiB) / over,
  pssMiB: (a.pssMiB - b.pssMiB) / over,
});
const mean = (all: readonly Memory[]): Memory => ({
  rssMiB: all.reduce((sum, { rssMiB }) => sum + rssMiB, 0) / all.length,
  pssMiB: all.reduce((sum, { pssMiB }) => sum + pssMiB, 0) / all.length,
});
const toRow = ({ rssMiB, pssMiB }: Memory): { readonly "RSS MiB": number; readonly "Pss MiB": number } => ({
  "RSS MiB": Number(rssMiB.toFixed(2)),
  "Pss MiB": Number(pssMiB.toFixed(2)),
});

/** No spare processes: those that there are belong to tenants. */
const openGlovebox = (): Promise<Glovebox> => createGlovebox({ tenancy: "multi", workers: { warmProcesses: 0 } });

/** Each differs from the others, or they would be one bundle. */
const toolOf = (index: number): { readonly name: string; readonly source: string } => ({
  name: `add-${index}`,
  source: `const NUMBER = ${index};\n${toToolSource(ADD)}\nexport const description = "Tool " + NUMBER;`,
});

function onlyProcess(glovebox: Glovebox): Memory {
  const [pid] = glovebox.workerPids;
  if (pid === undefined || glovebox.workerPids.length > 1) {
    throw new Error(`Expected one worker process, got ${glovebox.workerPids.length}`);
  }
  return memoryOf(pid);
}

/**
 * A tenant's process with one tool, then with more, each loaded; and when all of them have gone cold. What a process once had it keeps
 * for what comes next, so what a cold tool costs is seen when as many more have been loaded and gone cold.
 */
async function measureTools(
  isolateLifetime: "call" | "tool",
): Promise<{ readonly warm: Memory; readonly cold: Memory }> {
  await using glovebox = await openGlovebox();
  const call = createCaller(glovebox);
  const use = async (first: number, last: number): Promise<void> => {
    for (let round = 0; round < CALLS; round += 1) {
      for (let index = first; index <= last; index += 1) {
        await call(`add-${index}`, ADD.input);
        await pause(20);
      }
    }
    await pause(SETTLE_MS);
  };
  const last = isolateLifetime === "call" ? TOOLS - 1 : TOOLS;
  for (let index = 0; index <= 2 * last; index += 1)
    await glovebox.addTool(toolOf(index), { tenantId: "acme", isolateLifetime });
  await use(0, 0);
  const one = onlyProcess(glovebox);
  await use(0, last);
  const all = onlyProcess(glovebox);
  await pause(COLD_MS);
  const first = onlyProcess(glovebox);
  await use(last + 1, 2 * last);
  await pause(COLD_MS);
  const second = onlyProcess(glovebox);
  return { warm: less(all, one, last), cold: less(second, first, last) };
}

async function measureTenants(): Promise<{ readonly warm: Memory; readonly cold: Memory }> {
  await using glovebox = await openGlovebox();
  const call = createCaller(glovebox);
  await glovebox.addTool(toolOf(0), { scope: "global" });
  for (let n = 0; n < TENANTS; n += 1) {
    for (let round = 0; round < CALLS; round += 1) await call("add-0", ADD.input, `tenant-${n}`);
  }
  await pause(SETTLE_MS);
  const warm = mean(glovebox.workerPids.map(memoryOf));
  await pause(COLD_MS);
  return { warm, cold: mean(glovebox.workerPids.map(memoryOf)) };
}

async function measureRaw(): Promise<Memory> {
  await using glovebox = await openGlovebox();
  const { bundle } = await glovebox.inspectTool(toolOf(0), { scope: "global" });
  const isolates: RawTool[] = [];
  const add = async (): Promise<void> => {
    const tool = await createRawTool(bundle.code);
    await tool.call(JSON.stringify(ADD.input));
    isolates.push(tool);
  };
  await add();
  await pause(SETTLE_MS);
  // Not the processes beneath: the glovebox's own are there.
  const before = process.memoryUsage.rss() / 2 ** 20;
  for (let n = 0; n < TOOLS; n += 1) await add();
  await pause(SETTLE_MS);
  const after = process.memoryUsage.rss() / 2 ** 20;
  for (const isolate of isolates) isolate.dispose();
  const each = (after - before) / TOOLS;
  return { rssMiB: each, pssMiB: each };
}

const raw = await measureRaw();
const tenants = await measureTenants();
const loaded = await measureTools("tool");
const warmProcesses = await measureTools("call");

await report({
  name: "density",
  question: "Memory of a tool that is ready, of a tenant's process, and of a tool that is not called",
  rows: {
    "a raw isolate with the tool loaded": toRow(raw),
    "an idle warm tool": toRow(loaded.warm),
    "an idle tool with a loaded spare": toRow(warmProcesses.warm),
    "an idle tenant process": toRow(tenants.cold),
    "an idle tenant process, its tool still warm": toRow(tenants.warm),
    "a cold tool": toRow(warmProcesses.cold),
  },
  notes: [
    `From /proc/PID/smaps_rollup of the worker processes and what is beneath them. Tools: the difference between a process with ${TOOLS + 1} loaded tools (8 with spares) and with one, over the tools that were added. Cold: looked at ${COLD_MS / 1_000} s after the last call; the cold tool is the difference between a process in which ${TOOLS - 1} tools have gone cold and the same when as many others have been called and gone cold after them, over these.`,
    "The raw isolate is a difference of resident memory in one process. The peers keep no tool ready, or keep it in a process whose parts cannot be told apart.",
    ...(QUICK ? ["A quick run does not wait until tools are cold."] : []),
  ],
});
