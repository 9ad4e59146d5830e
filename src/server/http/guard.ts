// Guards a route: authentication, rate limit, tenant and scopes, before and after the body is read.
import type { Context, MiddlewareHandler } from "hono";
import type { z } from "zod";
import { describeNonJson } from "../../host/util/json-media-type.ts";
import { CONSOLE_HEADER } from "../auth/console-session.ts";
import type { Principal } from "../auth/principal.ts";
import { ROUTE_SCOPES, type RouteName } from "../auth/scopes.ts";
import { isOutage } from "../database/database-errors.ts";
import { RATE_MS, rateStatus, toRateLimitHeaders } from "../quotas/quota-status.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import type { AppEnv, ServerDependencies } from "./context.ts";
import { CHALLENGE, toUnavailable } from "./error-response.ts";
import { keepBody } from "./request-body.ts";
import { RequestError } from "./request-error.ts";
import { isStreamedResponse, type RouteOptions } from "./route-options.ts";

/** Time in ms after which a body has come slowly. */
const SLOW_BODY_MS = 500;
/** Owner of bodies of requests without a key. No tenant has this id. */
const ANONYMOUS = "/anonymous";

/** Counts a request of a key with a rate limit, and adds the headers that say what is left. */
export async function checkRate(
  c: Context<AppEnv>,
  { keyId, rateLimit }: Principal,
  { quotas }: ServerDependencies,
): Promise<void> {
  if (rateLimit === null) return;
  const { calls, per, burst = calls } = rateLimit;
  const refillMs = RATE_MS[per] / calls;
  const outcome = await quotas.consume([
    { kind: "rate", tenantId: keyId, name: "requests", capacity: burst, refillMs },
  ]);
  const fullAt = (await quotas.read(keyId)).get("requests");
  // A response can list the tenant's limits too, so the name is another one.
  const status = { ...rateStatus(rateLimit, fullAt, quotas.now()), name: "key" };
  c.set("keyRate", status);
  const headers = toRateLimitHeaders([status]);
  for (const [name, value] of Object.entries(headers)) c.header(name, value);
  if (outcome.allowed) return;
  const retryAfterSeconds = Math.ceil(outcome.retryAfterMs / 1_000);
  throw new RequestError("RATE_LIMITED", `This key may send ${calls} requests per ${per}, ${burst} at once`, {
    retryAfterSeconds,
    headers,
  });
}

/** Returns the tenant of a request's path. @throws {RequestError} NOT_FOUND, also if the tenant is another one than that of the sender */
async function tenantOf(
  name: RouteName,
  authenticator: ServerDependencies["authenticator"],
  principal: Principal,
  tenantId: string,
): Promise<TenantRecord> {
  const isDeletion = name === "DELETE /v1/tenants/{tenant}";
  const tenant = await authenticator.access(principal, tenantId, { isDeletion });
  if (typeof tenant === "string") throw new RequestError("NOT_FOUND", "There is no such tenant");
  return tenant;
}

/**
 * Checks the sender and the tenant of a request again whose body has come slowly: a key that was revoked meanwhile could otherwise create another
 * one, and a tenant could be changed that is being deleted.
 */
async function checkAgain(c: Context<AppEnv>, name: RouteName, { authenticator }: ServerDependencies): Promise<void> {
  const principal = await authenticator.authenticate(c.req.header("authorization"), c.req.header("cookie"));
  if (principal === undefined)
    throw new RequestError("UNAUTHENTICATED", "The key, token or session has ended while the body was sent");
  c.set("principal", principal);
  const tenantId = c.req.param("tenant");
  if (tenantId === undefined) return;
  c.set("tenant", await tenantOf(name, authenticator, principal, tenantId));
}

/** Returns the header that says what is wrong with a token, or what it lacks (RFC 6750, section 3). */
const challenge = (fields: { readonly [name: string]: string }): { readonly [name: string]: string } => ({
  "www-authenticate": [CHALLENGE, ...Object.entries(fields).map(([name, value]) => `${name}="${value}"`)].join(", "),
});

/** Waits for a check before a request has had an effect, so that a client may repeat it if the database is lost meanwhile. */
async function beforeEffects(
  check: Promise<void>,
  c: Context<AppEnv>,
  { onError }: Pick<ServerDependencies, "onError">,
): Promise<void> {
  try {
    await check;
  } catch (thrown) {
    if (!isOutage(thrown)) throw thrown;
    const requestId = c.get("requestId");
    onError(thrown, requestId);
    throw toUnavailable(requestId);
  }
}

/** Checks who sends a request, its rate limit, and its right to the tenant and the scope of the route. A public route admits everyone. */
async function admitSender(c: Context<AppEnv>, name: RouteName, dependencies: ServerDependencies): Promise<void> {
  const scope = ROUTE_SCOPES[name];
  if (scope === "public") return;
  const principal = await dependencies.authenticator.authenticate(
    c.req.header("authorization"),
    c.req.header("cookie"),
  );
  if (principal === undefined) {
    const isInvalid = c.req.header("authorization") !== undefined;
    const { metadata } = dependencies;
    throw new RequestError("UNAUTHENTICATED", "Expected a valid API key: Authorization: Bearer gbx_…", {
      headers: challenge({
        ...(isInvalid ? { error: "invalid_token" } : {}),
        // A client that obtains a token requests no more than it needs.
        ...(metadata === undefined || scope === "any" ? {} : { scope: metadata.nameOfScope(scope) }),
      }),
    });
  }
  const isChange = c.req.method !== "GET" && c.req.method !== "HEAD";
  if (principal.sessionId !== undefined && isChange && c.req.header(CONSOLE_HEADER) === undefined) {
    throw new RequestError("FORBIDDEN", `A request with the console's cookie needs the header ${CONSOLE_HEADER}`);
  }
  c.set("principal", principal);
  await checkRate(c, principal, dependencies);
  const ip = c.env?.incoming?.socket?.remoteAddress ?? null;
  c.set("actor", { name: `key:${principal.keyId}`, ip, requestId: c.get("requestId") });
  const tenantId = c.req.param("tenant");
  if (tenantId !== undefined) {
    c.set("tenant", await tenantOf(name, dependencies.authenticator, principal, tenantId));
  } else if (principal.tenantId !== null && scope !== "any") {
    throw new RequestError("FORBIDDEN", "This key belongs to a tenant. Use the paths of its tenant");
  }
  const outgoing = c.env?.outgoing;
  if (outgoing !== undefined && tenantId !== undefined) dependencies.unread.begin(outgoing, tenantId);
  if (scope !== "any" && !principal.scopes.has(scope)) {
    const named = principal.keyId.startsWith("jwt:") ? (dependencies.metadata?.nameOfScope(scope) ?? scope) : scope;
    throw new RequestError("FORBIDDEN", `This key does not have the scope ${scope}`, {
      details: { scope },
      headers: challenge({ error: "insufficient_scope", scope: named }),
    });
  }
}

/** @throws {RequestError} UNSUPPORTED_MEDIA_TYPE for a body that is not JSON in UTF-8, or that is compressed */
function checkBodyType(c: Context<AppEnv>): void {
  const problem = describeNonJson(c.req.header("content-type"));
  const coding = c.req.header("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (coding !== "identity") throw new RequestError("UNSUPPORTED_MEDIA_TYPE", "Expected no Content-Encoding");
  if (problem !== undefined) throw new RequestError("UNSUPPORTED_MEDIA_TYPE", problem);
}

/** Checks key, tenant and scope of a request, and the form of its body. */
export function createGuard(
  name: RouteName,
  dependencies: ServerDependencies,
  {
    body,
    maxBodyBytes,
    streams,
    isConditional = false,
  }: Pick<RouteOptions<z.ZodType, z.ZodType, z.ZodType>, "body" | "maxBodyBytes" | "streams" | "isConditional">,
): MiddlewareHandler<AppEnv> {
  const hasBody = body !== undefined;
  const scope = ROUTE_SCOPES[name];
  const rejectsCondition = !isConditional && /^(?:POST|PUT|PATCH|DELETE) \/v1\/(?!.*\/mcp$)/.test(name);
  return async (c, next) => {
    await beforeEffects(admitSender(c, name, dependencies), c, dependencies);
    if (rejectsCondition && c.req.header("if-match") !== undefined)
      throw new RequestError("INVALID", "If-Match: This route has no entity tags, so the condition cannot be checked");
    if (hasBody) checkBodyType(c);
    using kept = new DisposableStack();
    if (hasBody) {
      const owner =
        (c.get("tenant") as TenantRecord | undefined)?.id ?? (c.get("principal") as Principal | undefined)?.keyId;
      const bytes = kept.use(dependencies.bodies.keep(owner ?? ANONYMOUS));
      const startedAt = performance.now();
      await keepBody(c, Math.min(maxBodyBytes ?? Number.POSITIVE_INFINITY, dependencies.maxBodyBytes), bytes);
      if (scope !== "public" && performance.now() - startedAt > SLOW_BODY_MS)
        await beforeEffects(checkAgain(c, name, dependencies), c, dependencies);
    }
    if (streams?.(c) !== true) return await next();
    const stream = dependencies.streams.open(c.get("principal"), c.get("tenant").id);
    c.set("stream", stream);
    try {
      await next();
      if (isStreamedResponse(c.res)) {
        // Its call has the input until the stream ends.
        const body = kept.move();
        if (stream.signal.aborted) body.dispose();
        else stream.signal.addEventListener("abort", () => body.dispose(), { once: true });
        c.res = stream.bind(c.res);
      } else stream.end();
    } catch (thrown) {
      stream.end();
      throw thrown;
    }
    return;
  };
}
