// Opens the connection of a control plane to its executors. Loaded only by hosts with the option `executors`.
import type { WorkerPool } from "../workers/worker-pool.ts";
import { FleetPool } from "./control/fleet-pool.ts";
import type { FleetEvent } from "./fleet-events.ts";
import type { ExecutorsConfig } from "./fleet-options.ts";
import { connectFleet, type FleetConnection } from "./nats-connection.ts";
import { natsOf } from "./nats-library.ts";

export interface FleetDependencies {
  /** Runs what must stay on this machine. */
  readonly local: WorkerPool;
  readonly maxQueued: number;
  readonly onError: (error: unknown) => void;
  readonly onEvent: (event: FleetEvent) => void;
}

/**
 * Streams of development versions, which held large messages. With the users of such a version, NATS answers messages of
 * executors for these streams, on any subject that an executor names.
 */
const OLD_STREAMS = ["GLOVEBOX_OBJECTS", "GLOVEBOX_UPLOADS"] as const;
const DELETE_TIMEOUT_MS = 5_000;

/** @throws {ToolError} PARAM_INVALID, as a rejection, for wrong credentials or a missing package */
export async function openFleet(config: ExecutorsConfig, dependencies: FleetDependencies): Promise<FleetPool> {
  const { url, credentials, tlsCa, silenceMs } = config;
  const urls = typeof url === "string" ? [url] : url;
  await using resources = new AsyncDisposableStack();
  let pool: FleetPool | undefined;
  const connection = resources.use(
    await connectFleet({
      urls,
      credentials,
      tlsCa,
      role: "control-plane",
      onEvent: (event) => {
        dependencies.onEvent(event);
        if (event.type === "nats-lost") pool?.onDisconnected();
      },
    }),
  );
  // NATS may be reached later.
  const isReached = connection.outageMs === 0;
  const deleting = connection.opened.then(() => deleteOldStreams(connection));
  if (isReached) await deleting;
  pool = new FleetPool({ ...dependencies, connection, silenceMs });
  resources.move();
  return pool;
}

/** Never rejects: most servers have no such stream, or no JetStream. */
async function deleteOldStreams(connection: FleetConnection): Promise<void> {
  const nats = natsOf(connection);
  const deleteStream = async (name: string): Promise<void> => {
    await nats.request(`$JS.API.STREAM.DELETE.${name}`, "", { timeout: DELETE_TIMEOUT_MS }).catch(() => undefined);
  };
  await Promise.all(OLD_STREAMS.map(deleteStream));
}
