// Adds routes: each has a row in the table of scopes, and guards that run before its input is read. The order of the checks is the order of
// the errors: 401, 404 for another tenant's path, 403, 415, 413, 400, 422.

import { createRoute, type RouteConfig } from "@hono/zod-openapi";
import type { Context } from "hono";
import * as z from "zod";
import { ROUTE_SCOPES, type RouteName } from "../auth/scopes.ts";
import type { App, AppEnv, ServerDependencies } from "./context.ts";
import { IF_MATCH_HEADERS } from "./entity-tag.ts";
import { createGuard } from "./guard.ts";
import { JSON_TYPE, readJson } from "./request-body.ts";
import type { RequestDocumentation, RouteOptions } from "./route-options.ts";
import { ErrorSchema } from "./schemas/common.ts";
import { parseBody } from "./validate.ts";

type Method = "get" | "post" | "put" | "patch" | "delete";

const error = (description: string): RouteConfig["responses"][number] => ({
  content: { [JSON_TYPE]: { schema: ErrorSchema } },
  description,
});

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
  const { params, query, body, isConditional } = options;
  const request = isConditional === true ? { headers: IF_MATCH_HEADERS, ...options.request } : options.request;
  const route = toRouteConfig(dependencies, name, options);
  app.openAPIRegistry.registerPath(request === undefined ? route : withRequest(route, request));
  // What is checked here, the library does not check: the body, and headers that the handler reads by itself.
  const checked = { params: route.request?.params, query: route.request?.query ?? queryOf(name) };
  app.openapi(
    { ...route, request: checked, hide: true } as never,
    (async (c: Context<AppEnv>) => {
      const valid = (target: string): unknown => c.req.valid(target as never);
      const input = {
        params: params === undefined ? undefined : valid("param"),
        query: query === undefined ? undefined : valid("query"),
        body: body === undefined ? undefined : parseBody(body, readJson(c)),
      };
      return await handle(c, input as RouteInput<Params, Query, Body>);
    }) as never,
  );
}

const NoQuerySchema = z.strictObject({});

/**
 * Returns the query of a route that takes none. An unknown name in a query is an error there too: a caller expects an effect of it. Probes,
 * other services and clients of MCP have one URL for all their requests, in which they may have names of their own.
 */
function queryOf(name: RouteName): z.ZodObject | undefined {
  const [, path = ""] = name.split(" ");
  return path.startsWith("/v1/") && !path.endsWith("/mcp") ? NoQuerySchema : undefined;
}

function toRouteConfig(
  dependencies: ServerDependencies,
  name: RouteName,
  options: RouteOptions<z.ZodType, z.ZodType, z.ZodType>,
): RouteConfig {
  const { summary, description, params, query, body, responses, streams, isConditional } = options;
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
      ...(body === undefined ? {} : { 415: error("The body is not application/json in UTF-8") }),
      422: error("A parameter or a field is not valid"),
      ...(isConditional === true ? { 412: error("The resource has changed since the client has read it") } : {}),
      ...(streams === undefined ? {} : { 429: error("The tenant or the key has too many streams open") }),
      ...responses,
    },
  });
}

/** Adds what a handler reads by itself to the documentation of its route. */
function withRequest({ request, ...route }: RouteConfig, { headers, body, format }: RequestDocumentation): RouteConfig {
  const content = body && {
    required: true,
    description: body.description,
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
