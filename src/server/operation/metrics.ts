// Metrics for Prometheus. Labels have few values: tenants and tools are not among them, because their number is not bounded.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { FleetState } from "../../host/index.ts";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Maximum number of pools that are reported without a waiting call. */
const MAX_POOLS = 1_000;

export class Metrics {
  readonly registry: Registry = new Registry();
  readonly #requests: Histogram<"route" | "status">;
  readonly #calls: Counter<"mode" | "outcome">;
  readonly #callSeconds: Histogram<"mode">;
  /** Pools that were reported, the oldest first. */
  readonly #pools = new Set<string>();

  /**
   * @param workers returns the number of worker processes
   * @param fleet returns the executors and their queues
   */
  constructor(workers: () => number, fleet: () => FleetState) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#requests = new Histogram({
      name: "glovebox_http_request_duration_seconds",
      help: "Time from the headers of a request to the end of its response",
      labelNames: ["route", "status"],
      buckets: SECONDS,
      registers,
    });
    this.#calls = new Counter({
      name: "glovebox_calls_total",
      help: "Calls by mode and outcome: ok, or the code of the error",
      labelNames: ["mode", "outcome"],
      registers,
    });
    this.#callSeconds = new Histogram({
      name: "glovebox_call_duration_seconds",
      help: "Time from admission to result",
      labelNames: ["mode"],
      buckets: SECONDS,
      registers,
    });
    new Gauge({
      name: "glovebox_worker_processes",
      help: "Worker processes of this server",
      registers,
      collect() {
        this.set(workers());
      },
    });
    this.#addFleet(fleet);
  }

  /** Signals for autoscaling: the label `pool` has as many values as the operator has pools. */
  #addFleet(fleet: () => FleetState): void {
    const add = (
      name: string,
      help: string,
      read: (state: FleetState) => readonly (readonly [string, number])[],
    ): void => {
      new Gauge({
        name,
        help,
        labelNames: ["pool"],
        registers: [this.registry],
        collect() {
          this.reset();
          for (const [pool, value] of read(fleet())) this.inc({ pool }, value);
        },
      });
    };
    new Gauge({
      name: "glovebox_nats_reachable",
      help: "1 if the server reaches its NATS server, or has none",
      registers: [this.registry],
      collect() {
        this.set(fleet().isReachable ? 1 : 0);
      },
    });
    add("glovebox_executors", "Executors that are connected", ({ executors }) =>
      executors.map(({ pool }) => [pool, 1]),
    );
    add("glovebox_executor_slots", "Calls that the executors can run at the same time", ({ executors }) =>
      executors.map(({ pool, slots, isDraining }) => [pool, isDraining ? 0 : slots]),
    );
    add("glovebox_executor_busy_slots", "Calls that run on the executors", ({ executors }) =>
      executors.map(({ pool, busy }) => [pool, busy]),
    );
    add("glovebox_executor_queue_calls", "Calls that wait for an executor", (state) => [
      ...this.#emptyPools(state),
      ...state.queues.map(({ pool, queued }) => [pool, queued] as const),
    ]);
    add("glovebox_executor_queue_oldest_seconds", "Age of the oldest call that waits for an executor", (state) => [
      ...this.#emptyPools(state),
      ...state.queues.map(({ pool, oldestMs }) => [pool, oldestMs / 1_000] as const),
    ]);
  }

  /**
   * Returns 0 for each pool with executors, and for each that has had calls. An autoscaler keeps the size of a pool whose metric is
   * missing, so a pool whose queue is empty could not shrink.
   */
  #emptyPools({ executors, queues }: FleetState): readonly (readonly [string, number])[] {
    for (const { pool } of [...executors, ...queues]) {
      this.#pools.delete(pool);
      this.#pools.add(pool);
    }
    for (const oldest of [...this.#pools].slice(0, Math.max(0, this.#pools.size - MAX_POOLS)))
      this.#pools.delete(oldest);
    return [...this.#pools].map((pool) => [pool, 0]);
  }

  /** @param route method and path template, such as `GET /v1/tenants/{tenant}` */
  requestEnded(route: string, status: number, ms: number): void {
    this.#requests.observe({ route, status: String(status) }, ms / 1_000);
  }

  callEnded(mode: string, outcome: string, ms: number): void {
    this.#calls.inc({ mode, outcome });
    this.#callSeconds.observe({ mode }, ms / 1_000);
  }
}
