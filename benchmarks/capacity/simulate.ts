// Simulates a fleet event by event: calls of tenants arrive, pass a control plane and NATS, run on an executor that the product's own
// placement chooses, and return.
import { chooseExecutor } from "../../src/host/fleet/control/placement.ts";
import { percentile } from "../support/measure.ts";
import { EventQueue } from "./event-queue.ts";
import { createChooser, createRandom, exponential, logNormal, zipfShares } from "./random.ts";
import { type ExecutorSize, SimulatedExecutor, Station } from "./stations.ts";

export interface Scenario {
  readonly seed: number;
  /** Calls that are counted. A quarter of this number arrives before them. */
  readonly calls: number;
  readonly callsPerS: number;
  readonly tenants: number;
  /** Exponent of Zipf's law: with 0, all tenants call equally often. */
  readonly zipf: number;
  readonly executors: number;
  readonly executor: ExecutorSize;
  readonly controlPlanes: number;
  /** CPU time in ms of one call on its control plane, half of it before the executor and half after. */
  readonly controlMs: number;
  readonly natsCores: number;
  /** CPU time in ms of one message in nats-server. */
  readonly natsMs: number;
  /** Messages of one call. */
  readonly messages: number;
  /** Time in ms of one way between control plane and executor, without waiting. */
  readonly wayMs: number;
  /** CPU time in ms of one call on the executor: mean, and standard deviation over mean. */
  readonly serviceMs: number;
  readonly serviceCv: number;
  /** Distribution of the service: log-normal, or exponential for comparisons with theory. */
  readonly service?: "exponential";
  /** CPU time in ms that a call takes in addition if its tenant has no process on the executor. */
  readonly coldMs: number;
  /** For how long in ms tenants have kept their processes when it begins. Default: none has one. */
  readonly warmMs?: number;
}

export interface Outcome {
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** Calls per second that ended. */
  readonly callsPerS: number;
  /** Share of calls that found no process of their tenant. */
  readonly coldShare: number;
  /** Share of calls that waited for a slot. */
  readonly queuedShare: number;
  /** Share of the time in which cores were busy. */
  readonly executorUse: number;
  readonly controlUse: number;
  readonly natsUse: number;
  /** In ms, in ascending order. */
  readonly latencies: readonly number[];
}

interface Call {
  readonly arrivedAt: number;
  readonly tenant: number;
  readonly isCounted: boolean;
  readonly control: Station;
  executor: Executor | undefined;
}
type Executor = SimulatedExecutor<Call>;
type Event =
  | { readonly type: "arrive" }
  | { readonly type: "dispatch" | "begin" | "return" | "answer"; readonly call: Call }
  | { readonly type: "end"; readonly executor: Executor; readonly version: number };

export function simulate(scenario: Scenario): Outcome {
  return new Simulation(scenario).run();
}

class Simulation {
  readonly #scenario: Scenario;
  readonly #random;
  readonly #chooseTenant;
  readonly #executors: readonly Executor[];
  readonly #controlPlanes: readonly Station[];
  readonly #nats: Station;
  readonly #events = new EventQueue<Event>();
  /** Calls that wait for a slot, in order of arrival. */
  readonly #waiting: Call[] = [];
  #nextWaiting = 0;
  readonly #latencies: number[] = [];
  readonly #warmup: number;
  #arrived = 0;
  #cold = 0;
  #begun = 0;
  #queued = 0;
  #lastAnswer = 0;
  #firstCounted = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#random = createRandom(scenario.seed);
    const shares = zipfShares(scenario.tenants, scenario.zipf);
    this.#chooseTenant = createChooser(shares);
    this.#executors = Array.from(
      { length: scenario.executors },
      (_, index) => new SimulatedExecutor<Call>(`executor-${index}`, scenario.executor),
    );
    this.#controlPlanes = Array.from({ length: scenario.controlPlanes }, () => new Station(1));
    this.#nats = new Station(scenario.natsCores);
    this.#warmup = Math.floor(scenario.calls / 4);
    if (scenario.warmMs !== undefined) this.#warm(shares, scenario.warmMs);
  }

  /** Gives processes to the tenants that have called lately, where their next calls will run. */
  #warm(shares: Float64Array, ageMs: number): void {
    for (let tenant = shares.length - 1; tenant >= 0; tenant -= 1) {
      const expected = ((shares[tenant] as number) * this.#scenario.callsPerS * ageMs) / 1_000;
      if (this.#random() < 1 - Math.exp(-expected))
        chooseExecutor(this.#executors, `tenant-${tenant}`, false)?.use(tenant, 0);
    }
  }

  run(): Outcome {
    this.#events.add(0, { type: "arrive" });
    let now = 0;
    while (this.#events.size > 0) {
      now = this.#events.nextTime;
      this.#process(now, this.#events.take() as Event);
    }
    return this.#outcome(now);
  }

  #process(now: number, event: Event): void {
    switch (event.type) {
      case "arrive":
        this.#arrive(now);
        break;
      case "dispatch":
        this.#dispatch(now, event.call);
        break;
      case "begin":
        this.#begin(now, event.call);
        break;
      case "end":
        if (event.version === event.executor.version) this.#end(now, event.executor);
        break;
      case "return":
        this.#events.add(event.call.control.serve(now, this.#scenario.controlMs / 2), {
          type: "answer",
          call: event.call,
        });
        break;
      case "answer":
        this.#lastAnswer = now;
        if (event.call.isCounted) this.#latencies.push(now - event.call.arrivedAt);
        break;
    }
  }

  /** The load balancer chooses the control plane with the least work. */
  #chooseControl(): Station {
    let [least] = this.#controlPlanes as readonly [Station];
    for (const one of this.#controlPlanes) if (one.freeAt < least.freeAt) least = one;
    return least;
  }

  #arrive(now: number): void {
    const { calls, callsPerS, controlMs } = this.#scenario;
    const isCounted = this.#arrived >= this.#warmup;
    if (this.#arrived === this.#warmup) this.#firstCounted = now;
    this.#arrived += 1;
    const call: Call = {
      arrivedAt: now,
      tenant: this.#chooseTenant(this.#random),
      isCounted,
      control: this.#chooseControl(),
      executor: undefined,
    };
    this.#events.add(call.control.serve(now, controlMs / 2), { type: "dispatch", call });
    if (this.#arrived < calls + this.#warmup)
      this.#events.add(now + exponential(this.#random, 1_000 / callsPerS), { type: "arrive" });
  }

  #dispatch(now: number, call: Call): void {
    if (this.#nextWaiting === this.#waiting.length && this.#place(now, call)) return;
    this.#waiting.push(call);
    if (call.isCounted) this.#queued += 1;
  }

  #place(now: number, call: Call): boolean {
    const executor = chooseExecutor(this.#executors, `tenant-${call.tenant}`, false);
    if (executor === undefined) return false;
    executor.load += 1;
    call.executor = executor;
    this.#send(now, "begin", call);
    return true;
  }

  /** Half of the messages of a call go there, and half back. */
  #send(now: number, type: "begin" | "return", call: Call): void {
    const { messages, natsMs, wayMs } = this.#scenario;
    this.#events.add(this.#nats.serve(now, (messages / 2) * natsMs) + wayMs, { type, call });
  }

  #begin(now: number, call: Call): void {
    const { serviceMs, serviceCv, service, coldMs } = this.#scenario;
    const executor = call.executor as Executor;
    const isWarm = executor.use(call.tenant, now);
    if (call.isCounted) this.#begun += 1;
    if (call.isCounted && !isWarm) this.#cold += 1;
    const random = this.#random;
    const cpuMs = service === "exponential" ? exponential(random, serviceMs) : logNormal(random, serviceMs, serviceCv);
    executor.begin(now, call, cpuMs + (isWarm ? 0 : coldMs));
    this.#predictEnd(executor);
  }

  #predictEnd(executor: Executor): void {
    if (!executor.isBusy) return;
    this.#events.add(executor.nextEnd, { type: "end", executor, version: executor.version });
  }

  #end(now: number, executor: Executor): void {
    const call = executor.end(now) as Call;
    executor.load -= 1;
    this.#predictEnd(executor);
    this.#send(now, "return", call);
    const next = this.#waiting[this.#nextWaiting];
    if (next === undefined || !this.#place(now, next)) return;
    this.#nextWaiting += 1;
    if (this.#nextWaiting < 10_000) return;
    this.#waiting.splice(0, this.#nextWaiting);
    this.#nextWaiting = 0;
  }

  #outcome(now: number): Outcome {
    const { executor } = this.#scenario;
    const latencies = this.#latencies.toSorted((a, b) => a - b);
    const mean = latencies.reduce((sum, ms) => sum + ms, 0) / latencies.length;
    const useOf = (parts: readonly { readonly busyMs: number }[], cores: number): number =>
      parts.reduce((sum, { busyMs }) => sum + busyMs, 0) / (parts.length * cores * now);
    return {
      meanMs: mean,
      p50Ms: percentile(latencies, 0.5),
      p95Ms: percentile(latencies, 0.95),
      p99Ms: percentile(latencies, 0.99),
      callsPerS: (1_000 * latencies.length) / (this.#lastAnswer - this.#firstCounted),
      coldShare: this.#cold / this.#begun,
      queuedShare: this.#queued / latencies.length,
      executorUse: useOf(this.#executors, executor.cores),
      controlUse: useOf(this.#controlPlanes, 1),
      natsUse: useOf([this.#nats], this.#scenario.natsCores),
      latencies,
    };
  }
}
