// Metrics for Prometheus. Labels have few values: tenants and tools are not among them, because their number is not bounded.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export class Metrics {
  readonly registry: Registry = new Registry();
  readonly #requests: Histogram<"route" | "status">;
  readonly #calls: Counter<"mode" | "outcome">;
  readonly #callSeconds: Histogram<"mode">;

  /** @param workers returns the number of worker processes */
  constructor(workers: () => number) {
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
