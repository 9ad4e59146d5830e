// Checks the Host and Origin headers of a request before anything else in it is used. A web page can point a host name of its own at a
// server on its visitor's machine (DNS rebinding); the two headers reveal that.
import * as z from "zod";
import { strictObject } from "../../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../../config/option-errors.ts";
import { isAddressHost, LOOPBACK_NAMES } from "../../../util/address-host.ts";
import { reject } from "./rejection.ts";

/** Checks of the headers Host and Origin, which stop DNS rebinding: a web page must not reach a server of the local network. */
export interface GuardOptions {
  /**
   * Accepted values of the Host header: a name, for any port, or `name:port`.
   * @default ["localhost", "127.0.0.1", "[::1]"]
   */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * Also accepts IP addresses and `localhost` as the Host header, and pages of the same address and port. DNS rebinding needs a name.
   * @default false
   */
  readonly allowIpHosts?: boolean | undefined;
  /**
   * Accepted values of the Origin header: a host as above, or a whole origin such as `https://app.example.com` or `chrome-extension://ID`.
   * Requests without the header, such as those of clients other than browsers, are accepted. Default: the hosts in `allowedHosts`.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
}

export interface Guards {
  /** Returns the response to a request that is not allowed (403) or is a CORS preflight (204), otherwise undefined. */
  check(request: Request): Response | undefined;
  /** Adds CORS headers to the response to a request that {@link Guards.check} allowed, so that the page can read it. */
  finish(request: Request, response: Response): Response;
}

/** Time in seconds for which a browser may cache the response to a preflight request. */
const PREFLIGHT_SECONDS = 600;
/** Response headers that pages may read. */
const EXPOSED = "Mcp-Session-Id, WWW-Authenticate, Retry-After";
/** Names of headers (RFC 9110, "token"), separated by commas. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;
const MAX_NAMES_LENGTH = 4_096;

/** Parses a host with an optional port, normalized by the URL parser; undefined for any other text. */
function toHost(text: string): { readonly name: string; readonly port: string } | undefined {
  // The URL parser would also accept `name@host` and `host/path`.
  if (!/^[^\s/\\?#@]+$/.test(text) || !URL.canParse(`http://${text}`)) return undefined;
  const { hostname } = new URL(`http://${text}`);
  return { name: hostname, port: /:(\d+)$/.exec(text)?.[1] ?? "" };
}

/** Parses an origin; undefined for any other text, including `null`, the origin of sandboxed pages. */
function toOrigin(text: string): { readonly text: string; readonly host: string | undefined } | undefined {
  const [, scheme = "", host = ""] = /^([a-z][a-z\d+.-]*):\/\/([^\s/\\?#@]+)$/i.exec(text) ?? [];
  const isWeb = /^https?$/i.test(scheme);
  if (host === "" || !URL.canParse(`${scheme}://${host}`)) return undefined;
  // The URL parser normalizes only hosts of web schemes. The origin of an extension is compared as it is.
  return isWeb ? { text: new URL(text).origin, host } : { text: `${scheme.toLowerCase()}://${host}`, host: undefined };
}

const HostSchema = z.string().refine((text) => toHost(text) !== undefined, {
  error: "Expected a host name, or name:port",
});
const OriginSchema = z.string().refine((text) => toHost(text) !== undefined || toOrigin(text) !== undefined, {
  error: "Expected a host name, name:port, or an origin such as https://app.example.com",
});
/** The options that {@link createGuards} reads. */
export const GUARD_OPTIONS = {
  allowedHosts: z.array(HostSchema).optional(),
  allowIpHosts: z.boolean().optional(),
  allowedOrigins: z.array(OriginSchema).optional(),
};
const GuardOptionsSchema = strictObject(GUARD_OPTIONS);

function toHostCheck(allowed: readonly string[]): (text: string) => boolean {
  const hosts = allowed.flatMap((text) => toHost(text) ?? []);
  return (text) => {
    const host = toHost(text);
    return hosts.some(({ name, port }) => name === host?.name && (port === "" || port === host.port));
  };
}

const isPreflight = ({ method, headers }: Request): boolean =>
  method === "OPTIONS" && headers.has("access-control-request-method");

/** @throws {ToolError} PARAM_INVALID for an unknown option, and for an invalid host or origin */
export function createGuards(options: GuardOptions): Guards {
  const parsed = parseOptions(GuardOptionsSchema, options, "options");
  const { allowedHosts: hosts = LOOPBACK_NAMES, allowedOrigins = hosts, allowIpHosts = false } = parsed;
  return { check: toCheck(hosts, allowedOrigins, allowIpHosts), finish: withCorsHeaders };
}

function toCheck(hosts: readonly string[], origins: readonly string[], allowIpHosts: boolean): Guards["check"] {
  const isNamed = toHostCheck(hosts);
  const isAddress = (host: string): boolean => allowIpHosts && isAddressHost(host);
  const isOriginHost = toHostCheck(origins);
  const wholeOrigins = new Set(origins.flatMap((text) => toOrigin(text)?.text ?? []));
  const isOriginAllowed = (text: string, host: string): boolean => {
    const origin = toOrigin(text);
    if (origin === undefined) return false;
    // A page of another address is as foreign as one of another name.
    if (isAddress(host) && origin.host?.toLowerCase() === host.toLowerCase()) return true;
    return wholeOrigins.has(origin.text) || (origin.host !== undefined && isOriginHost(origin.host));
  };
  return (request) => {
    // A request that was created in this process has no Host header; its URL contains the host.
    const host = request.headers.get("host") ?? new URL(request.url).host;
    if (!isNamed(host) && !isAddress(host)) return reject(403, "The Host header is not allowed (allowedHosts)");
    const origin = request.headers.get("origin");
    if (origin !== null && !isOriginAllowed(origin, host))
      return reject(403, "The Origin header is not allowed (allowedOrigins)");
    return origin !== null && isPreflight(request) ? toPreflight(request) : undefined;
  };
}

function toPreflight(request: Request): Response {
  const headers = new Headers({
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Max-Age": String(PREFLIGHT_SECONDS),
  });
  const names = request.headers.get("access-control-request-headers");
  // The page is allowed, and tools declare headers of their own (Mcp-Param-…), so any valid list of header names is accepted.
  if (names !== null && names.length <= MAX_NAMES_LENGTH && HEADER_NAMES.test(names)) {
    headers.set("Access-Control-Allow-Headers", names);
  }
  return withCorsHeaders(request, new Response(null, { status: 204, headers }));
}

function withCorsHeaders(request: Request, response: Response): Response {
  const origin = request.headers.get("origin");
  if (origin === null) return response;
  const headers = new Headers(response.headers);
  headers.set("Access-Control-Allow-Origin", origin);
  headers.set("Access-Control-Expose-Headers", EXPOSED);
  headers.append("Vary", "Origin");
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}
