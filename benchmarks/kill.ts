// How long after its deadline does a call end that would never end, over ten kinds of loop?
import { setTimeout as pause } from "node:timers/promises";
import { createGlovebox } from "../src/host/index.ts";
import { ADD, toToolSource } from "./support/jobs.ts";
import { ENDLESS_TOOLS } from "./support/loops.ts";
import { report, summarize, times } from "./support/measure.ts";
import type { Row } from "./support/result.ts";
import { createCaller } from "./support/tools.ts";

const ROUNDS = times(40, 1);
const DEADLINE_MS = 200;
/** A call that does not stop is ended 200 ms after its end, and counted then. */
const SETTLE_MS = 400;
const TENANT = "acme";

await using glovebox = await createGlovebox({ tenancy: "multi" });
const call = createCaller(glovebox);
await glovebox.addTool({ name: "add", source: toToolSource(ADD) }, { tenantId: TENANT });

interface Seen {
  readonly late: number[];
  readonly next: number[];
  readonly codes: Set<string>;
  processesEnded: number;
}
const seen = new Map<string, Seen>();
for (const { name, source } of ENDLESS_TOOLS) {
  await glovebox.addTool({ name: toolNameOf(name), source }, { tenantId: TENANT });
  seen.set(name, { late: [], next: [], codes: new Set(), processesEnded: 0 });
}

function toolNameOf(name: string): string {
  return name.replaceAll(" ", "-");
}

async function stopOne(name: string, record: Seen): Promise<void> {
  // Its process is up, and what the last one left behind is gone.
  await call("add", ADD.input);
  const before = new Set(glovebox.workerPids);
  const started = performance.now();
  const result = await glovebox.execute(
    { id: "c", toolName: toolNameOf(name) },
    { tenantId: TENANT, timeoutMs: DEADLINE_MS },
  );
  record.late.push(performance.now() - started - DEADLINE_MS);
  record.codes.add(result.success ? "ok" : result.error.code);
  const asked = performance.now();
  await call("add", ADD.input);
  record.next.push(performance.now() - asked);
  await pause(SETTLE_MS);
  const after = new Set(glovebox.workerPids);
  record.processesEnded += [...before].some((pid) => !after.has(pid)) ? 1 : 0;
}

for (let round = 0; round < ROUNDS; round += 1) {
  for (const [name, record] of seen) await stopOne(name, record);
}

const rows = ENDLESS_TOOLS.map(({ name, stoppedBy }): [string, Row] => {
  const { late, next, codes, processesEnded } = seen.get(name) ?? { late: [], next: [], codes: [], processesEnded: 0 };
  const { n, p50Ms, p99Ms } = summarize(late);
  return [
    name,
    {
      "stopped by": stoppedBy,
      n,
      "p50 ms late": Number(p50Ms.toFixed(2)),
      "p99 ms late": Number(p99Ms.toFixed(2)),
      "next call p50 ms": Number(summarize(next).p50Ms.toFixed(2)),
      "processes ended": processesEnded,
      result: [...codes].join(", "),
    },
  ];
});

await report({
  name: "kill",
  question: `Calls that never end, with a deadline of ${DEADLINE_MS} ms: how late is the result?`,
  rows: Object.fromEntries(rows),
  notes: [
    `From the deadline, counted from before execute(), to the result. The p99 of ${ROUNDS} calls is the slowest of them. The next call is one of a healthy tool of the same tenant, at once.`,
    "No peer is asked: raw isolated-vm and the peers on V8 have no way to stop some of these, and a benchmark that hangs measures nothing.",
  ],
});
