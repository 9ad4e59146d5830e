// Parses and matches allow rules of the egress policy: `host[:port]`, `*.host`, or an origin. Hosts of rules and of requests are parsed by
// the same WHATWG URL parser, so that both have the same form.
import { isIP } from "node:net";

export interface EgressRule {
  /** The rule as the host wrote it. */
  readonly text: string;
  /** In the form of `URL.protocol`, such as `https:`; undefined if the rule allows http and https. */
  readonly scheme: string | undefined;
  /** In the form of `URL.hostname`: lower case, converted by IDNA, an IPv6 address in brackets. */
  readonly host: string;
  /** True for `*.host`, which matches subdomains but not the host itself. */
  readonly isWildcard: boolean;
  readonly port: number | undefined;
}

const DEFAULT_PORTS: { readonly [scheme: string]: number } = { "http:": 80, "https:": 443 };

/** Methods that the fetch standard converts to upper case. */
const NORMALIZED = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"]);

/** Returns the method as fetch sends it. Other methods are case-sensitive and stay as they are. */
export const normalizeMethod = (method: string): string =>
  NORMALIZED.has(method.toUpperCase()) ? method.toUpperCase() : method;

/** Returns the port of an http or https URL. */
export const portOf = (url: URL): number => (url.port === "" ? (DEFAULT_PORTS[url.protocol] ?? 0) : Number(url.port));

/** Returns a URL's host as a name or address, without the brackets of IPv6. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "");

const RULE = /^(?:(https?):\/\/)?(\*\.)?(\[[0-9a-f:.]+\]|[^\s[\]:/?#@\\*%]+)(?::(\d{1,5}))?\/?$/i;

/** Parses a rule; returns undefined for invalid text. */
export function parseEgressRule(text: string): EgressRule | undefined {
  const [, scheme, wildcard, name = "", digits] = RULE.exec(text) ?? [];
  const base = name === "" ? null : URL.parse(`http://${name}`);
  if (base === null || base.hostname === "" || base.hostname.endsWith(".")) return undefined;
  const isWildcard = wildcard !== undefined;
  if (isWildcard && isIP(hostOf(base)) !== 0) return undefined;
  const port = digits === undefined ? undefined : Number(digits);
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined;
  const protocol = scheme === undefined ? undefined : `${scheme.toLowerCase()}:`;
  const own = protocol === undefined ? undefined : DEFAULT_PORTS[protocol];
  return { text, scheme: protocol, host: base.hostname, isWildcard, port: port ?? own };
}

/** Tells whether the rule matches the URL's host and, if the rule has them, its scheme and port. */
export function matchesRule(rule: EgressRule, url: URL): boolean {
  if (rule.scheme !== undefined && rule.scheme !== url.protocol) return false;
  if (rule.port !== undefined && rule.port !== portOf(url)) return false;
  return rule.isWildcard ? isBelow(url, rule.host) : url.hostname === rule.host;
}

/** An IP address has no subdomains. */
const isBelow = (url: URL, host: string): boolean => isIP(hostOf(url)) === 0 && url.hostname.endsWith(`.${host}`);
