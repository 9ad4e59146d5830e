// Last stage of a start: the HTTP API and the console, on the port of the server.
import type { Server } from "node:http";
import { join } from "node:path";
import { OidcSignIn } from "../auth/oidc.ts";
import { toResourceMetadata } from "../auth/resource-metadata.ts";
import type { ServerConfig } from "../config/server-options.ts";
import { createApp, isOwnHost } from "../http/app.ts";
import { BodyBytes, bodyLimitsOf } from "../http/body-bytes.ts";
import { readConsoleFiles } from "../http/console-files.ts";
import { listen, MAX_STREAMS } from "../http/listen.ts";
import { OpenStreams } from "../http/open-streams.ts";
import { UnreadResponses } from "../http/unread-responses.ts";
import { SessionForwarding } from "../mcp/session-forwarding.ts";
import { Readiness } from "../operation/readiness.ts";
import { RequestLog } from "../operation/request-log.ts";
import { SerialReads } from "../operation/serial-reads.ts";
import { PackageInstaller } from "../tools/packages.ts";
import type { CallParts } from "./open-calls.ts";
import type { Services } from "./open-services.ts";
import type { Storage } from "./open-storage.ts";
import { logErrors, type Startup } from "./startup.ts";

export interface OpenHttp {
  readonly server: Server;
  readonly forwarding: SessionForwarding;
}

const openStreams = ({ config, log }: Startup, { database }: Storage): OpenStreams => {
  const { maxStreamsPerTenant: perTenant, maxStreamsPerKey: perKey, maxStreamMs: maxMs } = config;
  return new OpenStreams(database, { perTenant, perKey, total: MAX_STREAMS, maxMs }, logErrors(log, "stream"));
};

const openSignIn = async (
  { config, log }: Startup,
  { database, masterKey }: Storage,
): Promise<OidcSignIn | undefined> =>
  config.oidc &&
  (await OidcSignIn.create(config.oidc, { masterKey, clock: database.clock, onError: logErrors(log, "sign-in") }));

const toInstaller = ({ packages, dataDir }: ServerConfig): PackageInstaller | undefined =>
  packages && new PackageInstaller(packages, join(dataDir, "installed-packages"));

/** Listens. @throws {ToolError} PARAM_INVALID if the address is in use or not available */
export async function openHttp(
  startup: Startup,
  storage: Storage,
  parts: CallParts,
  services: Services,
): Promise<OpenHttp> {
  const { config, log, version, state, resources } = startup;
  const { database, bus, requests, masterKey, quotas, kv } = storage;
  const { db, kind, clock } = database;
  const { glovebox, work, peers } = parts;
  const { allowedHosts, mcp, codeMode } = services;
  const { maxBodyBytes } = config;
  const unread = new UnreadResponses();
  const bodies = new BodyBytes(bodyLimitsOf(maxBodyBytes));
  const forwarding = resources.use(
    new SessionForwarding({
      db,
      peers,
      bodies,
      replicaId: bus.replicaId,
      maxBodyBytes,
      now: () => clock.now(),
      onError: logErrors(log, "replicas"),
    }),
  );
  const streams = resources.use(openStreams(startup, storage));
  const readiness = resources.use(
    new Readiness({
      database,
      bus,
      requests,
      isOpen: () => state.isOpen,
      reachesNats: () => glovebox.fleet.isReachable,
      onError: logErrors(log, "readiness"),
    }),
  );
  const onError = (error: unknown, requestId: string): void => log.error({ err: error, requestId }, "request");
  const app = createApp({
    database,
    glovebox,
    bus,
    usesExecutors: config.natsUrl !== undefined,
    backlog: () => work?.backlog ?? [],
    authenticator: parts.authenticator,
    tools: parts.tools,
    calls: parts.calls,
    slots: parts.slots,
    callerLimits: parts.callerLimits,
    quotaChecks: parts.quotaChecks,
    runningCounts: parts.runningCounts,
    tenantChanges: parts.tenantChanges,
    runs: services.runs,
    mcp: forwarding.wrap(mcp, "mcp"),
    codeMode: forwarding.wrap(codeMode, "code-mode"),
    metrics: parts.metrics,
    requestLog: new RequestLog(log),
    streams,
    searches: new SerialReads(),
    quotas,
    kv,
    masterKey,
    deliveries: services.deliveries,
    webhookAddresses: config.webhookAddresses,
    limits: config.limits,
    vacuumFull: config.vacuumFull,
    installer: resources.use(toInstaller(config)),
    console: await readConsoleFiles(),
    oidc: await openSignIn(startup, storage),
    embedOrigins: config.embedOrigins,
    version,
    allowedHosts,
    maxBodyBytes,
    bodies,
    unread,
    readiness,
    acceptsCalls: () => state.acceptsCalls,
    metadata: toResourceMetadata(config.jwt, (name) => isOwnHost(name, allowedHosts)),
    onError,
  });
  const peerServer = kind === "postgres" ? services.peerServer : undefined;
  const server = await listen(app, config, { peers: peerServer, unread, onError });
  // A start that fails from here on leaves the port free for the next attempt.
  resources.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, forwarding };
}
