// The parts of a fleet that work takes time at: stations that serve in order of arrival, and executors whose running calls share the
// cores of their machine.
import { hashText } from "../../src/host/fleet/control/placement.ts";
import { EventQueue } from "./event-queue.ts";

/** Serves in order of arrival, with several servers: a control plane, NATS, Postgres. */
export class Station {
  readonly #freeAt: number[];
  busyMs = 0;

  constructor(servers: number) {
    this.#freeAt = Array.from({ length: servers }, () => 0);
  }

  /** When the first of its servers is free. */
  get freeAt(): number {
    let first = this.#freeAt[0] as number;
    for (const one of this.#freeAt) if (one < first) first = one;
    return first;
  }

  /** Returns when work that arrives now has been served. Arrivals are in order of time. */
  serve(now: number, ms: number): number {
    let first = 0;
    for (let index = 1; index < this.#freeAt.length; index += 1)
      if ((this.#freeAt[index] as number) < (this.#freeAt[first] as number)) first = index;
    const end = Math.max(now, this.#freeAt[first] as number) + ms;
    this.#freeAt[first] = end;
    this.busyMs += ms;
    return end;
  }
}

export interface ExecutorSize {
  readonly cores: number;
  /** Most calls that run at the same time. */
  readonly slots: number;
  /** Most worker processes. Each belongs to one tenant. */
  readonly processes: number;
  /** Time in ms after which the process of a tenant without calls ends. */
  readonly idleMs: number;
}

/** One executor. It has the fields by which the product's placement chooses one. */
export class SimulatedExecutor<Call> {
  readonly id: string;
  readonly hash: number;
  readonly size: ExecutorSize;
  readonly nested = 0;
  /** Calls that were sent to it and have not ended. */
  load = 0;
  /** Calls that run, by the amount of service at which they end. */
  readonly #running = new EventQueue<Call>();
  /** Service in ms that each running call has received since the start. */
  #served = 0;
  #servedAt = 0;
  /** Number of the latest prediction of a departure. Earlier ones are void. */
  version = 0;
  busyMs = 0;
  /** When each tenant with a process has last made a call. The one used last is the last one. */
  readonly #warm = new Map<number, number>();

  constructor(id: string, size: ExecutorSize) {
    this.id = id;
    this.hash = hashText(id);
    this.size = size;
  }

  get slots(): number {
    return this.size.slots;
  }

  /** Whether the tenant has a process here. Afterwards it has one. */
  use(tenant: number, now: number): boolean {
    const usedAt = this.#warm.get(tenant);
    this.#warm.delete(tenant);
    this.#warm.set(tenant, now);
    if (this.#warm.size > this.size.processes) {
      const [oldest] = this.#warm.keys();
      if (oldest !== undefined) this.#warm.delete(oldest);
    }
    return usedAt !== undefined && now - usedAt < this.size.idleMs;
  }

  get #rate(): number {
    const { size } = this.#running;
    return size === 0 ? 0 : Math.min(1, this.size.cores / size);
  }

  #advance(now: number): void {
    const elapsed = now - this.#servedAt;
    this.busyMs += elapsed * Math.min(this.size.cores, this.#running.size);
    this.#served += elapsed * this.#rate;
    this.#servedAt = now;
  }

  /** Begins a call that needs so much CPU time. */
  begin(now: number, call: Call, cpuMs: number): void {
    this.#advance(now);
    this.#running.add(this.#served + cpuMs, call);
    this.version += 1;
  }

  /** When the next call ends, if no other begins before. */
  get nextEnd(): number {
    return this.#servedAt + Math.max(0, this.#running.nextTime - this.#served) / this.#rate;
  }

  get isBusy(): boolean {
    return this.#running.size > 0;
  }

  /** Ends the call that has been served. */
  end(now: number): Call | undefined {
    this.#advance(now);
    this.version += 1;
    return this.#running.take();
  }
}
