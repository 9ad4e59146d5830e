// The HTTP application: guards for every request, the routes of the API, and one form of error.
import { OpenAPIHono } from "@hono/zod-openapi";
import { isAddressHost } from "../../host/util/address-host.ts";
import type { Principal } from "../auth/principal.ts";
import { withMetadata } from "../auth/resource-metadata.ts";
import { methodsOf } from "../auth/scopes.ts";
import type { AllowedHosts } from "../config/server-options.ts";
import { createId } from "../ids.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import { addConsolePage } from "./console-page.ts";
import type { App, AppEnv, ServerDependencies } from "./context.ts";
import { handleFailure, SECURITY_HEADERS } from "./error-response.ts";
import { addOidcRoutes } from "./oidc-routes.ts";
import { RequestError } from "./request-error.ts";
import { addApprovalRoutes } from "./routes/approvals.ts";
import { addAuditRoutes } from "./routes/audit.ts";
import { addCallBatchRoute } from "./routes/call-batches.ts";
import { addCallEventRoute } from "./routes/call-events.ts";
import { addCallRecordRoutes } from "./routes/call-records.ts";
import { addCallRoutes } from "./routes/calls.ts";
import { addConsoleSessionRoutes } from "./routes/console-sessions.ts";
import { addFleetRoutes } from "./routes/fleet.ts";
import { addKeyRoutes } from "./routes/keys.ts";
import { addKvRoutes } from "./routes/kv.ts";
import { addOperationRoutes } from "./routes/operation.ts";
import { addOverviewRoutes } from "./routes/overview.ts";
import { addProtocolRoutes } from "./routes/protocols.ts";
import { addRecordingRoutes } from "./routes/recordings.ts";
import { addReleaseRoutes } from "./routes/releases.ts";
import { addRunRoutes } from "./routes/runs.ts";
import { addScheduleRoutes } from "./routes/schedules.ts";
import { addSecretRoutes } from "./routes/secrets.ts";
import { addTenantRoutes } from "./routes/tenants.ts";
import { addToolRoutes } from "./routes/tools.ts";
import { addTriggerRoutes } from "./routes/triggers.ts";
import { addUsageRoutes } from "./routes/usage.ts";
import { addVersionRoutes } from "./routes/versions.ts";
import { addWebhookRoutes } from "./routes/webhooks.ts";
import { toInvalid } from "./validate.ts";

const MAX_URL_LENGTH = 4_096;
/** Time in seconds for which clients keep the metadata of the resource. */
const METADATA_SECONDS = 3_600;

const nameOf = (host: string): string => host.replace(/:\d+$/, "").toLowerCase();

/** Returns whether a Host header names this server. */
export const isOwnHost = (host: string | undefined, { names, addresses }: AllowedHosts): boolean =>
  (host !== undefined && names.some((allowed) => allowed === host.toLowerCase() || allowed === nameOf(host))) ||
  (addresses && isAddressHost(host));

/** Checks that a request names this server, so that a page in a browser cannot reach it through another name (DNS rebinding). */
function checkHost(host: string | undefined, allowed: AllowedHosts): void {
  if (isOwnHost(host, allowed)) return;
  const remedy = "Allow other names with --allow-host NAME or GLOVEBOX_ALLOW_HOSTS";
  throw new RequestError("FORBIDDEN", `The Host header does not name this server. ${remedy}`);
}

/** Checks that no page of another origin sends the request. */
function checkOrigin(origin: string | undefined, host: string | undefined): void {
  if (origin === undefined) return;
  const from = URL.canParse(origin) ? new URL(origin).host : undefined;
  if (from !== undefined && from === host?.toLowerCase()) return;
  throw new RequestError("FORBIDDEN", "Requests of other origins are not allowed");
}

/** Creates the application. It keeps no state of its own. */
export function createApp(dependencies: ServerDependencies): App {
  const app: App = new OpenAPIHono<AppEnv>({
    strict: true,
    defaultHook: (result) => {
      if (result.success) return;
      throw toInvalid(result.target, result.error);
    },
  });
  addRequestLog(app, dependencies);
  addRequestChecks(app, dependencies);
  addRoutes(app, dependencies);
  addErrorResponses(app, dependencies);
  app.openAPIRegistry.registerComponent("securitySchemes", "key", {
    type: "http",
    scheme: "bearer",
    description: "An API key: gbx_…",
  });
  return app;
}

/** Gives each request an id, and reports it when its response begins. */
function addRequestLog(app: App, { metrics, requestLog }: ServerDependencies): void {
  app.use(async (c, next) => {
    const started = performance.now();
    const requestId = createId("request");
    c.set("requestId", requestId);
    c.header("x-request-id", requestId);
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) c.header(name, value);
    // Errors of what follows are responses here.
    await next();
    const ms = performance.now() - started;
    const route = routeOf(c.req.routePath);
    metrics.requestEnded(`${c.req.method} ${route}`, c.res.status, ms);
    const principal = c.get("principal") as Principal | undefined;
    const tenant = (c.get("tenant") as TenantRecord | undefined)?.id ?? principal?.tenantId ?? undefined;
    requestLog.ended({
      requestId,
      method: c.req.method,
      route,
      status: c.res.status,
      ms,
      keyId: principal?.keyId,
      tenant,
      ip: c.env?.incoming?.socket?.remoteAddress,
    });
  });
}

/** Rejects requests that are not meant for this server, before anything else reads them. */
function addRequestChecks(app: App, { allowedHosts }: ServerDependencies): void {
  app.use(async (c, next) => {
    if (c.req.url.length > MAX_URL_LENGTH)
      throw new RequestError("URL_TOO_LONG", `Expected a URL of at most ${MAX_URL_LENGTH} characters`);
    checkHost(c.req.header("host"), allowedHosts);
    checkOrigin(c.req.header("origin"), c.req.header("host"));
    await next();
  });
}

function addRoutes(app: App, dependencies: ServerDependencies): void {
  const { metadata } = dependencies;
  addOperationRoutes(app, dependencies);
  addConsoleSessionRoutes(app, dependencies);
  addOidcRoutes(app, dependencies);
  app.get("/.well-known/*", async (c, next) => {
    if (metadata?.isAt(c.req.path) !== true) return await next();
    c.header("cache-control", `max-age=${METADATA_SECONDS}`);
    return c.json(metadata.body, 200);
  });
  addConsolePage(app, dependencies.console, dependencies.embedOrigins);
  addOverviewRoutes(app, dependencies);
  addFleetRoutes(app, dependencies);
  addTenantRoutes(app, dependencies);
  addKeyRoutes(app, dependencies);
  addToolRoutes(app, dependencies);
  addVersionRoutes(app, dependencies);
  addReleaseRoutes(app, dependencies);
  addCallRoutes(app, dependencies);
  addCallBatchRoute(app, dependencies);
  addCallRecordRoutes(app, dependencies);
  addCallEventRoute(app, dependencies);
  addRecordingRoutes(app, dependencies);
  addRunRoutes(app, dependencies);
  addApprovalRoutes(app, dependencies);
  addProtocolRoutes(app, dependencies);
  addSecretRoutes(app, dependencies);
  addScheduleRoutes(app, dependencies);
  addWebhookRoutes(app, dependencies);
  addTriggerRoutes(app, dependencies);
  addKvRoutes(app, dependencies);
  addUsageRoutes(app, dependencies);
  addAuditRoutes(app, dependencies);
}

/** Adds the responses to unknown paths and to exceptions of what was added before. */
function addErrorResponses(app: App, { metadata, onError }: ServerDependencies): void {
  app.notFound((c) => {
    const methods = methodsOf(c.req.path);
    if (methods.length > 0)
      throw new RequestError("METHOD_NOT_ALLOWED", `This path takes ${methods.join(" and ")}, not ${c.req.method}`, {
        headers: { allow: methods.join(", ") },
      });
    throw new RequestError("NOT_FOUND", "There is no such path. The reference is at /reference");
  });
  app.onError((thrown, c) => {
    const requestId = c.get("requestId") ?? createId("request");
    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    const { status, body, headers } = handleFailure(thrown, requestId, { isRead, onError });
    const challenge = headers["www-authenticate"];
    for (const [name, value] of Object.entries({
      ...SECURITY_HEADERS,
      ...c.get("rateHeaders"),
      ...headers,
      ...(challenge === undefined || metadata === undefined
        ? {}
        : { "www-authenticate": withMetadata(challenge, metadata) }),
      "x-request-id": requestId,
    }))
      c.header(name, value);
    return c.json(body, status as 400);
  });
}

/** Returns the path template of a route; the same text for all paths that have no route. */
const routeOf = (path: string): string => (path === "*" || path === "/*" ? "unknown" : path);
