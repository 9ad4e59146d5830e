// What the model of capacity is computed from: measured by `npm run bench -- capacity`, kept in results/capacity-inputs.json.
import { readFileSync } from "node:fs";

/** Costs of one call. */
export interface CallCosts {
  /** CPU time in ms: the control plane, the executor with its worker processes, nats-server, Postgres. */
  readonly controlMs: number;
  readonly executorMs: number;
  readonly natsMs: number;
  readonly postgresMs: number;
  /** Messages that nats-server received and sent. */
  readonly natsIn: number;
  readonly natsOut: number;
  readonly natsBytes: number;
  /** Statements of Postgres. Writes of several calls are in one statement. */
  readonly reads: number;
  readonly writes: number;
  /** Transactions, rows written, and bytes of the write-ahead log. */
  readonly commits: number;
  readonly rows: number;
  readonly walBytes: number;
}

export interface Inputs {
  readonly calls: { readonly [Mode in "sync" | "kv" | "async"]: CallCosts };
  /** What one control plane with one executor uses in a ms without calls. */
  readonly idle: Omit<CallCosts, "reads" | "writes">;
  /** CPU time in ms that the first call of a tenant takes in addition on its executor. */
  readonly coldMs: number;
  readonly isBuilt: boolean;
}

/** A comparison of the model with a measurement. */
export interface Check {
  readonly executors: number;
  /** Share of the executors' cores that the calls need. */
  readonly utilisation: number;
  readonly callsPerS: Compared;
  readonly p50Ms: Compared;
  readonly p99Ms: Compared;
}
/** The comparisons, with the load average and the cores of the machine, because other programs delay calls. */
export interface MeasuredChecks {
  readonly checks: readonly Check[];
  readonly load: number;
  readonly machine: { readonly cores: number };
}
export interface Compared {
  readonly measured: number;
  readonly model: number;
}

const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../results/${name}.json`, import.meta.url), "utf8"));

export const readInputs = (): Inputs => (read("capacity-inputs") as { readonly inputs: Inputs }).inputs;
export const readChecks = (): MeasuredChecks => read("capacity-check") as MeasuredChecks;
