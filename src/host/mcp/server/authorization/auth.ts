// Implements an OAuth 2.1 resource server (MCP, "Authorization"): verifies the access token of a request, its audience and its scopes.
// Tokens are not passed on to tools.
import type { JSONWebKeySet } from "jose";
import * as z from "zod";
import { describeKind, isPlainObject, strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../../config/option-errors.ts";
import { isSecureUrl } from "../../../util/address-host.ts";
import { notifySafely, runCallback } from "../../../util/host-callback.ts";
import {
  ALGORITHMS,
  type Algorithm,
  type Claims,
  checkIntrospection,
  InvalidTokenError,
  SCOPE,
  scopesOf,
  type TokenRules,
  verifyJwt,
} from "./access-token.ts";
import type { AuthenticatedCaller, ResourceServer } from "./caller.ts";
import { createIssuerKeys, KeysUnavailableError } from "./issuer-keys.ts";

/** An OAuth 2.1 resource server: validates access tokens, and serves the metadata that clients need to get one. */
export interface OAuthResourceServer extends ResourceServer {
  /** URL of this server's protected resource metadata (RFC 9728). Every `WWW-Authenticate` challenge names it. */
  readonly metadataUrl: string;
  /** Returns the metadata if the request is for `metadataUrl`, otherwise undefined. */
  serveMetadata(request: Request): Response | undefined;
  /** Returns the caller, or the response that denies the request. */
  authenticate(request: Request): Promise<AuthenticatedCaller | Response>;
  /** Returns the response to a request for which the token lacks scopes: 403, with the scopes that are required. */
  insufficientScope(scopes: readonly string[]): Response;
}

/** Options of {@link createResourceServer}. */
export interface ResourceServerOptions {
  /** This server's own URL as clients know it, for which tokens are issued (RFC 8707), such as `https://api.example.com/mcp`. */
  readonly resource: string;
  /**
   * Authorization servers whose tokens are accepted, at least one. The keys of a server that is given by its issuer only are found by its
   * metadata.
   */
  readonly authorizationServers: readonly (
    | string
    | {
        readonly issuer: string;
        /** URL of the server's JWK set. Default: the `jwks_uri` of its metadata. */
        readonly jwksUri?: string | undefined;
        /** The keys themselves. Nothing is fetched then. */
        readonly jwks?: JSONWebKeySet | undefined;
      }
  )[];
  /** Accepted values of the `aud` claim, for an authorization server that cannot issue tokens for `resource`. Default: `resource`. */
  readonly audience?: string | readonly string[] | undefined;
  /**
   * Scopes that every request requires.
   * @default []
   */
  readonly requiredScopes?: readonly string[] | undefined;
  /** Scopes that the metadata lists. Default: `requiredScopes`. */
  readonly scopesSupported?: readonly string[] | undefined;
  /** Accepted signature algorithms. Default: all of {@link ALGORITHMS}. */
  readonly algorithms?: readonly Algorithm[] | undefined;
  /**
   * Verifies opaque tokens instead of JWTs, usually by introspection (RFC 7662). Returns the claims that the authorization server reports, a
   * plain object with `aud` and `exp`, or undefined for a token that is not valid. If it throws, rejects, returns anything else, or takes
   * more than 5 s, the request is answered with 503.
   */
  readonly verify?:
    | ((token: string, options: { readonly signal: AbortSignal }) => Promise<Claims | undefined> | Claims | undefined)
    | undefined;
  /** Name of this server that the metadata shows to people. */
  readonly resourceName?: string | undefined;
  /** URL of documentation for developers, for the metadata. */
  readonly resourceDocumentation?: string | undefined;
  /** Receives errors that prevented the check of a token, such as unavailable keys or a failed `verify`. Its own errors are ignored. */
  readonly onError?: ((error: unknown) => unknown) | undefined;
}

const MAX_TOKEN_LENGTH = 16 * 1024;
const VERIFY_MS = 5_000;
const RETRY_SECONDS = 5;
const METADATA_SECONDS = 3_600;
const WELL_KNOWN = "/.well-known/oauth-protected-resource";

const isUrl = (text: string): boolean => isSecureUrl(text) && new URL(text).hash === "";
// A format, whose error does not count as one about the type: an error about an issuer does not mention that it could be an object.
const UrlSchema = z.stringFormat("secure_url", isUrl, {
  error: ({ code }) =>
    code === "invalid_format" ? "Expected an https URL without a fragment, or http on this machine" : undefined,
});
const ScopeSchema = z.string().regex(SCOPE, 'Expected a scope: ASCII without spaces, " and \\');
const KeySetSchema = z.custom<JSONWebKeySet>(
  (value) => Array.isArray((value as JSONWebKeySet | null)?.keys),
  "Expected a JWK set: { keys: [...] }",
);
const FunctionSchema = z.custom<NonNullable<ResourceServerOptions["verify"]>>(
  (value) => typeof value === "function",
  "Expected a function",
);
const OptionsSchema = strictObject({
  resource: UrlSchema,
  authorizationServers: z
    .array(
      z.union([
        UrlSchema.transform((issuer) => ({ issuer })),
        strictObject({ issuer: UrlSchema, jwksUri: UrlSchema.optional(), jwks: KeySetSchema.optional() }),
      ]),
    )
    .min(1),
  audience: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).optional(),
  requiredScopes: z.array(ScopeSchema).default([]),
  scopesSupported: z.array(ScopeSchema).optional(),
  algorithms: z
    .array(z.enum(ALGORITHMS))
    .min(1)
    .default([...ALGORITHMS]),
  verify: FunctionSchema.optional(),
  resourceName: z.string().optional(),
  resourceDocumentation: UrlSchema.optional(),
  onError: z
    .custom<(error: unknown) => unknown>((value) => typeof value === "function", "Expected a function")
    .optional(),
});

type Options = z.infer<typeof OptionsSchema>;

/** Inserts the well-known path between host and path (RFC 9728, section 3.1). */
function metadataUrlOf(resource: string): URL {
  const { origin, pathname, search } = new URL(resource);
  return new URL(`${origin}${WELL_KNOWN}${pathname === "/" ? "" : pathname}${search}`);
}

/** Returns the audiences to accept for a resource. For a bare origin, issuers write the trailing slash or leave it out. */
function audiencesOf(resource: string): readonly string[] {
  const { origin, href } = new URL(resource);
  return href === `${origin}/` ? [origin, href] : [resource];
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const quote = (text: string): string => `"${text.replaceAll(/["\\]/g, "\\$&")}"`;

/**
 * Creates an OAuth 2.1 resource server that verifies access tokens, for the option `auth` of {@link createMcpHandler}.
 * @throws {ToolError} PARAM_INVALID for an unknown or invalid option
 * @example
 * ```ts
 * import { createResourceServer } from "glovebox/mcp";
 *
 * const resource = "https://tools.example.com/mcp";
 * const auth = createResourceServer({ resource, authorizationServers: ["https://login.example.com"] });
 * const response = await auth.authenticate(new Request(resource, { method: "POST" }));
 * console.log(response instanceof Response && response.status); // 401
 * ```
 */
export function createResourceServer(options: ResourceServerOptions): OAuthResourceServer {
  return new JwtResourceServer(parseOptions(OptionsSchema, options, "options"));
}

class JwtResourceServer implements OAuthResourceServer {
  readonly #options: Options;
  readonly #rules: TokenRules;
  readonly #metadataUrl: URL;

  constructor(options: Options) {
    const { authorizationServers, audience, resource, algorithms } = options;
    const onError = (error: unknown): void => this.#notifyError(error);
    this.#options = options;
    this.#metadataUrl = metadataUrlOf(resource);
    this.#rules = {
      issuers: new Map(authorizationServers.map((server) => [server.issuer, createIssuerKeys(server, onError)])),
      audiences: audience === undefined ? audiencesOf(resource) : [audience].flat(),
      algorithms,
    };
  }

  get metadataUrl(): string {
    return this.#metadataUrl.href;
  }

  serveMetadata(request: Request): Response | undefined {
    const { pathname, search } = new URL(request.url);
    if (pathname !== this.#metadataUrl.pathname || search !== this.#metadataUrl.search) return undefined;
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response(null, { status: 405, headers: { Allow: "GET, HEAD" } });
    }
    const { resource, authorizationServers, requiredScopes, scopesSupported, ...shown } = this.#options;
    const scopes = scopesSupported ?? requiredScopes;
    const body = {
      resource,
      authorization_servers: authorizationServers.map(({ issuer }) => issuer),
      bearer_methods_supported: ["header"],
      ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
      ...(shown.resourceName === undefined ? {} : { resource_name: shown.resourceName }),
      ...(shown.resourceDocumentation === undefined ? {} : { resource_documentation: shown.resourceDocumentation }),
    };
    return Response.json(body, { headers: { "Cache-Control": `max-age=${METADATA_SECONDS}` } });
  }

  /**
   * Returns the caller, or the response that denies the request: 400 for a malformed header, 401 for a missing or invalid token, 403 for
   * missing scopes, and 503 if the token cannot be checked at present. Never rejects.
   */
  async authenticate(request: Request): Promise<AuthenticatedCaller | Response> {
    const header = request.headers.get("authorization");
    // RFC 6750, section 3.1: the challenge to a request without a bearer token has no error code.
    if (header === null || !/^Bearer\b/i.test(header)) return this.#challenge(401);
    const token = /^Bearer +([\w.~+/-]+=*) *$/i.exec(header)?.[1];
    if (token === undefined || token.length > MAX_TOKEN_LENGTH) {
      const description = `Expected one bearer token of at most ${MAX_TOKEN_LENGTH} characters`;
      return this.#challenge(400, "invalid_request", description);
    }
    try {
      return this.#toCaller(await this.#claimsOf(token));
    } catch (error) {
      if (error instanceof InvalidTokenError) return this.#challenge(401, "invalid_token", error.message);
      if (!(error instanceof KeysUnavailableError)) this.#notifyError(error);
      return this.#unavailable();
    }
  }

  insufficientScope(scopes: readonly string[]): Response {
    return this.#challenge(403, "insufficient_scope", "The token lacks a required scope", scopes);
  }

  async #claimsOf(token: string): Promise<Claims> {
    const { verify } = this.#options;
    const claims = verify === undefined ? await verifyJwt(token, this.#rules) : await this.#introspect(token, verify);
    // This server does not check proof of possession (RFC 8705, RFC 9449): a stolen token would work here although it is bound to a key.
    if (claims.cnf !== undefined) {
      throw new InvalidTokenError("The token is bound to a key (cnf), which this server does not support");
    }
    return claims;
  }

  async #introspect(token: string, verify: NonNullable<Options["verify"]>): Promise<Claims> {
    const abort = new AbortController();
    const outcome = await runCallback(() => verify(token, { signal: abort.signal }), { timeoutMs: VERIFY_MS });
    if ("failed" in outcome) {
      const error = outcome.failed === "threw" ? outcome.cause : new Error(`verify() timed out after ${VERIFY_MS} ms`);
      abort.abort(error);
      throw error;
    }
    const { answer } = outcome;
    if (answer === undefined || answer === null || answer === false)
      throw new InvalidTokenError("The token is not active");
    if (!isPlainObject(answer)) {
      throw new TypeError(
        `verify() must return the claims as a plain object, or undefined, got ${describeKind(answer)}`,
      );
    }
    const claims = { ...answer };
    checkIntrospection(claims, this.#rules);
    return claims;
  }

  #toCaller(claims: Claims): AuthenticatedCaller | Response {
    const { requiredScopes } = this.#options;
    const scopes = scopesOf(claims);
    if (requiredScopes.some((scope) => !scopes.includes(scope))) return this.insufficientScope(requiredScopes);
    const { sub, iss, client_id: clientId = claims.azp, exp } = claims;
    return {
      subject: textOf(sub),
      clientId: textOf(clientId),
      issuer: textOf(iss),
      scopes,
      expiresAt: Number(exp),
      claims,
    };
  }

  #challenge(
    status: 400 | 401 | 403,
    error?: string,
    description?: string,
    scopes: readonly string[] = this.#options.requiredScopes,
  ): Response {
    const parameters = [
      ...(error === undefined ? [] : [`error=${quote(error)}`]),
      ...(description === undefined ? [] : [`error_description=${quote(description)}`]),
      ...(scopes.length === 0 ? [] : [`scope=${quote(scopes.join(" "))}`]),
      `resource_metadata=${quote(this.metadataUrl)}`,
    ];
    const headers = { "WWW-Authenticate": `Bearer ${parameters.join(", ")}`, "Cache-Control": "no-store" };
    const body = { error: error ?? "unauthorized", error_description: description ?? "Expected a bearer token" };
    return Response.json(body, { status, headers });
  }

  #unavailable(): Response {
    const body = { error: "temporarily_unavailable", error_description: "The token cannot be checked at present" };
    return Response.json(body, { status: 503, headers: { "Retry-After": String(RETRY_SECONDS) } });
  }

  #notifyError(error: unknown): void {
    notifySafely(this.#options.onError, error);
  }
}
