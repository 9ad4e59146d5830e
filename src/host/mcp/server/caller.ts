// Who is behind a request of the MCP server: whose tools are listed and called.

/** What a bearer token said, once it was checked; the token itself goes no further. */
export interface AuthenticatedCaller {
  readonly subject?: string | undefined;
  readonly clientId?: string | undefined;
  readonly issuer?: string | undefined;
  readonly scopes: readonly string[];
  /** In seconds since 1970. */
  readonly expiresAt: number;
  readonly claims: Readonly<Record<string, unknown>>;
}

/** What asks for tokens and checks them: an OAuth 2.1 resource server. */
export interface ResourceServer {
  /** Protected resource metadata (RFC 9728), where a request asks for it. */
  serveMetadata(request: Request): Response | undefined;
  /** Who calls; or what answers a request without a token that is good here. */
  authenticate(request: Request): Promise<AuthenticatedCaller | Response>;
}

/** What is known of a request before its tenant is. */
export interface McpRequest {
  /** Undefined where the server asks for no token. */
  readonly caller: AuthenticatedCaller | undefined;
  readonly request: Request;
}

export interface McpCaller {
  readonly tenantId: string;
  /** Whoever the caller is within the tenant, as text: what one has begun, another may not go on with. */
  readonly principal: string;
}

export const principalOf = (caller: AuthenticatedCaller | undefined): string =>
  caller === undefined ? "" : `${caller.issuer ?? ""}\0${caller.subject ?? ""}\0${caller.clientId ?? ""}`;

/** Whose something is that lasts longer than a request. */
export const ownerOf = ({ tenantId, principal }: McpCaller): string => `${tenantId}\0${principal}`;
