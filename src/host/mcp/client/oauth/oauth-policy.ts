// Decides which authorization servers an upstream server may send the host to. Its metadata is hostile input: without these checks, a 401
// makes the host request any URL in its network, and sends the client's secrets to any server that the metadata names.
import { isIP } from "node:net";
import { type AddressList, parseCidr } from "../../../capabilities/fetch/address-guard.ts";
import { hostOf } from "../../../capabilities/fetch/egress-rules.ts";
import type { JsonObject } from "../reading/json-size.ts";
import type { McpOAuthConfig } from "./oauth-options.ts";

/**
 * The server's authorization leads to a URL that the host does not allow. It is a TypeError because the SDK's discovery ignores any other
 * error and tries the next URL.
 */
export class OAuthDenied extends TypeError {}

const LOCALHOST = /^(?:.+\.)?localhost$/;
const LOOPBACK: AddressList = ["127.0.0.0/8", "::1"].map(parseCidr).filter((cidr) => cidr !== undefined);
/** Endpoints that a client uses. Others, such as `userinfo_endpoint`, receive no request, and are often at another origin. */
const ENDPOINTS = ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"] as const;
const MAX_SHOWN_LENGTH = 200;

const isText = (value: unknown): value is string => typeof value === "string";

/** Tells whether two issuers are the same but for a slash at the end, which the SDK adds to some. */
export const isSameIssuer = (one: string, other: string): boolean => withoutSlash(one) === withoutSlash(other);
const withoutSlash = (issuer: string): string => (issuer.endsWith("/") ? issuer.slice(0, -1) : issuer);

/** Names a URL in a message: its origin only, since the rest is the server's own text. */
const nameOf = (url: string): string => URL.parse(url)?.origin.slice(0, MAX_SHOWN_LENGTH) ?? "a URL that is invalid";

/** Whether the host of a URL is this machine, whatever a name server says. */
const isLoopback = ({ hostname }: URL): boolean =>
  LOCALHOST.test(hostname) || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."));

export class OAuthPolicy {
  readonly #server: URL;
  readonly #issuers: readonly string[] | undefined;
  readonly #endpointOrigins: readonly string[];
  readonly #allowAddresses: AddressList;

  constructor(server: URL, { issuers, endpointOrigins, allowAddresses }: McpOAuthConfig) {
    this.#server = server;
    this.#issuers = issuers;
    this.#endpointOrigins = endpointOrigins;
    this.#allowAddresses = allowAddresses;
  }

  /** Whether an authorization server may be used: one that the host has configured, or else one at the server's own origin. */
  isIssuer(issuer: unknown): issuer is string {
    if (!isText(issuer)) return false;
    if (this.#issuers !== undefined) return this.#issuers.some((one) => isSameIssuer(one, issuer));
    return URL.parse(issuer)?.origin === this.#server.origin;
  }

  /** @throws {OAuthDenied} for a URL that no request may go to */
  checkTarget(url: URL): void {
    this.#checkScheme(url, "A request");
    if (url.username !== "" || url.password !== "") throw new OAuthDenied("A request has a user in its URL");
    const origins = [this.#server.origin, ...this.#issuerOrigins, ...this.#endpointOrigins];
    if (!origins.includes(url.origin)) throw this.#foreign("A request", url.href);
  }

  /** @throws {OAuthDenied} for metadata of the resource from another origin than the server's */
  checkResourceMetadataUrl(url: URL): void {
    if (url.origin !== this.#server.origin) throw this.#foreign("The resource metadata", url.href);
  }

  /** @throws {OAuthDenied} for metadata that are not from where the authorization servers are */
  checkIssuerMetadataUrl(url: URL): void {
    if (!this.#issuerOrigins.includes(url.origin)) throw this.#foreign("The authorization server", url.href);
  }

  /**
   * Returns metadata of the resource with the authorization servers that may be used.
   * @throws {OAuthDenied} when it names others only
   */
  readResourceMetadata(metadata: JsonObject): JsonObject {
    const named = metadata.authorization_servers;
    if (!Array.isArray(named) || named.length === 0) return metadata;
    const allowed = named.filter((issuer) => this.isIssuer(issuer));
    if (allowed.length === 0) throw this.#foreign("The authorization server", String(named[0]));
    return { ...metadata, authorization_servers: allowed };
  }

  /** @throws {OAuthDenied} for an issuer that may not be used, or an endpoint elsewhere */
  checkIssuerMetadata(metadata: JsonObject): void {
    const { issuer } = metadata;
    if (!this.isIssuer(issuer)) throw this.#foreign("The authorization server", String(issuer));
    for (const name of ENDPOINTS) {
      const value = metadata[name];
      if (isText(value)) this.checkEndpoint(issuer, value, name);
    }
  }

  /** @throws {OAuthDenied} for an endpoint that is not of its issuer's origin, nor of one that the host has configured */
  checkEndpoint(issuer: string, endpoint: string, name: string): void {
    const url = URL.parse(endpoint);
    const origins = [URL.parse(issuer)?.origin, ...this.#endpointOrigins];
    if (url === null || !origins.includes(url.origin)) {
      throw new OAuthDenied(
        `${name} is at ${nameOf(endpoint)}, not at its issuer's origin, ${nameOf(issuer)} (see oauth.endpointOrigins)`,
      );
    }
    this.#checkScheme(url, name);
  }

  /** @throws {OAuthDenied} for a page that a person is sent to elsewhere than at an authorization server that may be used */
  checkPage(url: URL): void {
    this.#checkScheme(url, "authorization_endpoint");
    if (![...this.#issuerOrigins, ...this.#endpointOrigins].includes(url.origin)) {
      throw this.#foreign("The page to sign in", url.href);
    }
  }

  /** Addresses that a request to this URL may go to though they are not public. */
  addressesFor(url: URL): AddressList {
    if (LOCALHOST.test(url.hostname)) return LOOPBACK;
    // The host has written this address itself: no other origin passes checkTarget().
    const own = isIP(hostOf(url)) === 0 ? undefined : parseCidr(hostOf(url));
    return own === undefined ? this.#allowAddresses : [...this.#allowAddresses, own];
  }

  get #issuerOrigins(): readonly string[] {
    const issuers = this.#issuers ?? [this.#server.origin];
    return issuers.map((issuer) => new URL(issuer).origin);
  }

  #checkScheme(url: URL, what: string): void {
    if (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url))) return;
    throw new OAuthDenied(`${what} is at ${nameOf(url.href)}: expected https, or http on a loopback address`);
  }

  #foreign(what: string, url: string): OAuthDenied {
    const hint = this.#issuers === undefined ? "oauth.issuers is not set" : "it is not in oauth.issuers";
    return new OAuthDenied(`${what} is at ${nameOf(url)}, which the host does not allow (${hint})`);
  }
}
