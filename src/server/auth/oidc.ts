// Lets people sign in to the console at the operator's identity provider, by OpenID Connect with PKCE. The package `openid-client` is an
// optional peer dependency.
import type * as OpenIdClient from "openid-client";
import { ToolError } from "../../host/index.ts";
import type { ServerConfig } from "../config/server-options.ts";
import type { MasterKey } from "../secrets/master-key.ts";
import { PLATFORM_SCOPES, SCOPES, type Scope } from "./scopes.ts";

export type OidcConfig = NonNullable<ServerConfig["oidc"]>;

const TENANT_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;
const SUBJECT_PATTERN = /^[\x21-\x7e]{1,128}$/;
export const SIGN_IN_PATH = "/console/sign-in";
export const CALLBACK_PATH: string = `${SIGN_IN_PATH}/callback`;
/** Longest time in ms that a sign-in may take. */
export const SIGN_IN_MS: number = 10 * 60_000;
/** Purpose of the encrypted attempt, which is bound to it: a value encrypted for another purpose is rejected. */
const OWNER = { table: "sign_in", tenantId: "", name: "attempt" } as const;

/** Who has signed in. */
export interface OidcUser {
  readonly subject: string;
  readonly tenantId: string;
  readonly scopes: readonly Scope[];
}

interface Attempt {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** Ms since 1970. */
  readonly until: number;
}

/** A sign-in that begins: where the browser goes, and what it brings back in a cookie. */
export interface SignIn {
  readonly url: string;
  readonly sealed: string;
}

async function importClient(): Promise<typeof OpenIdClient> {
  try {
    return await import("openid-client");
  } catch (cause) {
    const message = "options.oidc needs a package that is not installed: npm install openid-client";
    throw new ToolError("PARAM_INVALID", message, { cause });
  }
}

/** Returns the scopes of this server that a claim names: text with spaces, or a list. Never those of the platform. */
function scopesOf(claim: unknown, prefix: string): readonly Scope[] {
  const names = typeof claim === "string" ? claim.split(" ") : Array.isArray(claim) ? claim : [];
  const own = names.filter((name): name is string => typeof name === "string" && name.startsWith(prefix));
  const granted = new Set(own.map((name) => name.slice(prefix.length)));
  return SCOPES.filter((scope) => granted.has(scope) && !PLATFORM_SCOPES.has(scope));
}

export class OidcSignIn {
  readonly #config: OidcConfig;
  readonly #masterKey: MasterKey;
  readonly #client: typeof OpenIdClient;
  #provider: Promise<OpenIdClient.Configuration> | undefined;

  private constructor(config: OidcConfig, masterKey: MasterKey, client: typeof OpenIdClient) {
    this.#config = config;
    this.#masterKey = masterKey;
    this.#client = client;
  }

  /** @throws {ToolError} PARAM_INVALID if the package is not installed */
  static async create(config: OidcConfig, masterKey: MasterKey): Promise<OidcSignIn> {
    return new OidcSignIn(config, masterKey, await importClient());
  }

  /** Reads the provider's metadata when it is first needed, and again after a failure. */
  #discover(): Promise<OpenIdClient.Configuration> {
    const { issuer, clientId, clientSecret } = this.#config;
    const { discovery, None, ClientSecretBasic, allowInsecureRequests } = this.#client;
    const url = new URL(issuer);
    const authentication = clientSecret === undefined ? None() : ClientSecretBasic(clientSecret);
    // The schema accepts http for this machine only.
    const options = url.protocol === "http:" ? { execute: [allowInsecureRequests] } : {};
    this.#provider ??= discovery(url, clientId, undefined, authentication, options).catch((thrown: unknown) => {
      this.#provider = undefined;
      throw thrown;
    });
    return this.#provider;
  }

  get redirectUri(): string {
    return `${this.#config.publicUrl.replace(/\/+$/, "")}${CALLBACK_PATH}`;
  }

  /** Begins a sign-in. @throws what the provider's metadata cannot be read for */
  async begin(): Promise<SignIn> {
    const client = this.#client;
    const attempt: Attempt = {
      ...{ state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() },
      until: Date.now() + SIGN_IN_MS,
    };
    const url = client.buildAuthorizationUrl(await this.#discover(), {
      ...{ redirect_uri: this.redirectUri, scope: this.#config.request, state: attempt.state, nonce: attempt.nonce },
      code_challenge: await client.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: "S256",
    });
    return { url: url.href, sealed: this.#masterKey.seal(JSON.stringify(attempt), OWNER).toString("base64url") };
  }

  /**
   * Ends a sign-in.
   * @param query of the URL that the provider has sent the browser to
   * @param sealed what the browser has kept since `begin`
   * @returns undefined for a user without a valid tenant
   * @throws if the answer does not belong to the attempt, or the provider rejects it
   */
  async end(query: string, sealed: string): Promise<OidcUser | undefined> {
    const text = this.#masterKey.open(Buffer.from(sealed, "base64url"), OWNER);
    const { state, nonce, verifier, until } = JSON.parse(text) as Attempt;
    if (until < Date.now()) throw new Error("The sign-in took too long");
    const tokens = await this.#client.authorizationCodeGrant(
      await this.#discover(),
      new URL(`${this.redirectUri}${query}`),
      { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true },
    );
    const claims = tokens.claims();
    if (claims === undefined || !SUBJECT_PATTERN.test(claims.sub)) return undefined;
    const { tenantClaim, scopeClaim, scopePrefix } = this.#config;
    const read = (name: string): unknown => (Object.hasOwn(claims, name) ? claims[name] : undefined);
    const tenantId = read(tenantClaim);
    // A user without a tenant is no operator of the platform.
    if (typeof tenantId !== "string" || !TENANT_PATTERN.test(tenantId)) return undefined;
    return { subject: claims.sub, tenantId, scopes: scopesOf(read(scopeClaim), scopePrefix) };
  }
}
