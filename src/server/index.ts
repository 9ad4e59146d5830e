// The server: hosts the tools of many tenants behind an HTTP API. `createServer` opens its database and its Glovebox, and listens.
import { mkdirSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type ServerType, serve } from "@hono/node-server";
import { pino } from "pino";
import { packageVersion } from "../host/config/package-version.ts";
import { createGlovebox, type Glovebox, ToolError } from "../host/index.ts";
import { createApiKey } from "./auth/api-key.ts";
import { Authenticator } from "./auth/authentication.ts";
import { OidcSignIn } from "./auth/oidc.ts";
import { SCOPES } from "./auth/scopes.ts";
import { createTokenVerifier } from "./auth/token-verifier.ts";
import { CallService } from "./calls/call-service.ts";
import { startRetention } from "./calls/retention.ts";
import { parseServerOptions, type ServerConfig, type ServerOptions } from "./config/server-options.ts";
import { type OpenDatabase, openDatabase } from "./database/open-database.ts";
import { createApp } from "./http/app.ts";
import { readConsoleFiles } from "./http/console-files.ts";
import type { ServerParts } from "./http/context.ts";
import { createId } from "./ids.ts";
import { DatabaseKvStore } from "./kv/database-kv-store.ts";
import { TenantMcp } from "./mcp/tenant-mcp.ts";
import { Metrics } from "./operation/metrics.ts";
import { openTelemetry, type Telemetry } from "./operation/telemetry.ts";
import { DatabaseQuotaStore } from "./quotas/database-quota-store.ts";
import { hasPlatformKey, insertKey } from "./records/api-keys.ts";
import { appendAudit, SERVER_ACTOR } from "./records/audit.ts";
import { readSecrets } from "./records/secrets.ts";
import { toTenantOptions } from "./records/tenant-policy.ts";
import { findTenant } from "./records/tenants.ts";
import { emitEvents } from "./records/webhooks.ts";
import { changeExclusively } from "./records/write-lock.ts";
import { ReleaseWatch } from "./releases/release-watch.ts";
import { Scheduler } from "./schedules/scheduler.ts";
import { type MasterKey, openMasterKey } from "./secrets/master-key.ts";
import { PackageInstaller } from "./tools/packages.ts";
import { TenantTools } from "./tools/tenant-tools.ts";
import { DeliveryQueue } from "./webhooks/delivery-queue.ts";

export type { ServerConfig, ServerOptions } from "./config/server-options.ts";

/** Limits of connections, in ms and in number. They stop clients that send slowly or not at all. */
const CONNECTION_OPTIONS = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
} as const;
const MAX_CONNECTIONS = 4_096;
const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]", "::1"];

/** A server that listens. Disposing it closes it at once; `close` lets calls finish. */
export interface Server extends AsyncDisposable {
  /** `http://127.0.0.1:7070` */
  readonly url: string;
  /** The key of the platform that was created because there was none. Shown once: only its hash is stored. */
  readonly adminKey: string | undefined;
  readonly config: ServerConfig;
  /** Stops accepting calls, waits up to `drainMs` for those that run, and closes everything. */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}

async function createAdminKey(database: OpenDatabase): Promise<string | undefined> {
  return await changeExclusively(database, async (transaction) => {
    if (await hasPlatformKey(transaction)) return undefined;
    const { key, hash, prefix } = createApiKey();
    const id = createId("key");
    await insertKey(transaction, {
      id,
      tenantId: null,
      name: "admin",
      prefix,
      scopes: SCOPES,
      expiresAt: null,
      rateLimit: null,
      hash,
    });
    await appendAudit(transaction, {
      actor: SERVER_ACTOR,
      tenantId: null,
      action: "key.created",
      target: id,
      details: { name: "admin" },
    });
    return key;
  });
}

interface BoxParts {
  readonly database: OpenDatabase;
  readonly masterKey: MasterKey;
  readonly quotas: DatabaseQuotaStore;
  readonly kv: DatabaseKvStore;
  readonly telemetry: Telemetry | undefined;
  readonly log: pino.Logger;
}

async function openBox(
  config: ServerConfig,
  { database, masterKey, quotas, kv, telemetry, log }: BoxParts,
): Promise<Glovebox> {
  const packages = join(config.dataDir, "packages");
  mkdirSync(packages, { recursive: true, mode: 0o700 });
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
    workers: { max: config.maxWorkers },
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

async function listen(app: ReturnType<typeof createApp>, { host, port }: ServerConfig): Promise<ServerType> {
  const server = serve({ fetch: app.fetch, hostname: host, port, serverOptions: CONNECTION_OPTIONS });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once("listening", resolve);
    server.once("error", ({ code }: NodeJS.ErrnoException) => {
      const why = code === "EADDRINUSE" ? "is in use" : `is not available (${code})`;
      reject(new ToolError("PARAM_INVALID", `options.port: Port ${port} of ${host} ${why}`));
    });
  });
  return server;
}

/**
 * Opens a server.
 * @throws {ToolError} PARAM_INVALID for invalid options, a port that is in use, or a missing package; otherwise what the database throws
 */
export async function createServer(options: ServerOptions = {}): Promise<Server> {
  const config = parseServerOptions(options);
  const log = pino({ level: config.logLevel, base: null }, pino.destination(2));
  await using resources = new AsyncDisposableStack();
  const database = resources.use(
    await openDatabase({
      ...{ url: config.database, dataDir: config.dataDir },
      onError: (error) => log.error({ err: error }, "database"),
    }),
  );
  const { db, kind } = database;
  const masterKey = await openMasterKey(db, config);
  const onEventError = (error: unknown): void => log.error({ err: error }, "event");
  const quotas = new DatabaseQuotaStore({
    ...{ db, kind },
    onWarning: ({ tenantId, ...data }) => {
      emitEvents(db, [{ tenantId, type: "quota.warning", data }]).catch(onEventError);
    },
  });
  const kv = new DatabaseKvStore({ db, kind });
  // Closed after the Glovebox, whose last calls it reports.
  const telemetry = config.telemetry ? resources.use(await openTelemetry(packageVersion())) : undefined;
  const box = resources.use(await openBox(config, { database, masterKey, quotas, kv, telemetry, log }));
  const tokens = config.jwt && createTokenVerifier(config.jwt, (error) => log.error({ err: error }, "token"));
  const authenticator = resources.use(new Authenticator(db, kind === "postgres", tokens));
  const tools = resources.use(new TenantTools(box, database.db));
  const metrics = new Metrics(() => box.workerPids.length);
  const onError = (error: unknown): void => log.error({ err: error }, "call");
  const watch = new ReleaseWatch({
    ...{ database, onError, onChange: () => authenticator.clear() },
    releaseOf: (tenantId, toolName, alias) => tools.releaseOf(tenantId, toolName, alias),
  });
  const calls = resources.use(new CallService({ database, box, tools, metrics, watch, onError }));
  resources.use(startRetention(db, [quotas, kv], onError));
  const deliveries = resources.use(
    new DeliveryQueue({ database, masterKey, addresses: config.webhookAddresses, onError: onEventError }),
  );
  const scheduler = resources.use(
    new Scheduler({ db, calls, onError: (error) => log.error({ err: error }, "schedule") }),
  );
  const mcp = resources.use(
    new TenantMcp({
      box,
      authenticator,
      tools,
      calls,
      allowedHosts: [...LOOPBACK_NAMES, ...config.allowHosts],
      onError,
    }),
  );
  const installed = join(config.dataDir, "installed-packages");
  const installer = config.packages && new PackageInstaller(config.packages, installed);
  let isReady = true;
  const parts: ServerParts = {
    kv,
    ...{
      database,
      box,
      authenticator,
      tools,
      calls,
      mcp,
      metrics,
      quotas,
      masterKey,
      deliveries,
      installer,
      console: await readConsoleFiles(),
      embedOrigins: config.embedOrigins,
      oidc: config.oidc && (await OidcSignIn.create(config.oidc, masterKey)),
      version: packageVersion(),
    },
    ...{ allowedHosts: [...LOOPBACK_NAMES, ...config.allowHosts], maxBodyBytes: config.maxBodyBytes },
    isReady: () => isReady,
    onError: (error, requestId) => log.error({ err: error, requestId }, "request"),
  };
  const adminKey = await createAdminKey(database);
  const server = await listen(createApp(parts), config);
  calls.start();
  deliveries.start();
  scheduler.start();
  const { port } = server.address() as AddressInfo;
  const shownHost = config.host.includes(":") ? `[${config.host}]` : config.host;
  const opened = resources.move();
  let closing: Promise<void> | undefined;

  const close = async (drainMs: number): Promise<void> => {
    // Readiness fails first, so that a load balancer sends nothing new.
    isReady = false;
    const stopped = new Promise((resolve) => server.close(resolve));
    await scheduler[Symbol.asyncDispose]();
    await Promise.all([calls.drain(), box.close({ drainMs })]);
    await mcp.close();
    if ("closeAllConnections" in server) server.closeAllConnections();
    await stopped;
    await opened.disposeAsync();
  };
  return {
    ...{ url: `http://${shownHost}:${port}`, adminKey, config },
    close: (given = {}) => (closing ??= close(given.drainMs ?? config.drainMs)),
    [Symbol.asyncDispose]: () => (closing ??= close(0)),
  };
}
