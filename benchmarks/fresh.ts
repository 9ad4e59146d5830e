// What does a fresh isolate for every call cost: at a steady pace, and as many as the machine can make?
import { fork } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { createGlovebox } from "../src/host/index.ts";
import { Peers } from "./peers/all.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { measure, report, times } from "./support/measure.ts";
import { runRawTool } from "./support/raw-isolate.ts";
import type { RawLoopOrder } from "./support/raw-loop.ts";
import { FRESH, RAW_COLD, WARM } from "./support/result.ts";
import { benchmarkPath, createCaller } from "./support/tools.ts";

const PACE_MS = 5;
const ROUNDS = times(6, 1);
const WINDOW_MS = times(3_000, 200);
const CALLERS = 16;

// Its end is the program's: when peers are closed, what they have left running is given two seconds.
await using peers = await Peers.start({ only: ["quickjs-emscripten"] });
await using glovebox = await createGlovebox({ tenancy: "multi" });
const call = createCaller(glovebox);
const tool = { source: toToolSource(ADD) };
const { bundle } = await glovebox.inspectTool(tool, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "add" }, { tenantId: "acme" });
await glovebox.addTool({ ...tool, name: "warm-add" }, { tenantId: "acme", isolateLifetime: "tool" });

async function measurePaced(): Promise<void> {
  await measure({
    name: "fresh",
    question: "One call each 5 ms, each in an isolate of its own",
    samples: 2_000,
    warmup: 200,
    paceMs: PACE_MS,
    block: times(50, 5),
    subjects: {
      [RAW_COLD]: () => runRawTool(bundle.code, ADD.input),
      [FRESH]: () => call("add", ADD.input),
      [WARM]: () => call("warm-add", ADD.input),
      ...peers.subjects(ADD),
    },
    notes: ["Blocks of 50 calls take turns, so that the pace of each subject is the one stated.", ...peers.notes],
    leftOut: peers.leftOut,
  });
}

/** Isolates per second of one raw process for each core, with the given number in parallel in each. */
async function saturateRaw(inFlight: number): Promise<number> {
  const children = Array.from({ length: availableParallelism() }, () => fork(benchmarkPath("support/raw-loop.ts")));
  const order: RawLoopOrder = { code: bundle.code, input: ADD.input, inFlight, ms: WINDOW_MS };
  // All of them have loaded isolated-vm before one begins.
  await Promise.all(children.map((child) => once(child, "message")));
  const answers = children.map((child) => once(child, "message") as Promise<[number]>);
  // The first may have ended before the last has answered.
  const ends = children.map((child) => once(child, "exit"));
  for (const child of children) child.send(order);
  const counts = await Promise.all(answers);
  await Promise.all(ends);
  return counts.reduce((sum, [count]) => sum + count, 0) / (WINDOW_MS / 1_000);
}

async function saturateGlovebox(): Promise<number> {
  let count = 0;
  const end = performance.now() + WINDOW_MS;
  const caller = async (): Promise<void> => {
    while (performance.now() < end) {
      await call("add", ADD.input);
      if (performance.now() <= end) count += 1;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return count / (WINDOW_MS / 1_000);
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

async function measureSaturated(): Promise<void> {
  const raw1: number[] = [];
  const raw2: number[] = [];
  const fresh: number[] = [];
  await saturateGlovebox();
  for (let round = 0; round < ROUNDS; round += 1) {
    raw1.push(await saturateRaw(1));
    fresh.push(await saturateGlovebox());
    raw2.push(await saturateRaw(2));
  }
  const best = Math.max(median(raw1), median(raw2));
  const toRow = (values: readonly number[]): { readonly "isolates/s": number; readonly "of raw": number } => ({
    "isolates/s": Math.round(median(values)),
    "of raw": Number((median(values) / best).toFixed(3)),
  });
  await report({
    name: "fresh-saturated",
    question: "Calls per second with a fresh isolate each, on all cores",
    rows: {
      "raw isolated-vm, one at a time in each process": toRow(raw1),
      "raw isolated-vm, two at a time in each process": toRow(raw2),
      [FRESH]: toRow(fresh),
    },
    notes: [
      `Raw: ${availableParallelism()} processes, each making, calling and disposing isolates. Glovebox: ${CALLERS} callers of one tenant. Windows of ${WINDOW_MS} ms in turns; medians of ${ROUNDS}.`,
    ],
  });
}

await measurePaced();
await measureSaturated();
