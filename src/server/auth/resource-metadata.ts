// Describes for MCP clients which authorization server issues the tokens that the server accepts: OAuth 2.0 Protected
// Resource Metadata (RFC 9728), which the authorization specification of MCP requires. A server that accepts API keys
// only has no authorization server to name, and no metadata.
import { isSecureUrl } from "../../host/util/address-host.ts";
import type { ServerConfig } from "../config/server-options.ts";
import { ROUTE_SCOPES } from "./scopes.ts";

const WELL_KNOWN = "/.well-known/oauth-protected-resource";
/** Path of the metadata of an MCP endpoint, at which clients without a challenge look. */
const MCP_METADATA_PATH = /^\/\.well-known\/oauth-protected-resource\/v1\/tenants\/[^/]+\/(?:code-mode\/)?mcp$/;

export interface ResourceMetadata {
  /** URL of the metadata. */
  readonly url: string;
  /** Returns whether clients look for the metadata at a path. */
  readonly isAt: (path: string) => boolean;
  readonly body: object;
  /** Returns the name that a scope of this server has in tokens. */
  readonly nameOfScope: (scope: string) => string;
}

/**
 * Returns the metadata of a server that accepts tokens for its own URL; undefined for every other server: a client could not obtain a token with
 * an audience that is no URL, and would rightly reject a resource at another host.
 * @param isOwnHost whether the server accepts a Host header
 */
export function toResourceMetadata(
  jwt: ServerConfig["jwt"],
  isOwnHost: (host: string) => boolean,
): ResourceMetadata | undefined {
  if (jwt === undefined || !isSecureUrl(jwt.audience)) return undefined;
  const { audience, issuer, scopePrefix } = jwt;
  const { host, origin, pathname, search, hash, username, password } = new URL(audience);
  if (`${search}${hash}${username}${password}` !== "" || !isOwnHost(host)) return undefined;
  const path = pathname === "/" ? "" : pathname;
  const nameOfScope = (scope: string): string => `${scopePrefix}${scope}`;
  return {
    url: `${origin}${WELL_KNOWN}${path}`,
    isAt: (at) => at === WELL_KNOWN || at === `${WELL_KNOWN}${path}` || MCP_METADATA_PATH.test(at),
    nameOfScope,
    body: {
      // As the operator has written it, since it is the audience that tokens need.
      resource: audience,
      authorization_servers: [issuer],
      bearer_methods_supported: ["header"],
      // The fewest scopes with which MCP works. The challenge to a request names the scope that it needs.
      scopes_supported: [nameOfScope(ROUTE_SCOPES["POST /v1/tenants/{tenant}/mcp"])],
    },
  };
}

/** Adds the parameter that names the metadata to a challenge. */
export const withMetadata = (challenge: string, metadata: ResourceMetadata): string =>
  `${challenge}, resource_metadata="${metadata.url}"`;
