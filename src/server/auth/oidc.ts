// Lets people sign in to the console at the operator's identity provider, by OpenID Connect with PKCE. The package `openid-client` is an
// optional peer dependency.
import { setTimeout as pause } from "node:timers/promises";
import type * as OpenIdClient from "openid-client";
import { ToolError } from "../../host/index.ts";
import type { IdTokenVerifier } from "../../host/mcp/server/authorization/id-token.ts";
import type { ServerConfig } from "../config/server-options.ts";
import type { WallClock } from "../database/database-clock.ts";
import { TENANT_ID_PATTERN } from "../records/tenants/tenants.ts";
import type { MasterKey } from "../secrets/master-key.ts";
import { hashOfToken } from "./console-session.ts";
import { PLATFORM_SCOPES, SCOPES, type Scope } from "./scopes.ts";

export type OidcConfig = NonNullable<ServerConfig["oidc"]>;

const SUBJECT_PATTERN = /^[\x21-\x7e]{1,128}$/;
export const SIGN_IN_PATH = "/console/sign-in";
export const CALLBACK_PATH: string = `${SIGN_IN_PATH}/callback`;
/** Longest time in ms that a sign-in may take. */
export const SIGN_IN_MS: number = 10 * 60_000;
/** Time in ms after which the provider's metadata is read again, and the one after a failure. */
const METADATA_MS = 5 * 60_000;
const RETRY_MS = 30_000;
/** Longest time in ms that a sign-in waits for metadata that is read again. */
const REREAD_WAIT_MS = 2_000;
/** Purpose of the encrypted attempt, which is bound to it: a value encrypted for another purpose is rejected. */
const OWNER = { table: "sign_in", tenantId: "", name: "attempt" } as const;

/** Who has signed in. */
export interface OidcUser {
  readonly subject: string;
  readonly tenantId: string;
  readonly scopes: readonly Scope[];
  /** Hash of the attempt's state. An attempt opens one session at most. */
  readonly attemptHash: string;
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

export interface OidcDependencies {
  readonly masterKey: MasterKey;
  /** The clock that all replicas share. */
  readonly clock: WallClock;
  /** Receives errors that prevented a check, such as keys that cannot be fetched. */
  readonly onError: (error: unknown) => void;
}

/** What is known of the provider. */
interface Provider {
  readonly configuration: OpenIdClient.Configuration;
  readonly verify: IdTokenVerifier;
}

/** The libraries, which are loaded only where a provider is configured. */
interface Libraries {
  readonly client: typeof OpenIdClient;
  readonly idTokens: typeof import("../../host/mcp/server/authorization/id-token.ts");
}

async function importLibraries(): Promise<Libraries> {
  const [client, idTokens] = await Promise.all([
    importClient(),
    import("../../host/mcp/server/authorization/id-token.ts"),
  ]);
  return { client, idTokens };
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
  readonly #dependencies: OidcDependencies;
  readonly #libraries: Libraries;
  #provider: Provider | undefined;
  /** When the metadata is read again, by performance.now(). */
  #until = 0;
  #reading: Promise<Provider> | undefined;

  private constructor(config: OidcConfig, dependencies: OidcDependencies, libraries: Libraries) {
    this.#config = config;
    this.#dependencies = dependencies;
    this.#libraries = libraries;
  }

  /** @throws {ToolError} PARAM_INVALID if the package is not installed */
  static async create(config: OidcConfig, dependencies: OidcDependencies): Promise<OidcSignIn> {
    return new OidcSignIn(config, dependencies, await importLibraries());
  }

  /**
   * Returns the provider. Its metadata is read when it is first needed, and again from time to time, because providers move their endpoints.
   * While that fails, or takes longer than a moment, the one before is used.
   */
  async #discover(): Promise<Provider> {
    const known = this.#provider;
    if (known !== undefined && performance.now() < this.#until) return known;
    this.#reading ??= this.#read(known).finally(() => {
      this.#reading = undefined;
    });
    if (known === undefined) return await this.#reading;
    return await Promise.race([this.#reading, pause(REREAD_WAIT_MS, known, { ref: false })]);
  }

  /** Reads the metadata. A failure rejects only if there is none before. */
  async #read(known: Provider | undefined): Promise<Provider> {
    try {
      this.#provider = await this.#readMetadata(known);
      this.#until = performance.now() + METADATA_MS;
      return this.#provider;
    } catch (thrown) {
      if (known === undefined) throw thrown;
      this.#dependencies.onError(thrown);
      this.#until = performance.now() + RETRY_MS;
      return known;
    }
  }

  async #readMetadata(before: Provider | undefined): Promise<Provider> {
    const { issuer, clientId, clientSecret } = this.#config;
    const { client, idTokens } = this.#libraries;
    const url = new URL(issuer);
    const authentication = clientSecret === undefined ? client.None() : client.ClientSecretBasic(clientSecret);
    const configuration = await client.discovery(
      url,
      clientId,
      { [client.clockTolerance]: idTokens.CLOCK_TOLERANCE_SECONDS },
      authentication,
      // The schema accepts http for this machine only.
      url.protocol === "http:" ? { execute: [client.allowInsecureRequests] } : {},
    );
    const { jwks_uri: jwksUri } = configuration.serverMetadata();
    const { onError } = this.#dependencies;
    // The keys of a URL that has not changed stay known, and so does when they were fetched.
    const isSame = before !== undefined && before.configuration.serverMetadata().jwks_uri === jwksUri;
    const verify = isSame ? before.verify : idTokens.createIdTokenVerifier({ issuer, jwksUri, clientId, onError });
    return { configuration, verify };
  }

  get redirectUri(): string {
    return `${this.#config.publicUrl.replace(/\/+$/, "")}${CALLBACK_PATH}`;
  }

  /** Begins a sign-in. @throws what the provider's metadata cannot be read for */
  async begin(): Promise<SignIn> {
    const { client } = this.#libraries;
    const { masterKey, clock } = this.#dependencies;
    const attempt: Attempt = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
      until: clock.now() + SIGN_IN_MS,
    };
    const { configuration } = await this.#discover();
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: this.redirectUri,
      scope: this.#config.scopes,
      state: attempt.state,
      nonce: attempt.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(attempt.verifier),
      code_challenge_method: "S256",
    });
    return { url: url.href, sealed: masterKey.seal(JSON.stringify(attempt), OWNER).toString("base64url") };
  }

  /**
   * Ends a sign-in.
   * @param query of the URL that the provider has sent the browser to
   * @param sealed what the browser has kept since `begin`
   * @returns undefined for a user without a valid tenant
   * @throws if the answer does not belong to the attempt, the provider rejects it, or its ID token is invalid
   */
  async end(query: string, sealed: string): Promise<OidcUser | undefined> {
    const text = this.#dependencies.masterKey.open(Buffer.from(sealed, "base64url"), OWNER);
    const { state, nonce, verifier, until } = JSON.parse(text) as Attempt;
    if (until < this.#dependencies.clock.now()) throw new Error("The sign-in took too long");
    const { configuration, verify } = await this.#discover();
    const { id_token: idToken } = await this.#libraries.client.authorizationCodeGrant(
      configuration,
      new URL(`${this.redirectUri}${query}`),
      { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true },
    );
    if (idToken === undefined) return undefined;
    // The library checks the issuer and the nonce. It does not verify the signature: OpenID Connect allows that for a token that comes from the
    // provider over TLS. Here, a provider's key protects users also where a proxy or a tampered name resolution answers for the provider.
    const user = this.#toUser(await verify(idToken));
    return user && { ...user, attemptHash: hashOfToken(state) };
  }

  #toUser(claims: Readonly<Record<string, unknown>>): Omit<OidcUser, "attemptHash"> | undefined {
    const { tenantClaim, scopeClaim, scopePrefix } = this.#config;
    const read = (name: string): unknown => (Object.hasOwn(claims, name) ? claims[name] : undefined);
    const [subject, tenantId] = [read("sub"), read(tenantClaim)];
    if (typeof subject !== "string" || !SUBJECT_PATTERN.test(subject)) return undefined;
    // A user without a tenant is not an operator of the platform.
    if (typeof tenantId !== "string" || !TENANT_ID_PATTERN.test(tenantId)) return undefined;
    return { subject, tenantId, scopes: scopesOf(read(scopeClaim), scopePrefix) };
  }
}
