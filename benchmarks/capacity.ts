// What does a call cost each part of a fleet, and does the model of capacity predict what this machine does?
import { loadavg } from "node:os";
import type { Check, Inputs } from "./capacity/inputs.ts";
import { measureChecks } from "./capacity/measure-check.ts";
import { measureInputs } from "./capacity/measure-inputs.ts";
import { surroundings, writeResult } from "./support/measure.ts";
import type { Row } from "./support/result.ts";

// Before this process is moved to one core.
const machine = surroundings();
const load = (): string => `Load of the machine at the end: ${loadavg()[0]?.toFixed(1) ?? "unknown"}.`;
const MODE_NAMES = {
  sync: "a synchronous call",
  kv: "with a kv read and a kv write",
  async: "an asynchronous call",
} as const;

function toInputRows({ calls, coldMs }: Inputs): { readonly [name: string]: Row } {
  const rows = Object.entries(MODE_NAMES).map(([mode, name]): [string, Row] => {
    const costs = calls[mode as keyof typeof calls];
    return [
      name,
      {
        "control plane, CPU ms": costs.controlMs.toFixed(2),
        "executor, CPU ms": costs.executorMs.toFixed(2),
        "nats-server, CPU ms": costs.natsMs.toFixed(3),
        "Postgres, CPU ms": costs.postgresMs.toFixed(2),
        "messages in + out": `${costs.natsIn.toFixed(2)} + ${costs.natsOut.toFixed(2)}`,
        "reads + writes": `${costs.reads.toFixed(2)} + ${costs.writes.toFixed(2)}`,
        "rows written": costs.rows.toFixed(2),
        commits: costs.commits.toFixed(2),
        "WAL bytes": Math.round(costs.walBytes),
      },
    ];
  });
  return { ...Object.fromEntries(rows), "first call of a tenant, more": { "executor, CPU ms": coldMs.toFixed(1) } };
}

const toCheckRows = (checks: readonly Check[]): { readonly [name: string]: Row } =>
  Object.fromEntries(
    checks.map(({ utilisation, callsPerS, p50Ms, p99Ms }): [string, Row] => [
      `utilisation ${(100 * utilisation).toFixed(0)} %`,
      {
        "calls/s": callsPerS.measured.toFixed(1),
        "model calls/s": callsPerS.model.toFixed(1),
        "p50 ms": p50Ms.measured.toFixed(1),
        "model p50 ms": p50Ms.model.toFixed(1),
        "p99 ms": p99Ms.measured.toFixed(1),
        "model p99 ms": p99Ms.model.toFixed(1),
      },
    ]),
  );

// With names, those only.
const chosen = process.argv.slice(2).filter((word) => word === "inputs" || word === "check");
if (chosen.length === 0 || chosen.includes("inputs")) {
  const inputs = await measureInputs();
  const rows = toInputRows(inputs);
  console.table(rows);
  await writeResult({
    name: "capacity-inputs",
    question:
      "What a call of a trivial tool costs each part of a fleet: a server, Postgres, NATS and an executor, each a process of its own",
    ...machine,
    rows,
    inputs,
    notes: [
      `Eight calls at a time over HTTP, less what the parts use without calls. Statements are counted in the log of Postgres; the records of calls that end within 20 ms are one statement. ${load()}`,
    ],
  });
}
if (chosen.length === 0 || chosen.includes("check")) {
  const checks = await measureChecks();
  const rows = toCheckRows(checks);
  console.table(rows);
  await writeResult({
    name: "capacity-check",
    question:
      "The model of capacity against this machine: calls that arrive at random times at an executor on one core",
    ...machine,
    rows,
    checks,
    load: loadavg()[0] ?? 0,
    notes: [
      `The control plane, nats-server and the callers are on another core. The model gets the CPU times of a call and the time of its way, measured at a utilisation of 10 %, and predicts the rest. ${load()}`,
    ],
  });
}
