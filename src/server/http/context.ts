// The context of the routes: the parts of the server, and the properties of a request that the guards have established.
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Glovebox } from "../../host/index.ts";
import type { Authenticator } from "../auth/authentication.ts";
import type { OidcSignIn } from "../auth/oidc.ts";
import type { Principal } from "../auth/principal.ts";
import type { CallService } from "../calls/call-service.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import type { DatabaseKvStore } from "../kv/database-kv-store.ts";
import type { TenantMcp } from "../mcp/tenant-mcp.ts";
import type { Metrics } from "../operation/metrics.ts";
import type { DatabaseQuotaStore } from "../quotas/database-quota-store.ts";
import type { Actor } from "../records/audit.ts";
import type { Tenant } from "../records/tenants.ts";
import type { MasterKey } from "../secrets/master-key.ts";
import type { PackageInstaller } from "../tools/packages.ts";
import type { TenantTools } from "../tools/tenant-tools.ts";
import type { DeliveryQueue } from "../webhooks/delivery-queue.ts";
import type { ConsoleFiles } from "./console-files.ts";

export interface ServerParts {
  readonly database: OpenDatabase;
  readonly box: Glovebox;
  readonly authenticator: Authenticator;
  readonly tools: TenantTools;
  readonly calls: CallService;
  readonly mcp: TenantMcp;
  readonly metrics: Metrics;
  readonly quotas: DatabaseQuotaStore;
  readonly kv: DatabaseKvStore;
  readonly masterKey: MasterKey;
  readonly deliveries: DeliveryQueue;
  /** Undefined if uploads may not install packages. */
  readonly installer: PackageInstaller | undefined;
  /** The files of the console; undefined if they were not built. */
  readonly console: ConsoleFiles | undefined;
  /** Undefined if the operator has configured no identity provider for the console. */
  readonly oidc: OidcSignIn | undefined;
  /** Origins of the pages that may show the console in a frame. */
  readonly embedOrigins: readonly string[];
  readonly version: string;
  /** Host names under which clients reach the server, with or without a port. */
  readonly allowedHosts: readonly string[];
  /** Largest body of a request in bytes. */
  readonly maxBodyBytes: number;
  /** Returns whether the server accepts requests: false once it drains. */
  readonly isReady: () => boolean;
  /** Receives errors whose cause must not be shown to the caller. */
  readonly onError: (error: unknown, requestId: string) => void;
}

export interface AppVariables {
  requestId: string;
  /** Set by the guard of a route that is not public. */
  principal: Principal;
  /** Set by the guard of a route whose path names a tenant. */
  tenant: Tenant;
  actor: Actor;
}
export interface AppEnv {
  Variables: AppVariables;
  Bindings: { incoming?: { socket?: { remoteAddress?: string | undefined } } };
}

export type App = OpenAPIHono<AppEnv>;
