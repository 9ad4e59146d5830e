// What do a tenant's own looping calls cost its other tools? Their latency alone, and next to 1, 2, 4 and 8 such calls.
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox } from "../src/host/index.ts";
import { percentile, report, times } from "./support/measure.ts";

const TENANT = "acme";
const HOSTILE = {
  looping: "export default () => { for (;;); };",
  allocating: "export default () => { for (;;) new Array(1_000).fill(1); };",
  microtasks: "export default async () => { for (;;) await null; };",
};
const COUNTS = times([1, 2, 4, 8], [4]);
const PHASE_MS = times(6_000, 500);
const PACE_MS = 25;
const SHORT = "export default ({ a }) => a + 1;";

interface Situation {
  readonly name: string;
  readonly count: number;
  readonly language: "javascript" | "python";
  readonly short: string;
  readonly hostile: string;
  readonly timeoutMs: number;
  readonly phaseMs: number;
}

const SITUATIONS: readonly Situation[] = [
  ...Object.entries(HOSTILE).flatMap(([name, hostile]) =>
    COUNTS.map((count) => {
      return {
        name,
        count,
        language: "javascript",
        short: SHORT,
        hostile,
        timeoutMs: 3_000,
        phaseMs: PHASE_MS,
      } as const;
    }),
  ),
  // A Python call takes a process and some hundred milliseconds, so these are made one after the other, and for longer.
  ...times([1, 2, 4], [1]).map((count) => {
    return {
      name: "looping in Python",
      count,
      language: "python",
      short: "def main(input):\n    return input['a'] + 1",
      hostile: "def main(input):\n    while True:\n        pass",
      timeoutMs: 10_000,
      phaseMs: 4 * PHASE_MS,
    } as const;
  }),
];

const rows: { [name: string]: { [column: string]: string } } = {};

/** Latencies in ms, ascending, of calls of a short tool: paced ones, or in Python one after the other. */
async function probe(
  glovebox: Awaited<ReturnType<typeof createGlovebox>>,
  language: Situation["language"],
  forMs: number,
): Promise<readonly number[]> {
  const taken: number[] = [];
  const running: Promise<void>[] = [];
  const until = performance.now() + forMs;
  while (performance.now() < until) {
    const started = performance.now();
    const call = glovebox
      .execute({ id: "p", toolName: "short", arguments: { a: 1 } }, { tenantId: TENANT })
      .then((result) => {
        if (!result.success) console.log(`a short call failed: ${result.error.code}`);
        taken.push(performance.now() - started);
      });
    running.push(call);
    if (language === "python") await call;
    await pause(PACE_MS);
  }
  await Promise.all(running);
  return taken.sort((a, b) => a - b);
}

for (const { name, count, language, short, hostile, timeoutMs, phaseMs } of SITUATIONS) {
  await using glovebox = await createGlovebox({ tenancy: "multi", limits: { timeoutMs } });
  await glovebox.addTool({ name: "short", source: short, language }, { tenantId: TENANT });
  await glovebox.addTool({ name: "hostile", source: hostile, language }, { tenantId: TENANT });
  await probe(glovebox, language, 1_000);
  const alone = await probe(glovebox, language, phaseMs / 2);
  const stop = new AbortController();
  const attacks = Array.from({ length: count }, async () => {
    while (!stop.signal.aborted) {
      await glovebox.execute({ id: "h", toolName: "hostile" }, { tenantId: TENANT, signal: stop.signal });
    }
  });
  const loaded = await probe(glovebox, language, phaseMs);
  stop.abort();
  await Promise.all(attacks);
  const [aloneP99, loadedP99] = [percentile(alone, 0.99), percentile(loaded, 0.99)];
  rows[`${count} ${name}`] = {
    "alone p50": percentile(alone, 0.5).toFixed(1),
    "alone p99": aloneP99.toFixed(1),
    "next to p50": percentile(loaded, 0.5).toFixed(1),
    "next to p99": loadedP99.toFixed(1),
    "next to max": percentile(loaded, 1).toFixed(1),
    goal: (3 * aloneP99 + 10).toFixed(1),
  };
  console.log(`${count} ${name}`, rows[`${count} ${name}`]);
}
await report({
  name: "same-tenant",
  question: `Latency in ms of a short tool, called every ${PACE_MS} ms, next to calls of the same tenant that never end`,
  rows,
});
