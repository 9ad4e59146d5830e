// What a control plane tells of its fleet: for the operator and for autoscaling.

/** An executor that has announced itself lately. */
export interface ExecutorInfo {
  readonly id: string;
  readonly pool: string;
  /** Version of Glovebox that it runs. */
  readonly version: string;
  /** Languages of the tools that it runs. Python calls also need the same version of the runtime. */
  readonly languages: readonly ("javascript" | "python")[];
  /** Start of its process, in ms since 1970. */
  readonly since: number;
  /** Maximum number of calls that it runs at the same time, without nested ones. */
  readonly slots: number;
  /** Calls that it runs for all control planes, without nested ones. */
  readonly busy: number;
  /** Calls that this host can send to it now. */
  readonly free: number;
  /** Whether it accepts no new calls, because it stops. */
  readonly isDraining: boolean;
  /** Time of its last announcement, in ms since 1970. */
  readonly seenAt: number;
  /** Bundles that this control plane has given to it. It may have others from other control planes. */
  readonly bundles: number;
}

/**
 * An executor that gets no calls any more, and has not drained. `silent`: it has ended, is frozen or cannot reach NATS; `rejected`: it has
 * violated the protocol.
 */
export interface LostExecutor extends ExecutorInfo {
  readonly reason: "silent" | "rejected";
}

/**
 * Outcome of a request that an executor drains. `unknown`: no such executor is connected; `unconfirmed`: it has not announced in time that it
 * drains, because it is frozen or of a release that ignores the request.
 */
export type DrainOutcome = "draining" | "unknown" | "unconfirmed";

/** Calls that wait for an executor of a pool. A call of a tenant with several pools counts for each of them. */
export interface ExecutorQueue {
  readonly pool: string;
  /** Number of waiting calls. */
  readonly queued: number;
  /** Age of the oldest one in ms. */
  readonly oldestMs: number;
}

/** The executors and queues of a host. All lists are empty for a host without executors. */
export interface FleetState {
  /** Those that are connected. */
  readonly executors: readonly ExecutorInfo[];
  /** Those that were lost within the last ten minutes, unless they have come back. */
  readonly lost: readonly LostExecutor[];
  readonly queues: readonly ExecutorQueue[];
  /** Whether the host reaches its NATS server, except for outages of less than 2 s. True for a host without executors. */
  readonly isReachable: boolean;
}

interface WaitingCall {
  readonly pools: readonly string[];
  /** By performance.now(). */
  readonly queuedAt: number;
}

/** Counts the waiting calls of each pool. */
export function toQueues(waiting: Iterable<{ readonly item: WaitingCall }>): readonly ExecutorQueue[] {
  const queues = new Map<string, ExecutorQueue>();
  const now = performance.now();
  for (const { item } of waiting) {
    for (const pool of item.pools) {
      const { queued, oldestMs } = queues.get(pool) ?? { queued: 0, oldestMs: 0 };
      queues.set(pool, { pool, queued: queued + 1, oldestMs: Math.max(oldestMs, Math.round(now - item.queuedAt)) });
    }
  }
  return [...queues.values()];
}
