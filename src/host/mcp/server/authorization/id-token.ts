// Verifies the ID tokens of people who sign in to a server's console (OpenID Connect), by the rules and with the fetching of keys that access
// tokens have.
import { jwtVerify } from "jose";
import { isSecureUrl } from "../../../util/address-host.ts";
import {
  ALGORITHMS,
  CLOCK_TOLERANCE_SECONDS,
  type Claims,
  checkIssuedAt,
  InvalidTokenError,
  toInvalidTokenError,
} from "./access-token.ts";
import { createIssuerKeys, KeysUnavailableError } from "./issuer-keys.ts";

export { CLOCK_TOLERANCE_SECONDS } from "./access-token.ts";

/** Accepted values of the `typ` header. They exclude other tokens of the same provider for the same client. */
const TYPES = new Set(["jwt", "application/jwt"]);

export interface IdTokenSource {
  readonly issuer: string;
  /** URL of the provider's keys, from its metadata: https, or http on this machine. */
  readonly jwksUri: string | undefined;
  /** The id of the client that tokens are issued to. */
  readonly clientId: string;
  /** Receives errors that prevented a check, such as keys that cannot be fetched. */
  readonly onError: (error: unknown) => void;
}

/** Verifies an ID token, and returns its claims. Rejects with `InvalidTokenError` or `KeysUnavailableError`. */
export type IdTokenVerifier = (token: string) => Promise<Claims>;

/**
 * Returns a function that verifies the signature, audience, authorized party and times of ID tokens (OpenID Connect Core, section 3.1.3.7). The
 * library that requests a token checks its issuer and nonce.
 * @throws {Error} without a secure URL of the provider's keys
 */
export function createIdTokenVerifier({ issuer, jwksUri, clientId, onError }: IdTokenSource): IdTokenVerifier {
  if (jwksUri === undefined || !isSecureUrl(jwksUri))
    throw new Error(`Expected an https jwks_uri in the metadata of ${issuer}`);
  const keys = createIssuerKeys({ issuer, jwksUri }, onError);
  return async (token) => {
    try {
      const { payload, protectedHeader } = await jwtVerify(token, keys, {
        audience: clientId,
        // Not the algorithms of the provider's metadata: some list "none" and HMACs.
        algorithms: [...ALGORITHMS],
        requiredClaims: ["exp", "iat"],
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
      });
      const { typ = "JWT" } = protectedHeader;
      if (!TYPES.has(typ.toLowerCase())) throw new InvalidTokenError("The token is not an ID token (typ)");
      const { aud, azp, iat } = payload;
      const needsParty = azp !== undefined || (Array.isArray(aud) && aud.length > 1);
      if (needsParty && azp !== clientId) throw new InvalidTokenError("The token was issued to another client (azp)");
      checkIssuedAt(iat, Date.now() / 1_000);
      return payload;
    } catch (error) {
      throw error instanceof KeysUnavailableError ? error : toInvalidTokenError(error);
    }
  };
}
