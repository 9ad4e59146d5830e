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
/** Endpoints that a client uses. Others, such as `userinfo_endpoint`, are not requested, and are often at another origin. */
const ENDPOINTS = ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"] as const;
const MAX_SHOWN_LENGTH = 200;

const isText = (value: unknown): value is string => typeof value === "string";

/** Returns whether two issuers are equal, apart from a trailing slash, which the SDK adds to some. */
export const isSameIssuer = (one: string, other: string): boolean => withoutSlash(one) === withoutSlash(other);
const withoutSlash = (issuer: string): string => (issuer.endsWith("/") ? issuer.slice(0, -1) : issuer);

/** Returns the origin of a URL for a message. The rest of the URL is the server's text and is not shown. */
const nameOf = (url: string): string => URL.parse(url)?.origin.slice(0, MAX_SHOWN_LENGTH) ?? "an invalid URL";

/** Returns whether the host of a URL is this machine, without a name lookup. */
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

  /** Returns whether an authorization server is allowed: one of `oauth.issuers`, or by default one at the server's own origin. */
  isIssuer(issuer: unknown): issuer is string {
    if (!isText(issuer)) return false;
    if (this.#issuers !== undefined) return this.#issuers.some((one) => isSameIssuer(one, issuer));
    return URL.parse(issuer)?.origin === this.#server.origin;
  }

  /** Checks the URL of a request. @throws {OAuthDenied} for a URL that is not allowed */
  checkTarget(url: URL): void {
    this.#checkScheme(url, "A request");
    if (url.username !== "" || url.password !== "")
      throw new OAuthDenied("The URL of a request contains a user name or password");
    const origins = [this.#server.origin, ...this.#issuerOrigins, ...this.#endpointOrigins];
    if (!origins.includes(url.origin)) throw this.#deniedUrl("A request", url.href);
  }

  /** @throws {OAuthDenied} for a URL of resource metadata that is not at the server's origin */
  checkResourceMetadataUrl(url: URL): void {
    if (url.origin === this.#server.origin) return;
    const own = nameOf(this.#server.href);
    throw new OAuthDenied(`The resource metadata is at ${nameOf(url.href)}, not at the server's origin, ${own}`);
  }

  /** @throws {OAuthDenied} for a URL of issuer metadata that is not at the origin of an allowed issuer */
  checkIssuerMetadataUrl(url: URL): void {
    if (!this.#issuerOrigins.includes(url.origin)) throw this.#deniedUrl("The authorization server", url.href);
  }

  /**
   * Returns the resource metadata with the allowed authorization servers only.
   * @throws {OAuthDenied} if it lists only servers that are not allowed
   */
  readResourceMetadata(metadata: JsonObject): JsonObject {
    const listed = metadata.authorization_servers;
    if (!Array.isArray(listed) || listed.length === 0) return metadata;
    const allowed = listed.filter((issuer) => this.isIssuer(issuer));
    if (allowed.length === 0) throw this.#deniedUrl("The authorization server", String(listed[0]));
    return { ...metadata, authorization_servers: allowed };
  }

  /** @throws {OAuthDenied} for an issuer that is not allowed, or an endpoint at another origin */
  checkIssuerMetadata(metadata: JsonObject): void {
    const { issuer } = metadata;
    if (!this.isIssuer(issuer)) throw this.#deniedUrl("The authorization server", String(issuer));
    for (const name of ENDPOINTS) {
      const value = metadata[name];
      if (isText(value)) this.checkEndpoint(issuer, value, name);
    }
  }

  /** @throws {OAuthDenied} for an endpoint that is neither at its issuer's origin nor at one of `oauth.endpointOrigins` */
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

  /** Checks the page on which a user signs in. @throws {OAuthDenied} for a page that is not at an allowed authorization server */
  checkPage(url: URL): void {
    this.#checkScheme(url, "authorization_endpoint");
    if (![...this.#issuerOrigins, ...this.#endpointOrigins].includes(url.origin)) {
      throw this.#deniedUrl("The sign-in page", url.href);
    }
  }

  /** Returns the non-public addresses to which a request to this URL may connect. */
  addressesFor(url: URL): AddressList {
    if (LOCALHOST.test(url.hostname)) return LOOPBACK;
    // A literal address in the host's own options: checkTarget() rejects all other origins.
    const own = isIP(hostOf(url)) === 0 ? undefined : parseCidr(hostOf(url));
    return own === undefined ? this.#allowAddresses : [...this.#allowAddresses, own];
  }

  get #issuerOrigins(): readonly string[] {
    const issuers = this.#issuers ?? [this.#server.origin];
    return issuers.map((issuer) => new URL(issuer).origin);
  }

  #checkScheme(url: URL, subject: string): void {
    if (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url))) return;
    throw new OAuthDenied(`${subject} is at ${nameOf(url.href)}: expected https, or http on a loopback address`);
  }

  #deniedUrl(subject: string, url: string): OAuthDenied {
    const hint = this.#issuers === undefined ? "oauth.issuers is not set" : "it is not in oauth.issuers";
    return new OAuthDenied(`${subject} is at ${nameOf(url)}, which the host does not allow (${hint})`);
  }
}
