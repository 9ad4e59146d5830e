// What an access token says, once it is known to be good: signed by an authorization server that this one trusts, meant for this server,
// not over, and bound to nobody's key. Its claims are still its issuer's word about somebody.
import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from "jose";
import { KeysUnavailableError } from "./issuer-keys.ts";

/** Public keys only: with an HMAC whoever can check a token could make one, and a public key would pass for the secret. */
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
export type Algorithm = (typeof ALGORITHMS)[number];

/** What a token may call itself (RFC 9068): an ID token's or a logout token's kind is not it. */
const TYPES = new Set(["jwt", "at+jwt", "application/at+jwt", "application/jwt"]);
/** Two correct clocks may differ by this much. */
export const CLOCK_TOLERANCE_SECONDS = 5;
const MAX_SCOPES = 1_000;

export type Claims = Readonly<Record<string, unknown>>;

/** Answered with 401; the message is for whoever sent it. */
export class TokenRefusedError extends Error {
  override name = "TokenRefusedError";
}

export interface TokenRules {
  readonly issuers: ReadonlyMap<string, JWTVerifyGetKey>;
  readonly audiences: readonly string[];
  readonly algorithms: readonly Algorithm[];
}

/** @throws {TokenRefusedError | KeysUnavailableError} */
export async function verifyJwt(token: string, rules: TokenRules): Promise<Claims> {
  // Unverified: it only chooses whose keys are asked, of those that the host has named.
  const issuer = issuerOf(token);
  const keys = issuer === undefined ? undefined : rules.issuers.get(issuer);
  if (issuer === undefined || keys === undefined)
    throw new TokenRefusedError("It is not of an issuer that is trusted here");
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      issuer,
      audience: [...rules.audiences],
      algorithms: [...rules.algorithms],
      requiredClaims: ["exp"],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
    });
    const { typ = "JWT" } = protectedHeader;
    if (!TYPES.has(typ.toLowerCase())) throw new TokenRefusedError("It is not an access token");
    return payload;
  } catch (error) {
    throw error instanceof KeysUnavailableError ? error : toRefusal(error);
  }
}

function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

function toRefusal(error: unknown): TokenRefusedError {
  if (error instanceof TokenRefusedError) return error;
  const refuse = (message: string): TokenRefusedError => new TokenRefusedError(message, { cause: error });
  if (error instanceof errors.JWTExpired) return refuse("It has expired");
  if (error instanceof errors.JWTClaimValidationFailed) return refuse(problemOf(error.claim));
  if (error instanceof errors.JOSEAlgNotAllowed) return refuse("It is signed by an algorithm that is not taken here");
  if (error instanceof errors.JWKSMultipleMatchingKeys) return refuse("It does not name its key (kid)");
  return refuse("Its signature cannot be verified");
}

function problemOf(claim: string): string {
  if (claim === "aud") return "It is not meant for this server";
  if (claim === "nbf") return "It is not valid yet";
  return claim === "exp" ? "It does not say when it expires" : "One of its claims is wrong";
}

/**
 * The same of claims that an authorization server has answered with (RFC 7662).
 * @throws {TokenRefusedError}
 */
export function checkIntrospection(claims: Claims, rules: TokenRules): void {
  const now = Date.now() / 1_000;
  const { active, iss, aud, exp, nbf } = claims;
  if (active === false) throw new TokenRefusedError("It is not active");
  if (iss !== undefined && !(typeof iss === "string" && rules.issuers.has(iss))) {
    throw new TokenRefusedError("It is not of an issuer that is trusted here");
  }
  const audiences = Array.isArray(aud) ? aud : [aud];
  if (!audiences.some((audience) => rules.audiences.includes(audience as string))) {
    throw new TokenRefusedError(problemOf("aud"));
  }
  if (typeof exp !== "number") throw new TokenRefusedError(problemOf("exp"));
  // An expiry that is none (NaN) is over.
  if (!(exp > now - CLOCK_TOLERANCE_SECONDS)) throw new TokenRefusedError("It has expired");
  if (nbf !== undefined && !(typeof nbf === "number" && nbf <= now + CLOCK_TOLERANCE_SECONDS)) {
    throw new TokenRefusedError(problemOf("nbf"));
  }
}

/** RFC 6749's characters of a scope. */
export const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/** `scope` (RFC 9068), or `scp` as some servers call it, as text or list. */
export function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const stated = scope ?? scp ?? [];
  const scopes = typeof stated === "string" ? stated.split(" ") : Array.isArray(stated) ? stated : [];
  return scopes.filter((text): text is string => typeof text === "string" && SCOPE.test(text)).slice(0, MAX_SCOPES);
}
