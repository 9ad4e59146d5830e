// Requests messages of the work queue from NATS: as many as the executors of a pool have free slots. What does not fit stays in the stream.
import {
  LOCAL_POOL,
  WORK_SHARDS,
  type WorkDelivery,
  type WorkPull,
  type WorkStream,
} from "../../../host/fleet/work-stream.ts";
import type { ExecutorInfo } from "../../../host/index.ts";

/** Maximum number of calls of the queue that one server runs at the same time, and how many of them in its own worker processes. */
const MAX_HELD = 256;
const MAX_LOCAL = 32;
/** Calls of a pool that may wait for their tenants' limits, and so use no slot of an executor. */
const MAX_WAITING = 32;
/** Requests of one queue that are open at the same time. */
const MAX_PULLS = 4;
/** NATS answers a request at once if it has messages. One that is open for longer than this in ms shows that it has none. */
const IDLE_MS = 1_000;

export interface WorkPullsDependencies {
  readonly stream: WorkStream;
  readonly executors: () => readonly ExecutorInfo[];
  /** Returns whether a claimed call waits for a limit of its tenant. */
  readonly isWaiting: (callId: string) => boolean;
  /** Receives messages that arrived at about the same time. */
  readonly onDeliveries: (deliveries: readonly WorkDelivery[]) => void;
  /** Receives what ends a request too early: NATS does not answer, or has lost the queue. */
  readonly onFailed: (error: unknown) => void;
}

interface OpenPull {
  readonly pull: WorkPull;
  readonly openedAt: number;
  /** Messages that it may still deliver. */
  left: number;
}

interface PoolWork {
  /** Ids of the calls whose messages this server has. */
  readonly held: Set<WorkDelivery>;
  /** The open requests of each queue. */
  readonly shards: readonly Set<OpenPull>[];
}

export class WorkPulls {
  readonly #dependencies: WorkPullsDependencies;
  readonly #pools = new Map<string, PoolWork>();
  #arrived: WorkDelivery[] = [];
  #isPaused = false;
  #isStopped = false;

  constructor(dependencies: WorkPullsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Requests as many messages as there is room for. */
  fill(): void {
    if (this.#isStopped || this.#isPaused) return;
    const executors = new Map<string, ExecutorInfo[]>([[LOCAL_POOL, []]]);
    for (const executor of this.#dependencies.executors()) {
      const others = executors.get(executor.pool);
      if (others === undefined) executors.set(executor.pool, [executor]);
      else others.push(executor);
    }
    for (const [pool, members] of executors) this.#fillPool(pool, members);
  }

  #fillPool(pool: string, executors: readonly ExecutorInfo[]): void {
    const work = this.#workOf(pool);
    const free = this.#freeOf(pool, work, executors);
    if (free <= 0) return;
    // Each queue gets its share, and at least one: it is not known which of them have messages.
    const share = Math.ceil(free / WORK_SHARDS);
    for (const [shard, pulls] of work.shards.entries()) {
      let open = 0;
      for (const { left } of pulls) open += left;
      if (open < share && pulls.size < MAX_PULLS) this.#open(pool, work, shard, share - open);
    }
  }

  #workOf(pool: string): PoolWork {
    const known = this.#pools.get(pool);
    if (known !== undefined) return known;
    const fresh = {
      held: new Set<WorkDelivery>(),
      shards: Array.from({ length: WORK_SHARDS }, () => new Set<OpenPull>()),
    };
    this.#pools.set(pool, fresh);
    return fresh;
  }

  #freeOf(pool: string, { held }: PoolWork, executors: readonly ExecutorInfo[]): number {
    if (pool === LOCAL_POOL) return MAX_LOCAL - held.size;
    let [slots, free, waiting, all] = [0, 0, 0, 0];
    for (const executor of executors) {
      if (!executor.isDraining) slots += executor.slots;
      free += executor.free;
    }
    for (const { id } of held) if (this.#dependencies.isWaiting(id)) waiting += 1;
    for (const work of this.#pools.values()) all += work.held.size;
    // A call that was received a moment ago may not have reached its executor, which then still announces the slot as free.
    const unused = slots - (held.size - Math.min(waiting, MAX_WAITING));
    return Math.min(free, unused, MAX_HELD - all);
  }

  #open(pool: string, work: PoolWork, shard: number, max: number): void {
    const pulls = work.shards[shard];
    if (pulls === undefined) return;
    const pull = this.#dependencies.stream.pull(pool, shard, max, (delivery) => {
      open.left -= 1;
      this.#receive(work, delivery);
    });
    const open: OpenPull = { pull, openedAt: performance.now(), left: max };
    pulls.add(open);
    const ended = (thrown?: unknown): void => {
      // One that was closed is not in the set.
      if (!pulls.delete(open) || this.#isStopped) return;
      if (thrown === undefined) this.fill();
      else this.#dependencies.onFailed(thrown);
    };
    pull.done.then(() => ended(), ended);
  }

  #receive({ held }: PoolWork, delivery: WorkDelivery): void {
    const settle = (how: () => void): void => {
      if (!held.delete(received)) return;
      how();
      this.fill();
    };
    const received: WorkDelivery = {
      id: delivery.id,
      ack: () => settle(() => delivery.ack()),
      later: (ms) => settle(() => delivery.later(ms)),
      working: () => delivery.working(),
    };
    held.add(received);
    if (this.#arrived.push(received) === 1) setImmediate(() => this.#deliver());
  }

  #deliver(): void {
    const arrived = this.#arrived;
    this.#arrived = [];
    if (!this.#isStopped) this.#dependencies.onDeliveries(arrived);
    else for (const delivery of arrived) delivery.later(0);
  }

  /** Whether NATS has no message of a queue although this server has room for one. */
  isIdle(pool: string, shard: number): boolean {
    const since = performance.now() - IDLE_MS;
    for (const { left, openedAt } of this.#pools.get(pool)?.shards[shard] ?? []) {
      if (left > 0 && openedAt < since) return true;
    }
    return false;
  }

  /** Ends the open requests, and opens no others until `resume()`: NATS forgets them when the connection breaks. */
  pause(): void {
    this.#isPaused = true;
    for (const { shards } of this.#pools.values()) {
      for (const pulls of shards) {
        for (const { pull } of pulls) pull.close();
        pulls.clear();
      }
    }
  }

  resume(): void {
    this.#isPaused = false;
    this.fill();
  }

  /** Requests no more messages. Those that arrive nevertheless go to another server. */
  stop(): void {
    this.#isStopped = true;
    this.pause();
  }
}
