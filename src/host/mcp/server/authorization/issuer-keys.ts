// Fetches and caches the keys with which an authorization server signs its tokens. The keys are found by the server's metadata and fetched
// again when a token names an unknown key. Cooldowns limit the requests to the server, whatever tokens callers send.
// jose's own fetcher has no limit on size, sends a request for each token while the server is down, and does not keep using old keys.
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import * as z from "zod";
import { isSecureUrl } from "../../../util/address-host.ts";
import { fetchDocument } from "./bounded-document.ts";

/** Age in ms at which keys are fetched again. While fetching fails, they are used until the age of `USABLE_MS`. */
const FRESH_MS = 10 * 60_000;
const USABLE_MS = 60 * 60_000;
/** Shortest time in ms between two fetches for unknown keys: anyone can send tokens that name one. */
const COOLDOWN_MS = 30_000;
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;
const MAX_KEYS = 100;

const KeySetSchema = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(MAX_KEYS) });
const MetadataSchema = z.object({ issuer: z.string(), jwks_uri: z.string() });

/** The issuer's keys are unavailable, so the token could not be checked. */
export class KeysUnavailableError extends Error {
  override name = "KeysUnavailableError";
}

export interface KeySource {
  readonly issuer: string;
  /** URL of the JWK set. Default: the `jwks_uri` of the issuer's metadata. */
  readonly jwksUri?: string | undefined;
  /** The keys themselves. Nothing is fetched then. */
  readonly jwks?: JSONWebKeySet | undefined;
}

type Resolver = ReturnType<typeof createLocalJWKSet>;

export function createIssuerKeys(source: KeySource, onError: (error: unknown) => void): JWTVerifyGetKey {
  if (source.jwks !== undefined) return createLocalJWKSet(source.jwks);
  const keys = new RemoteKeys(source, onError);
  return (header, token) => keys.find(header, token);
}

class RemoteKeys {
  readonly #source: KeySource;
  readonly #onError: (error: unknown) => void;
  #resolver: Resolver | undefined;
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #notBefore = Number.NEGATIVE_INFINITY;
  /** Time of the latest fetch for an unknown key. */
  #searchedAt = Number.NEGATIVE_INFINITY;
  #retryMs = FIRST_RETRY_MS;
  #pending: Promise<void> | undefined;

  constructor(source: KeySource, onError: (error: unknown) => void) {
    this.#source = source;
    this.#onError = onError;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (this.#age() > FRESH_MS) {
      const refreshing = this.#refresh();
      // An authorization server that hangs delays no request whose key is known.
      if (this.#resolver === undefined || this.#age() >= USABLE_MS) await refreshing;
    }
    const resolver = this.#usable();
    try {
      return await resolver(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      // Those who send a token with the new key at the same time wait for one fetch.
      if (this.#pending === undefined) {
        if (performance.now() - this.#searchedAt < COOLDOWN_MS) throw error;
        this.#searchedAt = performance.now();
      }
      await this.#refresh();
      return await this.#usable()(header, token);
    }
  };

  #age = (): number => performance.now() - this.#fetchedAt;

  #usable(): Resolver {
    if (this.#resolver !== undefined && this.#age() < USABLE_MS) return this.#resolver;
    throw new KeysUnavailableError(`The keys of ${this.#source.issuer} are unavailable`);
  }

  /** Fetches the keys. Concurrent callers share one fetch. After a failure, no fetch starts before the retry delay has passed. */
  async #refresh(): Promise<void> {
    if (this.#pending === undefined && performance.now() < this.#notBefore) return;
    this.#pending ??= this.#fetch().finally(() => {
      this.#pending = undefined;
    });
    await this.#pending;
  }

  async #fetch(): Promise<void> {
    try {
      const url = this.#source.jwksUri === undefined ? await discoverKeys(this.#source.issuer) : this.#source.jwksUri;
      const keySet = KeySetSchema.parse(await fetchDocument(new URL(url)));
      this.#resolver = createLocalJWKSet(keySet as JSONWebKeySet);
      this.#fetchedAt = performance.now();
      this.#retryMs = FIRST_RETRY_MS;
    } catch (error) {
      this.#notBefore = performance.now() + this.#retryMs;
      this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
      this.#onError(error);
    }
  }
}

/** Returns the URLs of an issuer's metadata (RFC 8414, section 3.1, and OpenID Connect Discovery, section 4), in MCP's order. */
export function metadataUrls(issuer: string): readonly URL[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, "");
  const urls = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  return [...new Set(urls)].map((url) => new URL(url));
}

async function discoverKeys(issuer: string): Promise<string> {
  const failures: unknown[] = [];
  for (const url of metadataUrls(issuer)) {
    try {
      const metadata = MetadataSchema.parse(await fetchDocument(url));
      // RFC 8414, section 3.3: otherwise one authorization server could impersonate another.
      if (metadata.issuer !== issuer) throw new Error(`Expected the metadata of ${issuer} at ${url.href}`);
      if (!isSecureUrl(metadata.jwks_uri)) throw new Error(`Expected an https jwks_uri at ${url.href}`);
      return metadata.jwks_uri;
    } catch (error) {
      failures.push(error);
    }
  }
  throw new AggregateError(failures, `Fetching the metadata of ${issuer} failed`);
}
