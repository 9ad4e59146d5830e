// Accepts JWTs of the operator's identity provider as well as API keys: a verified token names its tenant and scopes.
import * as z from "zod";
import type { ServerConfig } from "../config/server-options.ts";
import { RequestError } from "../http/request-error.ts";
import { TENANT_ID_PATTERN } from "../records/tenants/tenants.ts";
import type { Principal } from "./principal.ts";
import { PLATFORM_SCOPES, SCOPES, type Scope } from "./scopes.ts";

const MAX_SUBJECT = 128;

export interface TokenVerifier {
  /**
   * Returns who has this token.
   * @param header value of the Authorization header
   * @throws {RequestError} UNAUTHENTICATED with the reason; UNAVAILABLE, as long as the issuer's keys cannot be fetched and none are known
   */
  verify(header: string): Promise<Principal>;
}

/** Why the library rejects a token (RFC 6750, section 3). */
const DenialSchema = z.object({ error: z.string(), error_description: z.string() });

function invalid(why: string): RequestError {
  // The name of the operator's claim can contain what no header can.
  const description = why.replaceAll(/[^\x20-\x7e]|["\\]/g, "");
  const challenge = `Bearer realm="glovebox", error="invalid_token", error_description="${description}"`;
  return new RequestError("UNAUTHENTICATED", why, { headers: { "www-authenticate": challenge } });
}

async function toError(denial: Response): Promise<RequestError> {
  const { error_description: why } = DenialSchema.parse(await denial.json());
  if (denial.status !== 503) return invalid(why);
  return new RequestError("UNAVAILABLE", why, { retryAfterSeconds: Number(denial.headers.get("retry-after")) });
}

/** Returns the audiences to accept. For a bare origin, clients and issuers write the trailing slash or leave it out. */
function audiencesOf(audience: string): string[] {
  if (!URL.canParse(audience)) return [audience];
  const { origin } = new URL(audience);
  return audience === origin || audience === `${origin}/` ? [origin, `${origin}/`] : [audience];
}

/** @param onError receives errors that prevented a check, such as keys that cannot be fetched */
export async function createTokenVerifier(
  { issuer, audience, jwksUri, tenantClaim, scopePrefix }: NonNullable<ServerConfig["jwt"]>,
  onError: (error: unknown) => void,
): Promise<TokenVerifier> {
  // Loaded here, because most servers have no identity provider, and its libraries take a part of each start.
  const { createResourceServer } = await import("../../host/mcp/server/index.ts");
  const server = createResourceServer({
    // Only the metadata of the resource uses it, which the routes of this server have.
    resource: "http://127.0.0.1/",
    authorizationServers: [jwksUri === undefined ? issuer : { issuer, jwksUri }],
    audience: audiencesOf(audience),
    onError,
  });
  return {
    verify: async (header) => {
      const request = new Request("http://127.0.0.1/", { headers: { authorization: header } });
      const caller = await server.authenticate(request);
      if (caller instanceof Response) throw await toError(caller);
      const { claims, subject } = caller;
      const tenantId = Object.hasOwn(claims, tenantClaim) ? claims[tenantClaim] : undefined;
      // A token without a tenant is not a token of the platform: it is rejected.
      if (typeof tenantId !== "string" || !TENANT_ID_PATTERN.test(tenantId))
        throw invalid(`The token does not name a tenant (${tenantClaim})`);
      if (subject === undefined || subject.length > MAX_SUBJECT || !/^[\x21-\x7e]+$/.test(subject))
        throw invalid("The token does not name its user (sub)");
      const named = caller.scopes.filter((scope) => scope.startsWith(scopePrefix));
      const granted = new Set(named.map((scope) => scope.slice(scopePrefix.length)));
      const scopes = SCOPES.filter((scope: Scope) => granted.has(scope) && !PLATFORM_SCOPES.has(scope));
      const expiresAt = caller.expiresAt * 1_000;
      return { keyId: `jwt:${subject}`, tenantId, scopes: new Set(scopes), rateLimit: null, expiresAt };
    },
  };
}
