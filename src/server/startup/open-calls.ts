// Second stage of a start: the Glovebox, and everything that a call of a tenant passes through.
import type { Glovebox } from "../../host/index.ts";
import { RequestAuthenticator } from "../auth/authentication.ts";
import { createTokenVerifier } from "../auth/token-verifier.ts";
import { CallService } from "../calls/call-service.ts";
import { ClusterSlots } from "../calls/cluster-slots.ts";
import { openWorkQueue, withBacklog } from "../calls/queue/open-work-queue.ts";
import type { WorkQueue } from "../calls/queue/work-queue.ts";
import { Metrics } from "../operation/metrics.ts";
import { openTelemetry } from "../operation/telemetry.ts";
import { CallerLimits } from "../quotas/caller-limits.ts";
import { QuotaChecks } from "../quotas/quota-checks.ts";
import { RunningCounts } from "../quotas/running-counts.ts";
import { ReleaseWatch } from "../releases/release-watch.ts";
import { PeerClient } from "../replicas/peers/peer-client.ts";
import { TenantChanges } from "../tenants/tenant-changes.ts";
import { TenantTools } from "../tools/tenant-tools.ts";
import { openGlovebox } from "./open-glovebox.ts";
import type { Storage } from "./open-storage.ts";
import { logErrors, type Startup } from "./startup.ts";

/** Parts of the server that take part in the calls of tenants. */
export interface CallParts {
  readonly glovebox: Glovebox;
  readonly authenticator: RequestAuthenticator;
  readonly tools: TenantTools;
  readonly callerLimits: CallerLimits;
  readonly quotaChecks: QuotaChecks;
  readonly slots: ClusterSlots;
  readonly runningCounts: RunningCounts;
  /** The queue for executors; undefined without any. */
  readonly work: WorkQueue | undefined;
  readonly peers: PeerClient;
  readonly metrics: Metrics;
  readonly calls: CallService;
  readonly tenantChanges: TenantChanges;
}

/** Opens the Glovebox and the service that makes calls. The service does not yet take calls of the queue. */
export async function openCalls(startup: Startup, storage: Storage): Promise<CallParts> {
  const { config, log, version, state, resources } = startup;
  const { database, bus, requests, masterKey, quotas } = storage;
  const { db, kind, clock } = database;
  const onError = logErrors(log, "call");
  // Closed after the Glovebox, whose last calls it reports.
  const telemetry = config.telemetry ? resources.use(await openTelemetry(version)) : undefined;
  const glovebox = resources.use(await openGlovebox(startup, storage, telemetry));
  const tokens = config.jwt && (await createTokenVerifier(config.jwt, logErrors(log, "token")));
  const authenticator = resources.use(new RequestAuthenticator(database, tokens));
  const tools = resources.use(new TenantTools(glovebox, db));
  const callerLimits = new CallerLimits(db);
  const quotaChecks = new QuotaChecks({ quotas, callerLimits });
  const slots = resources.use(
    new ClusterSlots({ database, bus, limits: config.limits, limitsOf: (id) => callerLimits.of(id), onError }),
  );
  const runningCounts = resources.use(new RunningCounts({ kind, bus, requests, glovebox, slots }));
  // Closed after the calls, which acknowledge their messages when they have ended.
  const work = resources.use(await openWorkQueue(config, { database, bus, glovebox, slots, onError }));
  const acceptsCalls = (): boolean => state.acceptsCalls;
  const peers = resources.use(new PeerClient({ masterKey, clock, replicaId: bus.replicaId }));
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
      acceptsCalls,
      onError,
    }),
  );
  const tenantChanges = resources.use(
    new TenantChanges({ db, bus, requests, glovebox, authenticator, tools, slots, calls }),
  );
  return {
    glovebox,
    authenticator,
    tools,
    callerLimits,
    quotaChecks,
    slots,
    runningCounts,
    work,
    peers,
    metrics,
    calls,
    tenantChanges,
  };
}
