// Writes the tables of the capacity guide from the measured inputs and the model.
import type { Assumptions } from "./assumptions.ts";
import { toAssumptionRows } from "./assumptions.ts";
import type { CallCosts, Compared, Inputs, MeasuredChecks } from "./inputs.ts";
import { Planner, SLOTS_PER_CORE, TENANTS_PER_MACHINE } from "./plan.ts";
import { type Outcome, simulate } from "./simulate.ts";
import { keptAgeMs, zipfGroups } from "./theory.ts";

const CALLS = 40_000;
const IDLE_MS = 60_000;
/** One way between two processes through NATS in one data centre, without waiting. */
const WAY_MS = 0.5;

type Cells = readonly (string | number)[];

/** A number with two significant digits, so that the noise of a simulation is not taken for a result. */
function round(value: number, digits = 2): string {
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  return rounded >= 1_000 ? rounded.toLocaleString("en") : String(rounded);
}
const percent = (share: number): string => `${Math.round(100 * share)} %`;
const table = (head: Cells, rows: readonly Cells[]): string =>
  [head, head.map((_, index) => (index === 0 ? "---" : "--:")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");

export interface PageParts {
  readonly inputs: Inputs;
  readonly checks: MeasuredChecks;
  readonly assumptions: Assumptions;
}

/** The tables of the guide, by the name of their place in it. */
export function toTables({ inputs, checks, assumptions }: PageParts): { readonly [name: string]: string } {
  const planner = new Planner(inputs, assumptions);
  return {
    costs: costsTable(inputs),
    checks: checksTable(checks),
    assumptions: table(["flag", "what", "value"], toAssumptionRows(assumptions)),
    latency: latencyTable(inputs, assumptions, planner),
    fleets: fleetsTable(inputs, assumptions, planner),
    tenants: tenantsTable(planner),
    money: moneyTable(inputs, planner),
    limits: limitsTable(inputs, assumptions, planner),
  };
}

const MODES: readonly (readonly [mode: keyof Inputs["calls"], name: string])[] = [
  ["sync", "synchronous call"],
  ["kv", "with one kv read and one kv write"],
  ["async", "asynchronous call"],
];

function costsTable({ calls, coldMs }: Inputs): string {
  const names: readonly (readonly [name: string, of: (costs: CallCosts) => string])[] = [
    ["CPU ms: control plane", ({ controlMs }) => round(controlMs)],
    ["CPU ms: executor and worker, tool not counted", ({ executorMs }) => round(executorMs)],
    ["CPU ms: Postgres", ({ postgresMs }) => round(postgresMs)],
    ["CPU ms: nats-server", ({ natsMs }) => round(natsMs)],
    ["messages received and sent by NATS", ({ natsIn, natsOut }) => `${natsIn.toFixed(1)} + ${natsOut.toFixed(1)}`],
    ["SQL reads and writes", ({ reads, writes }) => `${reads.toFixed(1)} + ${writes.toFixed(1)}`],
    ["rows written", ({ rows }) => rows.toFixed(1)],
    ["transactions", ({ commits }) => commits.toFixed(1)],
    ["write-ahead log, bytes", ({ walBytes }) => round(walBytes)],
  ];
  return table(
    ["a call of a trivial tool takes", ...MODES.map(([, name]) => name)],
    [
      ...names.map(([name, of]) => [name, ...MODES.map(([mode]) => of(calls[mode]))]),
      ["first call of a tenant on an executor: CPU ms more", round(coldMs), "", ""],
    ],
  );
}

function checksTable({ checks, load, machine }: MeasuredChecks): string {
  const cells = ({ measured, model }: Compared): Cells => [
    round(measured, 3),
    round(model, 3),
    `${model >= measured ? "+" : "−"}${Math.round((100 * Math.abs(model - measured)) / measured)} %`,
  ];
  const rows = table(
    ["utilisation", "calls/s", "model", "error", "p50 ms", "model", "error", "p99 ms", "model", "error"],
    checks.map(({ utilisation, callsPerS, p50Ms, p99Ms }) => [
      percent(utilisation),
      ...cells(callsPerS),
      ...cells(p50Ms),
      ...cells(p99Ms),
    ]),
  );
  return `${rows}\n\nLoad average of the machine after the measurement: ${load.toFixed(1)}, with ${machine.cores} cores.`;
}

interface Load {
  readonly executors: number;
  readonly cores: number;
  readonly callsPerS: number;
  readonly tenants: number;
  /** Whether all tenants have processes. */
  readonly isWarm?: boolean;
}

function run(inputs: Inputs, assumptions: Assumptions, planner: Planner, load: Load): Outcome {
  const { executors, cores, callsPerS, tenants, isWarm = false } = load;
  const { sync } = inputs.calls;
  const { serviceMs } = planner;
  const controlPlanes = Math.max(2, Math.ceil((callsPerS * sync.controlMs) / (1_000 * assumptions.utilisation)));
  const { processes } = planner;
  const groups = zipfGroups(tenants, assumptions.zipf);
  return simulate({
    seed: 1,
    calls: CALLS,
    callsPerS,
    tenants,
    zipf: assumptions.zipf,
    executors,
    controlPlanes,
    executor: { cores, slots: SLOTS_PER_CORE * cores, processes, idleMs: IDLE_MS },
    controlMs: sync.controlMs,
    natsCores: assumptions.natsCores,
    natsMs: planner.natsMsPerMessage,
    messages: sync.natsIn + sync.natsOut,
    wayMs: WAY_MS,
    serviceMs,
    serviceCv: assumptions.toolCv,
    coldMs: isWarm ? 0 : inputs.coldMs,
    warmMs: keptAgeMs(groups, callsPerS / 1_000, executors * processes, IDLE_MS),
  });
}

function latencyTable(inputs: Inputs, assumptions: Assumptions, planner: Planner): string {
  const { cores } = assumptions;
  const sizes = [
    { executors: 1, cores: 2 },
    { executors: 1, cores },
    { executors: 10, cores },
  ];
  const rows = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95].map((utilisation) => [
    percent(utilisation),
    ...sizes.map((size) => {
      const tenants = 20 * size.executors;
      const callsPerS = (1_000 * size.executors * size.cores * utilisation) / planner.serviceMs;
      const { p50Ms, p99Ms } = run(inputs, assumptions, planner, { ...size, callsPerS, tenants, isWarm: true });
      return `${round(p50Ms)} / ${round(p99Ms)}`;
    }),
  ]);
  return table(
    [
      "utilisation",
      ...sizes.map(
        (size) => `${size.executors} executor${size.executors === 1 ? "" : "s"} of ${size.cores} cores: p50 / p99 ms`,
      ),
    ],
    rows,
  );
}

function fleetsTable(inputs: Inputs, assumptions: Assumptions, planner: Planner): string {
  const { cores } = assumptions;
  const rows = [1, 10, 100, 1_000].map((machines) => {
    const { cells, cell, callsPerS } = planner.planOf(machines);
    const tenants = TENANTS_PER_MACHINE * machines;
    const { executors } = cell;
    const load = { executors, cores, callsPerS: cell.callsPerS, tenants: Math.ceil(tenants / cells) };
    const { p50Ms, p99Ms, coldShare } = run(inputs, assumptions, planner, load);
    return [
      machines.toLocaleString("en"),
      tenants.toLocaleString("en"),
      round(callsPerS),
      `${cells} × ${cell.executors}`,
      cells * cell.controlPlanes,
      `${round(p50Ms)} / ${round(p99Ms)}`,
      percent(coldShare),
      round(cell.natsCores),
      round(cell.postgresCores),
    ];
  });
  const head = ["machines", "tenants", "calls/s", "cells × executors", "control planes", "p50 / p99 ms", "cold calls"];
  return table([...head, "NATS cores in a cell", "Postgres cores in a cell"], rows);
}

function tenantsTable(planner: Planner): string {
  const rows = [0.01, 0.1, 1, 10, 60].map((callsPerMinute) => {
    const { tenants, warm } = planner.tenantsPerMachine(callsPerMinute);
    return [callsPerMinute, round(tenants), round((tenants * callsPerMinute) / 60), percent(1 - warm)];
  });
  return table(["calls of a tenant per minute, mean", "tenants per machine", "calls/s", "cold calls"], rows);
}

function moneyTable(inputs: Inputs, planner: Planner): string {
  const rows = MODES.map(([mode, name]) => {
    const costs = planner.costOf(inputs.calls[mode]);
    const total = Object.values(costs).reduce((sum, one) => sum + one, 0);
    return [name, ...Object.values(costs).map((one) => one.toFixed(3)), total.toFixed(2)];
  });
  return table(["a million of", ...Object.keys(planner.costOf()), "sum"], rows);
}

function limitsTable(inputs: Inputs, { natsCores, postgresCores }: Assumptions, planner: Planner): string {
  const { largestCell } = planner;
  return table(
    ["part", "saturates at"],
    [
      ["one control plane (one core)", `${round(planner.callsPerControlPlane)} calls/s, at the assumed utilisation`],
      [
        "one executor",
        `${round(planner.callsPerMachine)} calls/s, at the assumed utilisation and with ${TENANTS_PER_MACHINE.toLocaleString("en")} tenants`,
      ],
      [`one Postgres of ${postgresCores} cores`, `${round(planner.postgresLimit())} synchronous calls/s`],
      ["", `${round(planner.postgresLimit(inputs.calls.kv))} calls/s with a kv read and a kv write`],
      ["", `${round(planner.postgresLimit(inputs.calls.async))} asynchronous calls/s`],
      [
        `one nats-server of ${natsCores} cores`,
        `${round(planner.natsLimit)} calls/s, or ${round((1_000 * natsCores) / planner.natsMsPerMessage)} messages/s`,
      ],
      [
        "largest cell at the assumed utilisation",
        `${largestCell.executors} executors and ${largestCell.controlPlanes} control planes: ${round(largestCell.callsPerS)} calls/s, ${round(largestCell.messagesPerS)} messages/s, ${percent(largestCell.overheadPerS / largestCell.messagesPerS)} of them not about calls`,
      ],
    ],
  );
}

/** Puts the tables into a page: each between two comments with its name. @throws {Error} if a place is missing */
export function fillPage(page: string, tables: { readonly [name: string]: string }): string {
  let filled = page;
  for (const [name, text] of Object.entries(tables)) {
    const place = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!place.test(filled)) throw new Error(`The page has no place for the table ${name}`);
    filled = filled.replace(place, (_, begin: string, end: string) => `${begin}\n${text}\n\n${end}`);
  }
  return filled;
}
