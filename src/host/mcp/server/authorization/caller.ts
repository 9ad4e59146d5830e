// Declares the caller of a request to the MCP server. Its tenant determines which tools it can list and call. Sessions and waiting calls
// belong to one caller.
import { createHash } from "node:crypto";

/** A caller whose token or other credentials were checked. The credentials themselves are not part of it. */
export interface AuthenticatedCaller {
  readonly subject?: string | undefined;
  readonly clientId?: string | undefined;
  readonly issuer?: string | undefined;
  readonly scopes: readonly string[];
  /** Expiry in seconds since 1970; `Infinity` if the credentials do not expire. Later requests are denied, and open streams end. */
  readonly expiresAt: number;
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Checks the credentials of requests: an OAuth 2.1 resource server. */
export interface ResourceServer {
  /**
   * Returns the protected resource metadata (RFC 9728) if the request is for it, otherwise undefined. The response may be from another
   * realm. Any other value is answered with 500.
   */
  serveMetadata(request: Request): Response | undefined | Promise<Response | undefined>;
  /**
   * Returns the caller, a plain object with the fields of {@link AuthenticatedCaller} and no others, or the response that denies the
   * request. The response may be from any realm and has a status from 400 to 599. Every other value also denies the request: undefined,
   * null and false with 401, the rest with 500.
   */
  authenticate(request: Request): AuthenticatedCaller | Response | Promise<AuthenticatedCaller | Response>;
}

/** A request before its tenant is known. */
export interface McpRequest {
  /** Undefined if the server has no `auth`. */
  readonly caller: AuthenticatedCaller | undefined;
  readonly request: Request;
}

/** A caller and its tenant. */
export interface McpCaller {
  readonly tenantId: string;
  /** Identifies the caller within its tenant. Sessions and waiting calls of one caller are not available to another. */
  readonly principal: string;
}

/** Joins parts to a string that differs for different lists of parts, whatever characters they contain. */
const join = (...parts: readonly (string | undefined)[]): string => JSON.stringify(parts.map((part) => part ?? ""));

/**
 * Returns the principal of a caller: its issuer, subject and client. A caller without subject and client is identified by its claims.
 * @throws {TypeError} for claims without subject and client that are not JSON
 */
export function principalOf(caller: AuthenticatedCaller | undefined): string {
  if (caller === undefined) return "";
  const { issuer, subject, clientId, claims } = caller;
  if (subject !== undefined || clientId !== undefined) return join(issuer, subject, clientId);
  return join(issuer, createHash("sha256").update(JSON.stringify(claims)).digest("base64url"));
}

/** Returns the key under which a caller's sessions, waiting calls and quotas are stored. */
export const ownerOf = ({ tenantId, principal }: McpCaller): string => join(tenantId, principal);

/** Returns the tenant of a key that {@link ownerOf} has returned. */
export const tenantOfCallerKey = (owner: string): string => (JSON.parse(owner) as readonly [string, string])[0];
