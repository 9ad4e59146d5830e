// A call that is queued for, or runs on, an executor. It is its caller's handle, like PlacedJob for worker processes.

import type { Limits } from "../../../sandbox/contract/limits.ts";
import type { Job, Ticket } from "../../workers/pool-job.ts";
import type { Entry } from "../../workers/scheduling/fair-queue.ts";
import type { CallOrder } from "../../workers/worker-job.ts";
import { DEFAULT_POOL } from "../protocol/pool-name.ts";
import type { FleetSession, SessionCall } from "./fleet-sessions.ts";
import type { CallNeeds } from "./remote-executor.ts";

/** A job that an executor can run. */
export type FleetJob = Job & { readonly order: Extract<CallOrder, { readonly type: "call" }> };

/** The current attempt to run a call. After its end, its methods are no-ops. */
export interface CallAttempt {
  cancel(): void;
  credit(chunks: number): void;
  setPaused(isPaused: boolean): void;
  watchIdle(isWatched: boolean): void;
}

/** Pool of the tenants whose policy names none. */
const DEFAULT_POOLS: readonly string[] = [DEFAULT_POOL];

export class FleetCall implements Ticket, SessionCall<FleetCall> {
  readonly job: FleetJob;
  readonly needs: CallNeeds;
  readonly #onCancel: (call: FleetCall) => void;
  /** By performance.now(). */
  readonly queuedAt: number = performance.now();
  entry: Entry<FleetCall> | undefined;
  queueTimer: NodeJS.Timeout | undefined;
  attempt: CallAttempt | undefined;
  attempts = 0;
  /** Ids of the executors that could not begin it. It runs on another one if there is one. */
  readonly failedOn = new Set<string>();
  /** When the current attempt began, by performance.now(). */
  placedAt = 0;
  state: "queued" | "placed" | "over" = "queued";
  session: FleetSession<FleetCall> | undefined;
  isCancelled = false;

  constructor(job: FleetJob, onCancel: (call: FleetCall) => void) {
    this.job = job;
    this.needs = { python: job.python?.environment.key, session: job.session !== undefined };
    this.#onCancel = onCancel;
  }

  get limits(): Limits {
    return this.job.order.tool.limits;
  }

  get pools(): readonly string[] {
    return this.job.pools ?? DEFAULT_POOLS;
  }

  cancel(): void {
    this.#onCancel(this);
  }

  credit(chunks: number): void {
    this.attempt?.credit(chunks);
  }

  setPaused(isPaused: boolean): void {
    this.attempt?.setPaused(isPaused);
  }

  watchIdle(isWatched: boolean): void {
    this.attempt?.watchIdle(isWatched);
  }
}
