// Accepts JWTs of the operator's identity provider as well as API keys: a verified token names its tenant and scopes.
import { createResourceServer } from "../../host/mcp/server/index.ts";
import type { ServerConfig } from "../config/server-options.ts";
import type { Principal } from "./principal.ts";
import { PLATFORM_SCOPES, SCOPES, type Scope } from "./scopes.ts";

const TENANT_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;
const MAX_SUBJECT = 128;

export interface TokenVerifier {
  /** Returns who has this token; undefined for one that is not valid. @param header value of the Authorization header */
  verify(header: string): Promise<Principal | undefined>;
}

/** @param onError receives errors that prevented a check, such as keys that cannot be fetched */
export function createTokenVerifier(
  { issuer, audience, jwksUri, tenantClaim, scopePrefix }: NonNullable<ServerConfig["jwt"]>,
  onError: (error: unknown) => void,
): TokenVerifier {
  const server = createResourceServer({
    // Only the metadata of the resource uses it, which this server does not serve.
    resource: "http://127.0.0.1/",
    authorizationServers: [jwksUri === undefined ? issuer : { issuer, jwksUri }],
    ...{ audience, onError },
  });
  return {
    verify: async (header) => {
      const request = new Request("http://127.0.0.1/", { headers: { authorization: header } });
      const caller = await server.authenticate(request);
      if (caller instanceof Response) return undefined;
      const { claims, subject } = caller;
      const tenantId = Object.hasOwn(claims, tenantClaim) ? claims[tenantClaim] : undefined;
      // A token without a tenant is no token of the platform: it is not accepted.
      if (typeof tenantId !== "string" || !TENANT_PATTERN.test(tenantId) || subject === undefined) return undefined;
      if (subject.length > MAX_SUBJECT || !/^[\x21-\x7e]+$/.test(subject)) return undefined;
      const named = caller.scopes.filter((scope) => scope.startsWith(scopePrefix));
      const granted = new Set(named.map((scope) => scope.slice(scopePrefix.length)));
      const scopes = SCOPES.filter((scope: Scope) => granted.has(scope) && !PLATFORM_SCOPES.has(scope));
      return { keyId: `jwt:${subject}`, tenantId, scopes: new Set(scopes), rateLimit: null };
    },
  };
}
