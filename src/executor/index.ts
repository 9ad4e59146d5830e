// An executor: a process that runs the calls of control planes in its own worker processes. It has outgoing connections
// to NATS only, and neither a database nor secrets.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { loadSandboxArtifacts } from "../bundler/artifacts/sandbox-artifacts.ts";
import { createBundleCache } from "../bundler/cache/bundle-cache.ts";
import { parseOptions } from "../host/config/option-errors.ts";
import {
  CALLS_PER_WORKER,
  HardeningSchema,
  ISOLATES_PER_WORKER,
  maxWorkersPerOwner,
  NESTED_PER_WORKER,
  WORKER_IDLE_MS,
  WorkersSchema,
} from "../host/config/options.ts";
import { packageVersion } from "../host/config/package-version.ts";
import type { FleetEvent } from "../host/fleet/fleet-events.ts";
import { NatsUrlSchema } from "../host/fleet/fleet-options.ts";
import { connectFleet, type FleetConnection } from "../host/fleet/nats-connection.ts";
import { MAX_SLOTS } from "../host/fleet/protocol/message-fields.ts";
import { DEFAULT_POOL, PoolSchema } from "../host/fleet/protocol/pool-name.ts";
import type { ExecutorIdentity } from "../host/fleet/protocol/subjects.ts";
import { homeFolder } from "../host/util/home-folder.ts";
import { oldNodeMessage } from "../host/util/node-version.ts";
import { ProcessStarter } from "../host/workers/spawn/process-starter.ts";
import { startWorkers } from "../host/workers/spawn/start-workers.ts";
import { ToolError, unavailable } from "../sandbox/contract/errors.ts";
import { strictObject } from "../sandbox/contract/plain-object.ts";
import { CodeStore } from "./code/call-code.ts";
import { ExecutorPython } from "./code/executor-python.ts";
import { ExecutorService } from "./executor-service.ts";

/** Default number of slots. Calls that wait for the host hold a slot, so there are more than cores. */
const DEFAULT_SLOTS = 32;
/**
 * Time in ms that an executor may spend on starting processes before it uses a spawner. An executor is small, so that one
 * start takes about 3 ms, and an idle one should not keep the 45 MiB of a spawner.
 */
const OWN_START_MS = 1_000;

const ExecutorOptionsSchema = strictObject({
  /** URL of the NATS server, or several of one cluster. */
  url: z.union([NatsUrlSchema, z.array(NatsUrlSchema).min(1).max(16)]),
  /** Path of the credentials file of this executor. */
  credentials: z.string().min(1).optional(),
  tlsCa: z.string().min(1).optional(),
  /** Default: that of the credentials, and `default` without credentials. Another pool than that of the credentials is rejected. */
  pool: PoolSchema.optional(),
  /** Maximum number of calls that run at the same time, without nested ones. */
  slots: z.int().min(1).max(MAX_SLOTS).default(DEFAULT_SLOTS),
  /** Folder of bundles and code caches. */
  cacheDir: z
    .string()
    .min(1)
    .default(() => join(homeFolder(), ".cache", "glovebox-executor")),
  /** Largest size of the bundles on disk, in bytes. */
  maxCacheBytes: z
    .int()
    .min(0)
    .default(512 * 1024 * 1024),
  hardening: HardeningSchema.prefault("auto"),
  workers: WorkersSchema.prefault({}),
});
export type ExecutorOptions = z.input<typeof ExecutorOptionsSchema>;

/** Receives what an operator should know. */
export interface ExecutorEvents {
  readonly onError?: ((error: unknown) => void) | undefined;
  /** The connection to NATS could not be made, was lost, or is back. */
  readonly onEvent?: ((event: FleetEvent) => void) | undefined;
  /** The connection to NATS has ended for good, for example because the credentials were revoked. */
  readonly onDisconnected?: ((error: Error | undefined) => void) | undefined;
  /** An operator has requested, through a control plane, that the executor finishes its calls and ends. It accepts no more calls. */
  readonly onDrainRequested?: (() => void) | undefined;
  /** Another process with the same credentials is connected. This one gets no calls until the other one has ended. */
  readonly onIdInUse?: (() => void) | undefined;
}

/** An executor that runs. Disposing it ends its calls at once; `drain` lets them finish. */
export interface RunningExecutor extends AsyncDisposable {
  readonly id: string;
  readonly pool: string;
  readonly slots: number;
  /** Languages of the tools that it can run: Python needs Pyodide, and an operating system that limits a process's memory. */
  readonly languages: readonly ("javascript" | "python")[];
  /** Calls that run, without nested ones. */
  readonly busy: number;
  /** Sessions whose isolates it has. */
  readonly sessions: number;
  /** Accepts no more calls, and waits up to `withinMs` for those that run. Resolves with the number of those that are left. */
  drain(withinMs: number): Promise<number>;
}

/**
 * Starts an executor.
 * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options, credentials or a NATS server that cannot be used; TOOL_UNAVAILABLE if
 *   this machine cannot run tools
 */
export async function startExecutor(options: ExecutorOptions, events: ExecutorEvents = {}): Promise<RunningExecutor> {
  const oldNode = oldNodeMessage();
  if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
  const config = parseOptions(ExecutorOptionsSchema, options, "options");
  const { url, credentials, tlsCa, slots, cacheDir, hardening, workers: size } = config;
  await using resources = new AsyncDisposableStack();
  const connection = resources.use(
    await connectFleet({
      urls: typeof url === "string" ? [url] : url,
      credentials,
      tlsCa,
      role: "executor",
      onClosed: events.onDisconnected,
      onEvent: events.onEvent,
    }),
  );
  const { id, pool } = identify(connection, config.pool);
  const artifacts = await loadSandboxArtifacts();
  const cache = createBundleCache({ directory: join(cacheDir, "code") });
  const { workers, launcher, engineKey } = await startWorkers({
    artifacts,
    cache,
    hardening,
    isolatesPerProcess: ISOLATES_PER_WORKER,
    starter: new ProcessStarter(OWN_START_MS),
    pool: {
      ...size,
      maxPerOwner: maxWorkersPerOwner(),
      callsPerWorker: CALLS_PER_WORKER,
      nestedPerWorker: NESTED_PER_WORKER,
      idleMs: WORKER_IDLE_MS,
    },
  });
  resources.use(workers);
  const onError = (error: unknown): void => events.onError?.(error);
  const canLimitMemory = launcher.layers.has("resource-limits");
  // V8 does not count the memory of Python.
  const python = canLimitMemory
    ? await ExecutorPython.find({ artifacts, cache, engineKey, workers, onError })
    : undefined;
  const code = new CodeStore({ folder: cacheDir, maxBytes: config.maxCacheBytes, python });
  const service = new ExecutorService({
    id,
    pool,
    slots,
    connection,
    code,
    workers,
    canLimitMemory,
    onError,
    version: packageVersion(),
    onDrainRequested: () => events.onDrainRequested?.(),
    onIdInUse: () => events.onIdInUse?.(),
  });
  resources.move();
  return {
    id,
    pool,
    slots,
    languages: service.languages,
    get busy() {
      return service.busy;
    },
    get sessions() {
      return service.sessions;
    },
    drain: (withinMs) => service.drain(withinMs),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

/**
 * Returns the id and the pool of the executor. Its credentials decide, because NATS lets it announce itself in no other pool.
 * @throws {ToolError} PARAM_INVALID for another pool than that of the credentials
 */
function identify({ executor }: FleetConnection, pool: string | undefined): ExecutorIdentity {
  // Without credentials there is no id: for a NATS server without authentication, such as one for development.
  if (executor === undefined) return { id: `unnamed-${randomBytes(6).toString("hex")}`, pool: pool ?? DEFAULT_POOL };
  if (pool !== undefined && pool !== executor.pool)
    throw new ToolError(
      "PARAM_INVALID",
      `The credentials of ${executor.id} are for the pool "${executor.pool}", not "${pool}". "glovebox executor credentials --pool ${pool}" creates some for it`,
    );
  return executor;
}
