// The server: hosts the tools of many tenants behind an HTTP API. `createServer` opens its database and its Glovebox, and listens.
/// <reference types="node" preserve="true" />
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { makeFolderSync } from "../bundler/locate/make-folder.ts";
import { parseOptions } from "../host/config/option-errors.ts";
import { packageVersion } from "../host/config/package-version.ts";
import { createGlovebox, type ExecutorsOptions, type Glovebox, type ToolResult, unavailable } from "../host/index.ts";
import { oldNodeMessage } from "../host/util/node-version.ts";
import { strictObject } from "../sandbox/contract/plain-object.ts";
import { createFirstAdminKey } from "./auth/admin-key.ts";
import { createApiKey, type NewApiKey } from "./auth/api-key.ts";
import { RequestAuthenticator } from "./auth/authentication.ts";
import { OidcSignIn } from "./auth/oidc.ts";
import { createTokenVerifier } from "./auth/token-verifier.ts";
import { CallService } from "./calls/call-service.ts";
import { ClusterSlots } from "./calls/cluster-slots.ts";
import { openWorkQueue, withBacklog } from "./calls/open-work-queue.ts";
import { startRetention } from "./calls/retention.ts";
import {
  parseServerOptions,
  type ServerConfig,
  type ServerOptions,
  ServerOptionsSchema,
  toAllowedHosts,
} from "./config/server-options.ts";
import {
  type Db,
  isLostConnection,
  type OpenDatabase,
  openDatabase,
  RETRY_MS,
  STARTUP_WAIT_MS,
} from "./database/open-database.ts";
import { createApp } from "./http/app.ts";
import { BodyBytes, bodyLimitsOf } from "./http/body-bytes.ts";
import { readConsoleFiles } from "./http/console-files.ts";
import type { ServerDependencies } from "./http/context.ts";
import { listen, MAX_STREAMS } from "./http/listen.ts";
import { OpenStreams } from "./http/open-streams.ts";
import { UnreadResponses } from "./http/unread-responses.ts";
import { DatabaseKvStore } from "./kv/database-kv-store.ts";
import { openTenantCodeMode, openTenantMcp } from "./mcp/mcp-endpoints.ts";
import { ReceivedRequests } from "./mcp/received-requests.ts";
import { SessionForwarding } from "./mcp/session-forwarding.ts";
import { Metrics } from "./operation/metrics.ts";
import { Readiness } from "./operation/readiness.ts";
import { RequestLog } from "./operation/request-log.ts";
import { SerialReads } from "./operation/serial-reads.ts";
import { openTelemetry, type ServerTelemetry } from "./operation/telemetry.ts";
import { CallerLimits } from "./quotas/caller-limits.ts";
import { DatabaseQuotaStore, type QuotaWarning } from "./quotas/database-quota-store.ts";
import { QuotaChecks } from "./quotas/quota-checks.ts";
import { RunningCounts } from "./quotas/running-counts.ts";
import { findKeyById, isKeyId } from "./records/api-keys.ts";
import { readSecrets } from "./records/secrets.ts";
import { checkStoredBytes, StoredBytesSweeper } from "./records/stored-bytes.ts";
import { toTenantOptions } from "./records/tenant-policy.ts";
import { findTenant } from "./records/tenants.ts";
import { emitEvents } from "./records/webhooks.ts";
import { ReleaseWatch } from "./releases/release-watch.ts";
import { findOwnUrl } from "./replicas/peers/own-url.ts";
import { PeerClient } from "./replicas/peers/peer-client.ts";
import { PeerServer } from "./replicas/peers/peer-server.ts";
import { openBus } from "./replicas/postgres-bus.ts";
import { ReplicaRequests } from "./replicas/requests.ts";
import { RunService } from "./runs/run-service.ts";
import { Scheduler } from "./schedules/scheduler.ts";
import { type MasterKey, openMasterKey } from "./secrets/master-key.ts";
import { eraseFormerTenants } from "./tenants/erase-former-tenants.ts";
import { TenantChanges } from "./tenants/tenant-changes.ts";
import { PackageInstaller } from "./tools/packages.ts";
import { TenantTools } from "./tools/tenant-tools.ts";
import { DeliveryQueue } from "./webhooks/delivery-queue.ts";

export type { ServerConfig, ServerOptions } from "./config/server-options.ts";

const CloseOptionsSchema = strictObject({ drainMs: ServerOptionsSchema.shape.drainMs.unwrap().optional() });
/** Longest time in ms until other replicas have the results of their calls when the server stops. */
const PEERS_MS = 1_000;
/** Longest time in ms that a stopping server gives accepted calls to get a slot. */
const ADMISSION_MS = 5_000;

/** A server that listens. Disposing it closes it at once; `close` lets calls finish. */
export interface Server extends AsyncDisposable {
  /** `http://127.0.0.1:7070` */
  readonly url: string;
  /** The key of the platform that was created because there was none. Shown once: only its hash is stored. */
  readonly adminKey: string | undefined;
  readonly config: ServerConfig;
  /**
   * Stops accepting calls, waits up to `drainMs` for those that run, and closes everything.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for an unknown option or a wrong value: nothing is closed then
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}

interface GloveboxDependencies {
  readonly database: OpenDatabase;
  readonly masterKey: MasterKey;
  readonly quotas: DatabaseQuotaStore;
  readonly kv: DatabaseKvStore;
  readonly telemetry: ServerTelemetry | undefined;
  readonly log: pino.Logger;
}

const toExecutors = (
  { natsCredentials: credentials, natsTlsCa: tlsCa, executorSilenceMs: silenceMs }: ServerConfig,
  url: string,
  log: pino.Logger,
): ExecutorsOptions => ({
  url,
  credentials,
  tlsCa,
  silenceMs,
  onEvent: ({ type, message, executor }) => {
    const level = type === "nats-connected" || type === "executor-returned" ? "info" : "warn";
    log[level]({ event: type, executor }, message);
  },
});

async function openGlovebox(
  config: ServerConfig,
  { database, masterKey, quotas, kv, telemetry, log }: GloveboxDependencies,
): Promise<Glovebox> {
  const packages = join(config.dataDir, "packages");
  makeFolderSync(packages);
  return await createGlovebox({
    tenancy: "multi",
    limits: config.limits,
    // A tenant that the database does not know, or that it is about to delete, has no policy, so its calls are denied.
    tenants: async (tenantId) => {
      const tenant = await findTenant(database.db, tenantId);
      if (tenant === undefined || tenant.state === "deleting") return undefined;
      return toTenantOptions(tenant.policy, await readSecrets(database.db, masterKey, tenantId));
    },
    quotaStore: quotas,
    workers: {
      max: config.maxWorkers,
      warmProcesses: config.warmProcesses,
      warmPythonProcesses: config.warmPythonProcesses,
    },
    ...(config.natsUrl === undefined ? {} : { executors: toExecutors(config, config.natsUrl, log) }),
    kv,
    cache: { directory: join(config.dataDir, "cache") },
    // Code of tenants imports only what it uploads.
    bundler: { root: packages, allowPackages: [] },
    shutdown: false,
    ...(telemetry === undefined ? {} : { telemetry: telemetry.options }),
    onError: (error) => log.error({ err: error }, "glovebox"),
    onWarning: (warning) => log.warn(warning, "tool"),
  });
}

/**
 * Opens a server.
 * @throws {ToolError} PARAM_INVALID for invalid options, a port that is in use, or a missing package; TOOL_UNAVAILABLE on a version of Node
 *   that is too old; otherwise what the database throws
 * @example
 * ```typescript
 * import { createServer } from "glovebox/server";
 *
 * const server = await createServer({ port: 7_070, dataDir: "./data" });
 * console.log(server.url, server.adminKey);
 * process.once("SIGTERM", () => server.close({ drainMs: 10_000 }));
 * ```
 */
export async function createServer(options: ServerOptions = {}): Promise<Server> {
  const oldNode = oldNodeMessage();
  if (oldNode !== undefined) throw unavailable("unsupported", oldNode);
  const config = parseServerOptions(options);
  const log = pino({ level: config.logLevel, base: null }, pino.destination(2));
  log.info({ version: packageVersion(), node: process.version }, "starting");
  const newKey = createApiKey();
  const until = performance.now() + STARTUP_WAIT_MS;
  for (;;) {
    try {
      return await openServer(config, log, newKey);
    } catch (thrown) {
      // Postgres restarts while the server starts.
      if (!isLostConnection(thrown) || performance.now() > until) throw thrown;
      log.warn({ err: thrown }, "database");
      await sleep(RETRY_MS);
    }
  }
}

/** Reports that a window of a tenant, or of one of its keys, reaches its limit. */
async function reportWarning(db: Db, { tenantId: ownerId, ...data }: QuotaWarning): Promise<void> {
  const key = isKeyId(ownerId) ? await findKeyById(db, ownerId) : undefined;
  // A key of the platform has no tenant that could have a webhook.
  if (key?.tenantId === null) return;
  const event =
    key === undefined ? { tenantId: ownerId, data } : { tenantId: key.tenantId, data: { ...data, keyId: key.id } };
  await emitEvents(db, [{ ...event, type: "quota.warning" }]);
}

async function openServer(config: ServerConfig, log: pino.Logger, newKey: NewApiKey): Promise<Server> {
  const version = packageVersion();
  await using resources = new AsyncDisposableStack();
  const database = resources.use(
    await openDatabase({
      url: config.database,
      dataDir: config.dataDir,
      onError: (error) => log.error({ err: error }, "database"),
      onWaiting: (message) => log.warn(message),
    }),
  );
  const { db, kind, clock } = database;
  const bus = resources.use(
    await openBus({ db, url: config.database, version, onError: (error) => log.error({ err: error }, "replicas") }),
  );
  const requests = resources.use(new ReplicaRequests(bus));
  const masterKey = await openMasterKey(db, config);
  const onEventError = (error: unknown): void => log.error({ err: error }, "event");
  const quotas = new DatabaseQuotaStore({
    db,
    kind,
    now: () => clock.now(),
    onWarning: (warning) => void reportWarning(db, warning).catch(onEventError),
  });
  const kv = new DatabaseKvStore(database, (transaction, tenantId, bytes) =>
    checkStoredBytes(transaction, tenantId, { what: "The value", bytes }),
  );
  const storedBytes = new StoredBytesSweeper(database, ({ tenantId, ...data }) => {
    emitEvents(db, [{ tenantId, type: "quota.warning", data }]).catch(onEventError);
  });
  // Closed after the Glovebox, whose last calls it reports.
  const telemetry = config.telemetry ? resources.use(await openTelemetry(version)) : undefined;
  const glovebox = resources.use(await openGlovebox(config, { database, masterKey, quotas, kv, telemetry, log }));
  const tokens = config.jwt && (await createTokenVerifier(config.jwt, (error) => log.error({ err: error }, "token")));
  const authenticator = resources.use(new RequestAuthenticator(database, tokens));
  const tools = resources.use(new TenantTools(glovebox, database.db));
  const onError = (error: unknown): void => log.error({ err: error }, "call");
  const callerLimits = new CallerLimits(db);
  const quotaChecks = new QuotaChecks({ quotas, callerLimits });
  const slots = resources.use(
    new ClusterSlots({ database, bus, limits: config.limits, limitsOf: (id) => callerLimits.of(id), onError }),
  );
  const runningCounts = resources.use(new RunningCounts({ kind, bus, requests, glovebox, slots }));
  // Closed after the calls, which acknowledge their messages when they have ended.
  const work = resources.use(await openWorkQueue(config, { database, bus, glovebox, slots, onError }));
  let acceptsCalls = true;
  const peering = { masterKey, clock, replicaId: bus.replicaId, acceptsCalls: () => acceptsCalls };
  const peers = resources.use(new PeerClient(peering));
  const metrics = new Metrics(
    () => glovebox.workerPids.length,
    () => withBacklog(glovebox.fleet, work?.reported ?? []),
  );
  const watch = resources.use(
    new ReleaseWatch({
      database,
      onError,
      onChange: () => authenticator.clear(),
      releaseOf: (tenantId, toolName, alias) => tools.releaseOf(tenantId, toolName, alias),
    }),
  );
  const calls = resources.use(
    new CallService({
      database,
      authenticator,
      glovebox,
      tools,
      metrics,
      watch,
      bus,
      requests,
      slots,
      callerLimits,
      quotaChecks,
      work,
      peers,
      onError,
      acceptsCalls: () => acceptsCalls,
    }),
  );
  const peerServer = new PeerServer({
    ...peering,
    run: (call) => calls.runReceived(call),
    serve: (request) => receivedRequests.serve(request),
  });
  const tenantChanges = resources.use(
    new TenantChanges({ db, bus, requests, glovebox, authenticator, tools, slots, calls }),
  );
  const runs = resources.use(
    new RunService({
      database,
      glovebox,
      tools,
      calls,
      slots,
      callerLimits,
      onError,
      executeCode: async (call, context): Promise<ToolResult> => await (await codeMode.open()).execute(call, context),
    }),
  );
  const former = { sweep: () => eraseFormerTenants(database, config) };
  await former.sweep();
  resources.use(startRetention(database, [quotas, kv, former, storedBytes], onError));
  const deliveries = resources.use(
    new DeliveryQueue({ database, masterKey, addresses: config.webhookAddresses, onError: onEventError }),
  );
  const scheduler = resources.use(
    new Scheduler({ db, calls, now: () => clock.now(), onError: (error) => log.error({ err: error }, "schedule") }),
  );
  const allowedHosts = toAllowedHosts(config);
  const mcpDependencies = {
    glovebox,
    authenticator,
    tools,
    calls,
    runs,
    database,
    onError,
    allowedHosts,
    maxBodyBytes: config.maxBodyBytes,
    sessionPrefix: kind === "postgres" ? bus.replicaId : undefined,
  };
  const mcp = resources.use(openTenantMcp(mcpDependencies));
  const codeMode = resources.use(openTenantCodeMode(mcpDependencies));
  const receivedRequests = new ReceivedRequests({ authenticator, endpoints: { mcp, "code-mode": codeMode }, onError });
  const unread = new UnreadResponses();
  const bodies = new BodyBytes(bodyLimitsOf(config.maxBodyBytes));
  const forwarding = resources.use(
    new SessionForwarding({
      db,
      peers,
      bodies,
      replicaId: bus.replicaId,
      maxBodyBytes: config.maxBodyBytes,
      now: () => clock.now(),
      onError: (error) => log.error({ err: error }, "replicas"),
    }),
  );
  const installed = join(config.dataDir, "installed-packages");
  const installer = config.packages && new PackageInstaller(config.packages, installed);
  const { maxStreamsPerTenant: perTenant, maxStreamsPerKey: perKey, maxStreamMs: maxMs } = config;
  const streams = resources.use(
    new OpenStreams(database, { perTenant, perKey, total: MAX_STREAMS, maxMs }, (error) =>
      log.error({ err: error }, "stream"),
    ),
  );
  let isOpen = true;
  const readiness = resources.use(
    new Readiness({
      database,
      bus,
      requests,
      isOpen: () => isOpen,
      reachesNats: () => glovebox.fleet.isReachable,
      onError: (error) => log.error({ err: error }, "readiness"),
    }),
  );
  const dependencies: ServerDependencies = {
    database,
    glovebox,
    bus,
    authenticator,
    tools,
    calls,
    slots,
    callerLimits,
    quotaChecks,
    runningCounts,
    tenantChanges,
    runs,
    mcp: forwarding.wrap(mcp, "mcp"),
    codeMode: forwarding.wrap(codeMode, "code-mode"),
    metrics,
    streams,
    searches: new SerialReads(),
    requestLog: new RequestLog(log),
    quotas,
    kv,
    masterKey,
    deliveries,
    webhookAddresses: config.webhookAddresses,
    installer,
    console: await readConsoleFiles(),
    embedOrigins: config.embedOrigins,
    limits: config.limits,
    vacuumFull: config.vacuumFull,
    usesExecutors: config.natsUrl !== undefined,
    backlog: () => work?.backlog ?? [],
    oidc:
      config.oidc &&
      (await OidcSignIn.create(config.oidc, {
        masterKey,
        clock,
        onError: (error) => log.error({ err: error }, "sign-in"),
      })),
    version,
    allowedHosts,
    maxBodyBytes: config.maxBodyBytes,
    bodies,
    unread,
    readiness,
    acceptsCalls: () => acceptsCalls,
    onError: (error, requestId) => log.error({ err: error, requestId }, "request"),
  };
  const server = await listen(createApp(dependencies), config, kind === "postgres" ? peerServer : undefined, unread);
  // A start that fails from here on leaves the port free for the next attempt.
  resources.defer(() => {
    server.close();
    if ("closeAllConnections" in server) server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const ownUrl = await findOwnUrl(config, port);
  if (ownUrl !== undefined) await bus.setUrl(ownUrl);
  // Nothing fails between here and the caller, who shows the key: it exists nowhere else.
  const adminKey = await createFirstAdminKey(database, newKey);
  calls.start();
  runs.start();
  deliveries.start();
  scheduler.start();
  const shownHost = config.host.includes(":") ? `[${config.host}]` : config.host;
  const url = `http://${shownHost}:${port}`;
  log.info({ url, database: kind }, "listening");
  const opened = resources.move();
  let closing: Promise<void> | undefined;

  const close = async (drainMs: number, delayMs: number): Promise<void> => {
    // Readiness fails first, so that a load balancer sends nothing new.
    isOpen = false;
    log.info({ drainMs, delayMs }, "draining");
    if (delayMs > 0) await sleep(delayMs);
    acceptsCalls = false;
    await calls.releaseSessions();
    const stopped = new Promise((resolve) => server.close(resolve));
    await scheduler[Symbol.asyncDispose]();
    // Calls that were accepted before take their slots first, such as those of sessions that other replicas have passed on.
    await calls.begun(Math.min(ADMISSION_MS, drainMs));
    slots.stop();
    // Before the Glovebox, which accepts no calls while it closes.
    await runs.close(drainMs);
    await Promise.all([calls.drain(drainMs), glovebox.close({ drainMs })]);
    forwarding[Symbol.dispose]();
    await Promise.all([mcp.close(), codeMode.close()]);
    // Their last messages are sent, and one that has not begun does not hold up the end.
    await Promise.race([peerServer.settled(), sleep(PEERS_MS, undefined, { ref: false })]);
    if ("closeAllConnections" in server) server.closeAllConnections();
    await stopped;
    await opened.disposeAsync();
    log.info("stopped");
  };
  return {
    url,
    adminKey,
    config,
    close: async (given = {}) => {
      const { drainMs } = parseOptions(CloseOptionsSchema, given, "options");
      // One that need not drain need not wait for load balancers either.
      closing ??= close(drainMs ?? config.drainMs, drainMs === 0 ? 0 : config.stopDelayMs);
      await closing;
    },
    [Symbol.asyncDispose]: () => (closing ??= close(0, 0)),
  };
}
