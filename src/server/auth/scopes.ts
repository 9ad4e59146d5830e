// The scopes of keys. Each route of the API needs exactly one scope; the table lists all of them.

export const SCOPES = [
  "tenants:read",
  "tenants:write",
  "keys:read",
  "keys:write",
  "tools:read",
  "tools:deploy",
  "tools:approve",
  "releases:write",
  "calls:read",
  "calls:run",
  "calls:cancel",
  "audit:read",
  "metrics:read",
] as const;
export type Scope = (typeof SCOPES)[number];

/** Scopes that only a key of the platform can have, because what they allow concerns all tenants. */
export const PLATFORM_SCOPES: ReadonlySet<Scope> = new Set(["tenants:write", "metrics:read"]);

/**
 * The scope of every route of the API, by method and path. A route that is missing here cannot be registered. `public` routes need no key and
 * disclose nothing about tenants.
 */
export const ROUTE_SCOPES = {
  "GET /healthz": "public",
  "GET /readyz": "public",
  "GET /openapi.json": "public",
  "GET /reference": "public",
  "GET /metrics": "metrics:read",
  "GET /v1/me": "any",
  "GET /v1/tenants": "tenants:read",
  "POST /v1/tenants": "tenants:write",
  "GET /v1/tenants/{tenant}": "tenants:read",
  "PATCH /v1/tenants/{tenant}": "tenants:write",
  "DELETE /v1/tenants/{tenant}": "tenants:write",
  "GET /v1/keys": "keys:read",
  "POST /v1/keys": "keys:write",
  "DELETE /v1/keys/{key}": "keys:write",
  "GET /v1/tenants/{tenant}/keys": "keys:read",
  "POST /v1/tenants/{tenant}/keys": "keys:write",
  "DELETE /v1/tenants/{tenant}/keys/{key}": "keys:write",
  "GET /v1/tenants/{tenant}/tools": "tools:read",
  "POST /v1/tenants/{tenant}/tools": "tools:deploy",
  "GET /v1/tenants/{tenant}/tools/{tool}": "tools:read",
  "DELETE /v1/tenants/{tenant}/tools/{tool}": "tools:deploy",
  "GET /v1/tenants/{tenant}/tools/{tool}/versions": "tools:read",
  "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}": "tools:read",
  "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/approve": "tools:approve",
  "POST /v1/tenants/{tenant}/tools/{tool}/versions/{version}/deny": "tools:approve",
  "GET /v1/tenants/{tenant}/tools/{tool}/releases": "tools:read",
  "PUT /v1/tenants/{tenant}/tools/{tool}/releases/{alias}": "releases:write",
  "POST /v1/tenants/{tenant}/tools/{tool}/releases/{alias}/rollback": "releases:write",
  "POST /v1/tenants/{tenant}/tools/{tool}/calls": "calls:run",
  "GET /v1/tenants/{tenant}/approvals": "tools:read",
  "GET /v1/tenants/{tenant}/openai/tools": "tools:read",
  "GET /v1/tenants/{tenant}/mcp": "calls:run",
  "POST /v1/tenants/{tenant}/mcp": "calls:run",
  "DELETE /v1/tenants/{tenant}/mcp": "calls:run",
  "GET /v1/tenants/{tenant}/calls": "calls:read",
  "GET /v1/tenants/{tenant}/calls/{call}": "calls:read",
  "POST /v1/tenants/{tenant}/calls/{call}/cancel": "calls:cancel",
  "GET /v1/tenants/{tenant}/audit": "audit:read",
  "GET /v1/audit": "audit:read",
} as const satisfies { readonly [route: string]: Scope | "public" | "any" };
export type RouteName = keyof typeof ROUTE_SCOPES;
