// The context of the routes: the parts of the server, and the properties of a request that the guards have established.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { ExecutorQueue, Glovebox, JsonValue, PartialLimits } from "../../host/index.ts";
import type { RequestAuthenticator } from "../auth/authentication.ts";
import type { OidcSignIn } from "../auth/oidc.ts";
import type { Principal } from "../auth/principal.ts";
import type { ResourceMetadata } from "../auth/resource-metadata.ts";
import type { CallService } from "../calls/call-service.ts";
import type { ClusterSlots } from "../calls/cluster-slots.ts";
import type { AllowedHosts } from "../config/server-options.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { DatabaseKvStore } from "../kv/database-kv-store.ts";
import type { McpEndpoint } from "../mcp/mcp-endpoints.ts";
import type { Metrics } from "../operation/metrics.ts";
import type { Readiness } from "../operation/readiness.ts";
import type { RequestLog } from "../operation/request-log.ts";
import type { SerialReads } from "../operation/serial-reads.ts";
import type { CallerLimits } from "../quotas/caller-limits.ts";
import type { DatabaseQuotaStore } from "../quotas/database-quota-store.ts";
import type { QuotaChecks } from "../quotas/quota-checks.ts";
import type { QuotaStatus } from "../quotas/quota-status.ts";
import type { RunningCounts } from "../quotas/running-counts.ts";
import type { Actor } from "../records/audit/audit.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import type { RunService } from "../runs/run-service.ts";
import type { MasterKey } from "../secrets/master-key.ts";
import type { TenantChanges } from "../tenants/tenant-changes.ts";
import type { PackageInstaller } from "../tools/packages.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import type { DeliveryQueue } from "../webhooks/delivery-queue.ts";
import type { BodyBytes } from "./body-bytes.ts";
import type { ConsoleFiles } from "./console-files.ts";
import type { OpenStream, OpenStreams } from "./open-streams.ts";
import type { UnreadResponses } from "./unread-responses.ts";

export interface ServerDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  readonly bus: ReplicaBus;
  /** Whether the calls of sandboxed tools run on executors. */
  readonly usesExecutors: boolean;
  /** Calls that wait in the work queue for an executor, by pool. */
  readonly backlog: () => readonly ExecutorQueue[];
  readonly authenticator: RequestAuthenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
  /** The tenants' concurrent calls over all replicas. */
  readonly slots: ClusterSlots;
  /** The limits of the keys that make calls. */
  readonly callerLimits: CallerLimits;
  readonly quotaChecks: QuotaChecks;
  readonly runningCounts: RunningCounts;
  readonly tenantChanges: TenantChanges;
  readonly runs: RunService;
  readonly mcp: Pick<McpEndpoint, "fetch">;
  readonly codeMode: Pick<McpEndpoint, "fetch">;
  readonly metrics: Metrics;
  readonly requestLog: RequestLog;
  readonly streams: OpenStreams;
  readonly searches: SerialReads;
  readonly quotas: DatabaseQuotaStore;
  readonly kv: DatabaseKvStore;
  readonly masterKey: MasterKey;
  readonly deliveries: DeliveryQueue;
  /** Addresses that webhooks may reach although they are not public. */
  readonly webhookAddresses: readonly string[];
  /** Limits of every call. */
  readonly limits: PartialLimits;
  /** Whether Postgres rewrites its tables after the deletion of a tenant. */
  readonly vacuumFull: boolean;
  /** Undefined if uploads may not install packages. */
  readonly installer: PackageInstaller | undefined;
  /** The files of the console; undefined if they were not built. */
  readonly console: ConsoleFiles | undefined;
  /** Undefined if the operator has configured no identity provider for the console. */
  readonly oidc: OidcSignIn | undefined;
  /** Origins of the pages that may show the console in a frame. */
  readonly embedOrigins: readonly string[];
  readonly version: string;
  readonly allowedHosts: AllowedHosts;
  /** Largest body of a request in bytes. */
  readonly maxBodyBytes: number;
  /** Counts the bodies of requests that are not answered yet. */
  readonly bodies: BodyBytes;
  /** Counts the responses that clients have not read. */
  readonly unread: Pick<UnreadResponses, "begin">;
  /** Whether load balancers should send requests. */
  readonly readiness: Pick<Readiness, "check">;
  /** Returns whether the server accepts calls: false once it drains. */
  readonly acceptsCalls: () => boolean;
  /** Undefined if no authorization server issues tokens for this server's URL. */
  readonly metadata: ResourceMetadata | undefined;
  /** Receives errors whose cause must not be shown to the caller. */
  readonly onError: (error: unknown, requestId: string) => void;
}

export interface AppVariables {
  requestId: string;
  /** Set by the guard of a route that is not public. */
  principal: Principal;
  /** Set by the guard of a route whose path names a tenant. */
  tenant: TenantRecord;
  actor: Actor;
  /** Set by the guard if the key has a rate limit. */
  keyRate?: QuotaStatus;
  /** Headers of an error that say what is left of the limits of the tenant and the key. */
  rateHeaders?: { readonly [name: string]: string };
  /** Set by the guard of a route with a body: its value if it is large, else its text. */
  body: { readonly text: string } | { readonly value: JsonValue };
  /** Set by the guard of a route with a body that takes long to parse and to serialize. */
  isLargeBody?: true;
  /** Set by the guard of a route whose response may stay open. */
  stream: OpenStream;
}
export interface AppEnv {
  Variables: AppVariables;
  /** Set by Node's HTTP server; absent for a request that comes another way. */
  Bindings: { incoming?: IncomingMessage; outgoing?: ServerResponse };
}

export type App = OpenAPIHono<AppEnv>;
