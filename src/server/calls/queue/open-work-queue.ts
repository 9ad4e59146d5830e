// Opens the work queue of a server with executors.
import { WorkStream } from "../../../host/fleet/work-stream.ts";
import type { ExecutorQueue, FleetState, Glovebox } from "../../../host/index.ts";
import type { ServerConfig } from "../../config/server-options.ts";
import type { OpenDatabase } from "../../database/open-database.ts";
import { readQueueId } from "../../records/calls/queued-calls.ts";
import type { ReplicaBus } from "../../replicas/bus.ts";
import type { ClusterSlots } from "../cluster-slots.ts";
import { WorkQueue } from "./work-queue.ts";

export interface OpenWorkQueueDependencies {
  readonly database: OpenDatabase;
  readonly bus: ReplicaBus;
  readonly glovebox: Pick<Glovebox, "fleet">;
  readonly slots: ClusterSlots;
  readonly onError: (error: unknown) => void;
}

/**
 * Returns the work queue; undefined for a server without executors.
 * @throws {ToolError} PARAM_INVALID, as a rejection, if NATS cannot be used
 */
export async function openWorkQueue(
  { natsUrl, natsCredentials: credentials, natsTlsCa: tlsCa, natsReplicas: replicas }: ServerConfig,
  { database, bus, glovebox, slots, onError }: OpenWorkQueueDependencies,
): Promise<WorkQueue | undefined> {
  if (natsUrl === undefined) return undefined;
  const { db, clock } = database;
  const stream = await WorkStream.connect({
    urls: [natsUrl],
    credentials,
    tlsCa,
    replicas,
    database: await readQueueId(db),
    onInvalid: onError,
  });
  return new WorkQueue({
    stream,
    db,
    onError,
    now: () => clock.now(),
    executors: () => glovebox.fleet.executors,
    isWaiting: (callId) => slots.isWaiting(callId),
    isReporter: async () => (await bus.peers()).every((peer) => bus.replicaId < peer),
  });
}

/** Returns the state of a fleet with the calls that wait in the work queue added to the queue of each pool. */
export function withBacklog({ queues, ...fleet }: FleetState, backlog: readonly ExecutorQueue[]): FleetState {
  const merged = new Map<string, ExecutorQueue>();
  for (const { pool, queued, oldestMs } of [...queues, ...backlog]) {
    const known = merged.get(pool) ?? { queued: 0, oldestMs: 0 };
    merged.set(pool, { pool, queued: known.queued + queued, oldestMs: Math.max(known.oldestMs, oldestMs) });
  }
  return { ...fleet, queues: [...merged.values()] };
}
