// The caller of a request to the MCP server: whose tools are listed and called, and to whom sessions and waiting calls belong.
import { createHash } from "node:crypto";

/** A caller whose token or other credentials were checked; the credentials themselves are not part of it. */
export interface AuthenticatedCaller {
  readonly subject?: string | undefined;
  readonly clientId?: string | undefined;
  readonly issuer?: string | undefined;
  readonly scopes: readonly string[];
  /** In seconds since 1970; `Infinity` if the credentials do not expire. The request is denied after it, and streams that are open then end. */
  readonly expiresAt: number;
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Checks the credentials of requests: an OAuth 2.1 resource server. */
export interface ResourceServer {
  /**
   * Returns the protected resource metadata (RFC 9728) if the request asks for it, else undefined. The response may be of another realm;
   * a value that is neither is answered with 500.
   */
  serveMetadata(request: Request): Response | undefined | Promise<Response | undefined>;
  /**
   * Returns the caller, as a plain object with no other fields than those of {@link AuthenticatedCaller}, or the response that denies the
   * request: one of any realm with a status from 400 to 599. Every other value denies the request too: undefined, null and false with 401,
   * the rest with 500.
   */
  authenticate(request: Request): AuthenticatedCaller | Response | Promise<AuthenticatedCaller | Response>;
}

/** A request before its tenant is known. */
export interface McpRequest {
  /** Undefined if the server has no `auth`. */
  readonly caller: AuthenticatedCaller | undefined;
  readonly request: Request;
}

export interface McpCaller {
  readonly tenantId: string;
  /** Identifies the caller within its tenant: sessions and waiting calls that one caller began are not available to another. */
  readonly principal: string;
}

/** Joins parts so that no two lists of parts have the same text, whatever characters they contain. */
const join = (...parts: readonly (string | undefined)[]): string => JSON.stringify(parts.map((part) => part ?? ""));

/**
 * Returns the principal of a caller: its issuer, subject and client. A caller without subject and client is told apart by its claims.
 * @throws {TypeError} for claims without subject and client that are not JSON
 */
export function principalOf(caller: AuthenticatedCaller | undefined): string {
  if (caller === undefined) return "";
  const { issuer, subject, clientId, claims } = caller;
  if (subject !== undefined || clientId !== undefined) return join(issuer, subject, clientId);
  return join(issuer, createHash("sha256").update(JSON.stringify(claims)).digest("base64url"));
}

/** Returns the key of what belongs to a caller for longer than one request. */
export const ownerOf = ({ tenantId, principal }: McpCaller): string => join(tenantId, principal);
