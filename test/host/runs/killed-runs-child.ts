// A process of the test of killed runs: continues the runs of the batch before, whose process was killed, to their end, and reports them; then runs
// each program of its own batch, stops a run of it at every point, reports, and waits until it is killed in the middle of the last ones.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import {
  createGlovebox,
  createRuns,
  defineCapability,
  type MemoryRunStore,
  type Runs,
} from "../../../src/host/index.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { LoggedStore } from "./logged-store.ts";
import { driveToEnd, endOf, PROGRAM_TOOL, type Step } from "./run-programs.ts";

interface Order {
  readonly folder: string;
  /** Batches by their number; undefined if there is none. */
  readonly finish: number | undefined;
  readonly start: number | undefined;
}
const { folder, finish, start } = JSON.parse(process.argv[2] ?? "{}") as Order;
const pathOf = (batch: number, what: string): string => `${folder}/${batch}.${what}`;
const read = <Value>(path: string): Value => JSON.parse(readFileSync(path, "utf8")) as Value;

const CONCURRENCY = 6;
/** Runs of a batch that are in the middle of an append when their process is killed. */
const BLOCKED = 4;

/** An effect: what it did outlives the process. */
const act = defineCapability({
  name: "act",
  inputSchema: z.string(),
  outputSchema: z.null(),
  handler: (what, { callId }) => {
    appendFileSync(`${folder}/acts`, `${callId} ${what}\n`);
    return null;
  },
});
await using glovebox = await createGlovebox({
  capabilities: [act],
  cache: process.env.GLOVEBOX_TEST_CACHE === undefined ? false : { directory: process.env.GLOVEBOX_TEST_CACHE },
  kv: "memory",
  workers: { max: 1, warmProcesses: 0 },
  limits: PATIENT_LIMITS,
});
await glovebox.addTool({ name: "program", source: PROGRAM_TOOL }, { grant: ["kv", "waitFor", "act"] });

const open = (store: MemoryRunStore): Runs => createRuns(glovebox, { store, pollMs: 0, maxOpen: 1_000_000 });
const tool = (program: Step, id: string) => ({ toolName: "program", arguments: { program }, id });

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (const item of rest) await work(item);
    }),
  );
}

async function finishBatch(batch: number): Promise<void> {
  const store = await LoggedStore.open(pathOf(batch, "log"));
  const runs = open(store);
  const ends: Record<string, string> = {};
  await inParallel(read<readonly string[]>(pathOf(batch, "ids")), async (id) => {
    const known = await store.find({ tenantId: "default", id });
    const isOpen = known?.state === "running" || known?.state === "suspended";
    ends[id] = endOf(isOpen ? await driveToEnd(runs, await runs.resume(id)) : known);
  });
  await runs.close();
  writeFileSync(pathOf(batch, "ends"), JSON.stringify(ends));
}

async function startBatch(batch: number): Promise<void> {
  const programs = read<readonly Step[]>(pathOf(batch, "programs"));
  const whole: string[] = [];
  const points: { readonly index: number; readonly appends: number }[] = [];
  await inParallel([...programs.keys()], async (index) => {
    const store = await LoggedStore.open("/dev/null");
    const runs = open(store);
    whole[index] = endOf(await driveToEnd(runs, await runs.start(tool(programs[index] as Step, "whole"))));
    await runs.close();
    const total = store.appends.get("whole") ?? 0;
    for (let appends = 0; appends < total; appends += 1) points.push({ index, appends });
  });
  writeFileSync(pathOf(batch, "whole"), JSON.stringify(whole));
  const idOf = ({ index, appends }: (typeof points)[number]): string => `${index}/${appends}`;
  writeFileSync(pathOf(batch, "ids"), JSON.stringify(points.map(idOf)));
  const store = await LoggedStore.open(pathOf(batch, "log"));
  const runs = open(store);
  const startOne = async (point: (typeof points)[number], blocks: boolean): Promise<void> => {
    const id = idOf(point);
    store.stopAfter(id, point.appends, blocks);
    await driveToEnd(runs, await runs.start(tool(programs[point.index] as Step, id)).catch(() => undefined));
  };
  await inParallel(points.slice(BLOCKED), (point) => startOne(point, false));
  let blocked = 0;
  store.onBlocked = () => {
    blocked += 1;
    if (blocked === Math.min(BLOCKED, points.length)) process.send?.({ points: points.length });
  };
  for (const point of points.slice(0, BLOCKED)) void startOne(point, true);
}

if (finish !== undefined) await finishBatch(finish);
if (start === undefined) process.send?.({ points: 0 });
else await startBatch(start);
// The parent kills the process.
await new Promise(() => setInterval(() => {}, 60_000));
