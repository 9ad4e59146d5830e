// Allow rules of the egress: `host[:port]`, `*.host`, a full origin. What a URL's host is, WHATWG's parser says, here as there.
import { isIP } from "node:net";

export interface EgressRule {
  /** As it was stated. */
  readonly text: string;
  /** As a URL has it: `https:`; undefined for either. */
  readonly scheme: string | undefined;
  /** As a URL has it: lower case, IDNA done, an IPv6 address in brackets. */
  readonly host: string;
  /** `*.host`: names below the host, and not the host. */
  readonly isWildcard: boolean;
  readonly port: number | undefined;
}

const DEFAULT_PORTS: { readonly [scheme: string]: number } = { "http:": 80, "https:": 443 };

/** Methods that fetch writes in capitals, whatever the tool wrote. */
const NORMALIZED = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"]);

/** Returns the method as fetch sends it; other methods are sensitive to case. */
export const normalizeMethod = (method: string): string =>
  NORMALIZED.has(method.toUpperCase()) ? method.toUpperCase() : method;

/** The port of an http or https URL. */
export const portOf = (url: URL): number => (url.port === "" ? (DEFAULT_PORTS[url.protocol] ?? 0) : Number(url.port));

/** A URL's host as a name or address, without the brackets of IPv6. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "");

const RULE = /^(?:(https?):\/\/)?(\*\.)?(\[[0-9a-f:.]+\]|[^\s[\]:/?#@\\*%]+)(?::(\d{1,5}))?\/?$/i;

/** Undefined for a text that is no rule. */
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

/** Whether the rule names the URL's host and, where it states them, its scheme and port. */
export function matchesRule(rule: EgressRule, url: URL): boolean {
  if (rule.scheme !== undefined && rule.scheme !== url.protocol) return false;
  if (rule.port !== undefined && rule.port !== portOf(url)) return false;
  return rule.isWildcard ? isBelow(url, rule.host) : url.hostname === rule.host;
}

/** Addresses have no names below them. */
const isBelow = (url: URL, host: string): boolean => isIP(hostOf(url)) === 0 && url.hostname.endsWith(`.${host}`);
