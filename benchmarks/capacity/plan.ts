// Computes what a fleet needs without simulation: its parts, their load, where each saturates, and what a call costs.
import type { Assumptions } from "./assumptions.ts";
import type { CallCosts, Inputs } from "./inputs.ts";
import { keptAgeMs, warmShare, zipfGroups } from "./theory.ts";

/** Messages per second that are sent without calls: announcements of an executor, which each control plane gets. */
const ANNOUNCEMENTS_PER_S = 2;
/** Messages per second of a control plane and an executor about the calls that run: 0.5 there, 2 back. */
const LISTS_PER_S = 2.5;
/** Time in ms after which the process of a tenant without calls ends. */
const IDLE_MS = 60_000;
/** Memory in MiB of the executor itself, and of the process of a tenant with a loaded tool (`benchmarks/density.ts`). */
const EXECUTOR_MIB = 120;
export const PROCESS_MIB = 40;
/** Tenants of a machine in the table of fleets. */
export const TENANTS_PER_MACHINE = 1_000;
/** Share of a machine's memory that tenants' processes may take. */
const MEMORY_SHARE = 0.75;
/** Slots of an executor for each core: calls that wait for a capability take no CPU time. */
export const SLOTS_PER_CORE = 8;

export interface Cell {
  readonly executors: number;
  readonly controlPlanes: number;
  readonly callsPerS: number;
  readonly messagesPerS: number;
  /** Of these messages, those that are not part of a call. */
  readonly overheadPerS: number;
  /** Cores that each part needs. */
  readonly natsCores: number;
  readonly postgresCores: number;
}

export interface Plan {
  readonly cells: number;
  readonly cell: Cell;
  readonly machines: number;
  readonly callsPerS: number;
}

export class Planner {
  readonly #costs: CallCosts;
  readonly #inputs: Inputs;
  readonly #assumptions: Assumptions;
  #callsPerMachine: number | undefined;

  constructor(inputs: Inputs, assumptions: Assumptions) {
    this.#inputs = inputs;
    this.#costs = inputs.calls.sync;
    this.#assumptions = assumptions;
  }

  /** CPU time in ms of a call on its executor, with the tool. */
  get serviceMs(): number {
    return this.#costs.executorMs + this.#assumptions.toolMs;
  }

  get natsMsPerMessage(): number {
    return this.#costs.natsMs / (this.#costs.natsIn + this.#costs.natsOut);
  }

  /** Calls per second of one machine, with the CPU time of calls that find no process of their tenant. */
  get callsPerMachine(): number {
    this.#callsPerMachine ??= this.#findRate();
    return this.#callsPerMachine;
  }

  #findRate(): number {
    const { cores, utilisation } = this.#assumptions;
    let [low, high] = [0, (1_000 * cores * utilisation) / this.serviceMs];
    for (let step = 0; step < 40; step += 1) {
      const middle = (low + high) / 2;
      if ((middle / 1_000) * this.#cpuMsOf(TENANTS_PER_MACHINE, middle / 1_000) <= cores * utilisation) low = middle;
      else high = middle;
    }
    return low;
  }

  #warmOf(tenants: number, callsPerMs: number): number {
    const groups = zipfGroups(tenants, this.#assumptions.zipf);
    return warmShare(groups, callsPerMs, keptAgeMs(groups, callsPerMs, this.processes, IDLE_MS));
  }

  /** CPU time in ms of a call on a machine with so many tenants: mean of those with and without a process. */
  #cpuMsOf(tenants: number, callsPerMs: number): number {
    return this.serviceMs + (1 - this.#warmOf(tenants, callsPerMs)) * this.#inputs.coldMs;
  }

  /** Calls per second of one control plane, which computes on one core. */
  get callsPerControlPlane(): number {
    return (1_000 * this.#assumptions.utilisation) / this.#costs.controlMs;
  }

  /** Calls per second at which one Postgres has no core left. */
  postgresLimit({ postgresMs }: CallCosts = this.#costs): number {
    return (1_000 * this.#assumptions.postgresCores) / postgresMs;
  }

  /** Calls per second at which one nats-server has no core left, without other messages. */
  get natsLimit(): number {
    return (1_000 * this.#assumptions.natsCores) / this.#costs.natsMs;
  }

  /** Processes of tenants that fit into the memory of a machine. */
  get processes(): number {
    return Math.floor((this.#assumptions.memoryGiB * 1_024 * MEMORY_SHARE - EXECUTOR_MIB) / PROCESS_MIB);
  }

  cellOf(executors: number): Cell {
    const callsPerS = executors * this.callsPerMachine;
    const controlPlanes = Math.max(2, Math.ceil(callsPerS / this.callsPerControlPlane));
    const announcements = ANNOUNCEMENTS_PER_S * executors * (1 + controlPlanes);
    // Each is received and sent.
    const overheadPerS = announcements + 2 * LISTS_PER_S * executors * controlPlanes;
    const messagesPerS = callsPerS * (this.#costs.natsIn + this.#costs.natsOut) + overheadPerS;
    return {
      executors,
      controlPlanes,
      callsPerS,
      messagesPerS,
      overheadPerS,
      natsCores: (messagesPerS * this.natsMsPerMessage) / 1_000,
      postgresCores: (callsPerS * this.#costs.postgresMs) / 1_000,
    };
  }

  /** The largest cell whose NATS and Postgres stay within the share of their cores. */
  get largestCell(): Cell {
    const { utilisation, natsCores, postgresCores } = this.#assumptions;
    let cell = this.cellOf(1);
    for (let executors = 2; executors <= 10_000; executors += 1) {
      const next = this.cellOf(executors);
      if (next.natsCores > utilisation * natsCores || next.postgresCores > utilisation * postgresCores) break;
      cell = next;
    }
    return cell;
  }

  planOf(machines: number): Plan {
    const cells = Math.ceil(machines / this.largestCell.executors);
    const cell = this.cellOf(Math.ceil(machines / cells));
    return { cells, cell, machines, callsPerS: machines * this.callsPerMachine };
  }

  /** Price of a million calls by part, if each part is used as much as assumed. */
  costOf(costs: CallCosts = this.#costs): { readonly [part: string]: number } {
    const { price, utilisation, toolMs } = this.#assumptions;
    const priceOf = (cpuMs: number): number => (1e6 * cpuMs * price) / (utilisation * 3_600_000);
    return {
      tool: priceOf(toolMs),
      executor: priceOf(costs.executorMs),
      "control plane": priceOf(costs.controlMs),
      Postgres: priceOf(costs.postgresMs),
      NATS: priceOf(costs.natsMs),
    };
  }

  /** Returns how many tenants a machine has CPU time for, and the share of calls that find a process of their tenant. */
  tenantsPerMachine(callsPerMinute: number): { readonly tenants: number; readonly warm: number } {
    const { cores, utilisation } = this.#assumptions;
    const perMs = callsPerMinute / 60_000;
    const fits = (tenants: number): boolean =>
      tenants * perMs * this.#cpuMsOf(tenants, tenants * perMs) <= cores * utilisation;
    let [low, high] = [1, 100_000_000];
    while (high - low > Math.max(1, low / 1_000)) {
      const middle = Math.floor((low + high) / 2);
      if (fits(middle)) low = middle;
      else high = middle;
    }
    return { tenants: low, warm: this.#warmOf(low, low * perMs) };
  }
}
