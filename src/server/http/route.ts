// Adds routes: each has a row in the table of scopes, and guards that run before its input is read. The order of the checks is the order of
// the errors: 401, 404 for another tenant's path, 403, 415, 413, 400, 422.

import type { IncomingMessage } from "node:http";
import { createRoute, type RouteConfig } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import type { z } from "zod";
import { CONSOLE_HEADER } from "../auth/console-session.ts";
import type { Principal } from "../auth/principal.ts";
import { ROUTE_SCOPES, type RouteName } from "../auth/scopes.ts";
import { RATE_MS, rateStatus, toRateLimitHeaders } from "../quotas/quota-status.ts";
import type { TenantRecord } from "../records/tenants.ts";
import type { KeptBody } from "./body-bytes.ts";
import type { App, AppEnv, ServerDependencies } from "./context.ts";
import { RequestError } from "./problem.ts";
import { ErrorSchema } from "./schemas/common.ts";

type Method = "get" | "post" | "put" | "patch" | "delete";

const JSON_TYPE = "application/json";
const STREAM_TYPES = ["text/event-stream", "application/x-ndjson", "text/csv"] as const;

const tooLarge = (maxBytes: number): RequestError =>
  new RequestError("TOO_LARGE", `Expected a body of at most ${maxBytes} bytes`);

/** Reads a body of limited size. */
export async function readBody(request: Request, maxBytes: number, kept: KeptBody): Promise<Request> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    kept.add(part.byteLength);
    parts.push(part);
  }
  const { method, headers, url, signal } = request;
  const body = Buffer.concat(parts);
  decodeBody([body]);
  return new Request(url, { method, headers, signal, body });
}

const DECODER = new TextDecoder("utf-8", { fatal: true });

/** @throws {RequestError} MALFORMED for bytes that are not UTF-8: with replacement characters, a tool would get another value than was sent */
function decodeBody(parts: readonly Uint8Array[]): string {
  try {
    return DECODER.decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
  } catch {
    throw new RequestError("MALFORMED", "The body is not valid UTF-8");
  }
}

/** Reads the body of a message of Node's HTTP server, up to its limit. Much faster than the body of a web request. */
function readIncoming(incoming: IncomingMessage, maxBytes: number, kept: KeptBody): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly Uint8Array[]>();
  const parts: Uint8Array[] = [];
  let size = 0;
  const onData = (part: Uint8Array): void => {
    size += part.byteLength;
    try {
      if (size > maxBytes) throw tooLarge(maxBytes);
      kept.add(part.byteLength);
      parts.push(part);
    } catch (thrown) {
      settle(thrown as Error);
    }
  };
  const onEnd = (): void => settle();
  const onLost = (): void => settle(new RequestError("MALFORMED", "The body ended too soon"));
  const settle = (error?: Error): void => {
    incoming.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
    if (error === undefined) resolve(parts);
    else {
      // What follows is read and dropped after the response.
      incoming.pause();
      reject(error);
    }
  };
  incoming.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  return promise.then(decodeBody);
}

/** Reads the text of a request's body, up to its limit. */
export async function readText(c: Context<AppEnv>, maxBytes: number, kept: KeptBody): Promise<string> {
  if (Number(c.req.header("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const incoming = c.env?.incoming;
  if (incoming !== undefined) return await readIncoming(incoming, maxBytes, kept);
  return await (await readBody(c.req.raw, maxBytes, kept)).text();
}

/** Reads the text of a request's body for whatever reads it afterwards. */
async function keepText(c: Context<AppEnv>, maxBytes: number, kept: KeptBody): Promise<void> {
  const text = await readText(c, maxBytes, kept);
  // hono keeps promises there, although the type says texts.
  c.req.bodyCache.text = Promise.resolve(text) as never;
}

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
    ...{ retryAfterSeconds, headers },
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

/** Time in ms after which a body has come slowly. */
const SLOW_BODY_MS = 500;

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

/** Checks key, tenant and scope of a request, and the form of its body. */
function createGuard(
  name: RouteName,
  dependencies: ServerDependencies,
  {
    body,
    maxBodyBytes,
    streams,
  }: Pick<RouteOptions<z.ZodType, z.ZodType, z.ZodType>, "body" | "maxBodyBytes" | "streams">,
): MiddlewareHandler<AppEnv> {
  const hasBody = body !== undefined;
  const scope = ROUTE_SCOPES[name];
  return async (c, next) => {
    if (scope !== "public") {
      const principal = await dependencies.authenticator.authenticate(
        c.req.header("authorization"),
        c.req.header("cookie"),
      );
      if (principal === undefined) {
        throw new RequestError("UNAUTHENTICATED", "Expected a valid API key: Authorization: Bearer gbx_…");
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
      const socket = c.env?.incoming?.socket;
      if (socket !== undefined && tenantId !== undefined) dependencies.unread.begin(socket, tenantId);
      if (scope !== "any" && !principal.scopes.has(scope)) {
        throw new RequestError("FORBIDDEN", `This key does not have the scope ${scope}`, { details: { scope } });
      }
    }
    if (hasBody) {
      const type = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
      const coding = c.req.header("content-encoding")?.trim().toLowerCase() ?? "identity";
      if (coding !== "identity") throw new RequestError("UNSUPPORTED_MEDIA_TYPE", "Expected no Content-Encoding");
      if (type !== JSON_TYPE) throw new RequestError("UNSUPPORTED_MEDIA_TYPE", `Expected Content-Type: ${JSON_TYPE}`);
    }
    using kept = new DisposableStack();
    if (hasBody) {
      const owner =
        (c.get("tenant") as TenantRecord | undefined)?.id ?? (c.get("principal") as Principal | undefined)?.keyId;
      const bytes = kept.use(dependencies.bodies.keep(owner ?? ANONYMOUS));
      const startedAt = performance.now();
      await keepText(c, Math.min(maxBodyBytes ?? Number.POSITIVE_INFINITY, dependencies.maxBodyBytes), bytes);
      if (scope !== "public" && performance.now() - startedAt > SLOW_BODY_MS) await checkAgain(c, name, dependencies);
    }
    if (streams?.(c) !== true) return await next();
    const stream = dependencies.streams.open(c.get("principal"), c.get("tenant").id);
    c.set("stream", stream);
    try {
      await next();
      if (isStream(c.res)) {
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

/** Returns whether a response may stay open for long, and is not only a value. */
const isStream = ({ headers }: Response): boolean =>
  STREAM_TYPES.some((type) => headers.get("content-type")?.startsWith(type) === true);

const error = (description: string): RouteConfig["responses"][number] => ({
  content: { [JSON_TYPE]: { schema: ErrorSchema } },
  description,
});

export type ResponseDocumentation = RouteConfig["responses"][number];

/** What the document says about a request whose headers and body the handler reads by itself. Nothing of it is checked before. */
export interface RequestDocumentation {
  readonly headers?: z.ZodObject;
  readonly body?: { readonly schema: z.ZodType; readonly description: string };
  /**
   * How a body that is not valid is answered. `json-rpc`: with an error of JSON-RPC. `signed`: as one without a valid signature, before it is
   * parsed.
   */
  readonly format?: "json-rpc" | "signed";
}

interface RouteOptions<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> {
  readonly summary: string;
  readonly description?: string;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  /** Largest body in bytes, if it is less than the server's. */
  readonly maxBodyBytes?: number;
  readonly request?: RequestDocumentation;
  /** Responses in addition to those that all routes with such a request have, and in place of them. */
  readonly responses: RouteConfig["responses"];
  /**
   * Which requests may get a response that stays open. They are limited in number, and their streams end when their sender is revoked or
   * expires.
   */
  readonly streams?: (c: Context<AppEnv>) => boolean;
}

/** The validated input of a request. */
export interface RouteInput<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> {
  readonly params: z.output<Params>;
  readonly query: z.output<Query>;
  readonly body: z.output<Body>;
}

/** Adds a route of the API. Its responses are not typed by status: a test checks them against the OpenAPI document. */
export function addRoute<
  Params extends z.ZodType = z.ZodNever,
  Query extends z.ZodType = z.ZodNever,
  Body extends z.ZodType = z.ZodNever,
>(
  app: App,
  dependencies: ServerDependencies,
  name: RouteName,
  options: RouteOptions<Params, Query, Body>,
  handle: (c: Context<AppEnv>, input: RouteInput<Params, Query, Body>) => Response | Promise<Response>,
): void {
  const { params, query, body, request } = options;
  const route = toRouteConfig(dependencies, name, options);
  // What the route has in its configuration, the library checks. So the handler's own headers and body are in the document alone.
  if (request !== undefined) app.openAPIRegistry.registerPath(withRequest(route, request));
  app.openapi(
    { ...route, hide: request !== undefined } as never,
    (async (c: Context<AppEnv>) => {
      const valid = (target: string): unknown => c.req.valid(target as never);
      const input = {
        params: params === undefined ? undefined : valid("param"),
        query: query === undefined ? undefined : valid("query"),
        body: body === undefined ? undefined : valid("json"),
      };
      return await handle(c, input as RouteInput<Params, Query, Body>);
    }) as never,
  );
}

function toRouteConfig(
  dependencies: ServerDependencies,
  name: RouteName,
  options: RouteOptions<z.ZodType, z.ZodType, z.ZodType>,
): RouteConfig {
  const { summary, description, params, query, body, responses, streams } = options;
  const [method = "", path = ""] = name.split(" ");
  const scope = ROUTE_SCOPES[name];
  const isPublic = scope === "public";
  const needed = isPublic || scope === "any" ? undefined : `Scope: \`${scope}\`.`;
  return createRoute({
    method: method.toLowerCase() as Method,
    path,
    operationId: operationIdOf(method, path),
    summary,
    description: [description, needed].filter((text) => text !== undefined).join(" "),
    security: isPublic ? [] : [{ key: [] }],
    "x-glovebox-scope": scope,
    request: {
      ...(params === undefined ? {} : { params: params as z.ZodObject }),
      ...(query === undefined ? {} : { query: query as z.ZodObject }),
      ...(body === undefined ? {} : { body: { required: true, content: { [JSON_TYPE]: { schema: body } } } }),
    },
    middleware: createGuard(name, dependencies, options),
    responses: {
      ...(isPublic ? {} : { 401: error("The key is missing or not valid") }),
      ...(isPublic ? {} : { 403: error("The key does not have the scope") }),
      ...(path.includes("{") && !isPublic ? { 404: error("There is no such resource for this key") } : {}),
      ...(body === undefined ? {} : { 400: error("The body is not JSON"), 413: error("The body is too large") }),
      ...(body === undefined ? {} : { 429: error("The requests of the tenant have too many bytes") }),
      ...(body === undefined ? {} : { 415: error("The body is not application/json") }),
      422: error("A parameter or a field is not valid"),
      ...(streams === undefined ? {} : { 429: error("The tenant or the key has too many streams open") }),
      ...responses,
    },
  });
}

/** Adds what a handler reads by itself to the documentation of its route. */
function withRequest({ request, ...route }: RouteConfig, { headers, body, format }: RequestDocumentation): RouteConfig {
  const content = body && {
    ...{ required: true, description: body.description },
    content: { [JSON_TYPE]: { schema: body.schema } },
  };
  return {
    ...route,
    ...(format === undefined ? {} : { "x-glovebox-body": format }),
    request: {
      ...request,
      ...(headers === undefined ? {} : { headers }),
      ...(content === undefined ? {} : { body: content }),
    },
  };
}

/** `GET /v1/tenants/{tenant}/tools` becomes `getTenantsTools`. */
function operationIdOf(method: string, path: string): string {
  const words = path
    .replace(/^\/v1/, "")
    .split("/")
    .filter((part) => part !== "" && !part.startsWith("{"));
  const ends = path.endsWith("}") ? "ById" : "";
  const name = words.map((word) => word.replaceAll(/[^a-z]/g, "").replace(/^./, (first) => first.toUpperCase()));
  return `${method.toLowerCase()}${name.join("")}${ends}`;
}

/** A response with a JSON body. */
export const json = (schema: z.ZodType, description: string): RouteConfig["responses"][number] => ({
  content: { [JSON_TYPE]: { schema } },
  description,
});
