// Verifies access tokens of the MCP server's callers: JWTs by signature, issuer, audience and expiry, and introspected claims by the same
// rules. The resource server in `auth.ts` calls it.
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { KeysUnavailableError } from "./issuer-keys.ts";

/**
 * Signature algorithms that {@link createResourceServer} can accept. All of them use public keys: an HMAC would let every verifier forge
 * tokens, and an attacker could pass off a public key as the HMAC's secret.
 */
export const ALGORITHMS = [
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
  "PS256",
  "PS384",
  "PS512",
  "RS256",
  "RS384",
  "RS512",
] as const;
/** A signature algorithm of an access token: one of {@link ALGORITHMS}. */
export type Algorithm = (typeof ALGORITHMS)[number];

/** Accepted values of the `typ` header (RFC 9068). They exclude the types of other tokens, such as logout tokens. */
const TYPES = new Set(["jwt", "at+jwt", "application/at+jwt", "application/jwt"]);
/** Two correct clocks may differ by this much. */
export const CLOCK_TOLERANCE_SECONDS = 5;
/** A token may be issued this far in the future. Tokens are used at once, so that a clock that is slow would reject all new ones. */
const ISSUED_TOLERANCE_SECONDS = 60;
const MAX_SCOPES = 1_000;

const UNTRUSTED_ISSUER = "The token's issuer is not trusted by this server (iss)";
const EXPIRED = "The token has expired";

export type Claims = Readonly<Record<string, unknown>>;

/** The token is invalid. The request is answered with 401 and this message. */
export class InvalidTokenError extends Error {
  override name = "InvalidTokenError";
}

export interface TokenRules {
  readonly issuers: ReadonlyMap<string, JWTVerifyGetKey>;
  readonly audiences: readonly string[];
  readonly algorithms: readonly Algorithm[];
}

/** @throws {InvalidTokenError | KeysUnavailableError} */
export async function verifyJwt(token: string, rules: TokenRules): Promise<Claims> {
  // The issuer is not verified yet. It only selects the keys, among those of the issuers that the host configured.
  const issuer = issuerOf(token);
  const keys = issuer === undefined ? undefined : rules.issuers.get(issuer);
  if (issuer === undefined || keys === undefined) throw new InvalidTokenError(UNTRUSTED_ISSUER);
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      issuer,
      audience: [...rules.audiences],
      algorithms: [...rules.algorithms],
      requiredClaims: ["exp"],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
    });
    const { typ = "JWT" } = protectedHeader;
    if (!TYPES.has(typ.toLowerCase())) throw new InvalidTokenError("The token is not an access token (typ)");
    checkIssuedAt(payload.iat, Date.now() / 1_000);
    return payload;
  } catch (error) {
    throw error instanceof KeysUnavailableError ? error : toInvalidTokenError(error);
  }
}

/** @throws {InvalidTokenError} for a time that is not a number, or is in the future */
export function checkIssuedAt(iat: unknown, now: number): void {
  if (iat === undefined || (typeof iat === "number" && iat <= now + ISSUED_TOLERANCE_SECONDS)) return;
  throw new InvalidTokenError("The token was issued in the future (iat)");
}

function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

export function toInvalidTokenError(error: unknown): InvalidTokenError {
  if (error instanceof InvalidTokenError) return error;
  const create = (message: string): InvalidTokenError => new InvalidTokenError(message, { cause: error });
  if (error instanceof errors.JWTExpired) return create(EXPIRED);
  if (error instanceof errors.JWTClaimValidationFailed) return create(messageOf(error.claim));
  if (error instanceof errors.JOSEAlgNotAllowed) return create("The token's signature algorithm is not allowed (alg)");
  if (error instanceof errors.JWKSMultipleMatchingKeys) return create("The token does not name its key (kid)");
  return create("The token's signature cannot be verified");
}

/** Returns the message for an invalid claim. */
function messageOf(claim: string): string {
  if (claim === "aud") return "The token was not issued for this server (aud)";
  if (claim === "nbf") return "The token is not valid yet (nbf)";
  return claim === "exp" ? "The token has no expiration time (exp)" : "The token has an invalid claim";
}

/**
 * Checks the claims that an authorization server returned for an opaque token (RFC 7662).
 * @throws {InvalidTokenError}
 */
export function checkIntrospection(claims: Claims, rules: TokenRules): void {
  const now = Date.now() / 1_000;
  const { active, iss, aud, exp, nbf, iat } = claims;
  if (active === false) throw new InvalidTokenError("The token is not active");
  if (iss !== undefined && !(typeof iss === "string" && rules.issuers.has(iss))) {
    throw new InvalidTokenError(UNTRUSTED_ISSUER);
  }
  const audiences = Array.isArray(aud) ? aud : [aud];
  if (!audiences.some((audience) => rules.audiences.includes(audience as string))) {
    throw new InvalidTokenError(messageOf("aud"));
  }
  if (typeof exp !== "number") throw new InvalidTokenError(messageOf("exp"));
  // The negated comparison rejects NaN too.
  if (!(exp > now - CLOCK_TOLERANCE_SECONDS)) throw new InvalidTokenError(EXPIRED);
  if (nbf !== undefined && !(typeof nbf === "number" && nbf <= now + CLOCK_TOLERANCE_SECONDS)) {
    throw new InvalidTokenError(messageOf("nbf"));
  }
  checkIssuedAt(iat, now);
}

/** The characters that a scope may contain (RFC 6749, section 3.3). */
export const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/** Returns the scopes of a token. The claim is `scope` (RFC 9068), or `scp` with some servers, and its value a string or a list. */
export function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const claim = scope ?? scp ?? [];
  const scopes = typeof claim === "string" ? claim.split(" ") : Array.isArray(claim) ? claim : [];
  return scopes.filter((text): text is string => typeof text === "string" && SCOPE.test(text)).slice(0, MAX_SCOPES);
}
