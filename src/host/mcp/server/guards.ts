// Checks of a request before anything in it is used: the Host that it is for and the Origin that it comes from. A web page can point any
// name at a server on its visitor's machine (DNS rebinding); Host and Origin show it.
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { reject } from "./rejection.ts";

export interface GuardOptions {
  /** Hosts that requests may be for: a name, for any port, or `name:port`; this machine's own (`localhost`, `127.0.0.1`, `[::1]`) unless stated. */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * Pages that requests may come from: a host as above, or a whole origin (`https://app.example.com`, `chrome-extension://ID`); those of
   * `allowedHosts` unless stated. What is no browser sends none, and passes.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
}

export interface Guards {
  /** What answers a request that may not pass (403), or a browser's question whether it may (204). */
  check(request: Request): Response | undefined;
  /** The answer, for the page that the request came from to read: {@link Guards.check} has let it through. */
  finish(request: Request, response: Response): Response;
}

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"] as const;
/** What a browser may remember of an answer to its question, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** Headers of a response that pages may read: the session, where to get a token, and when to try again. */
const EXPOSED = "Mcp-Session-Id, WWW-Authenticate, Retry-After";
/** Names of headers (RFC 9110, "token"), separated by commas. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;
const MAX_NAMES_LENGTH = 4_096;

/** A host as the URL parser writes it; undefined where the text is anything but a host and maybe a port. */
function toHost(text: string): { readonly name: string; readonly port: string } | undefined {
  // The parser would take `name@host` and `host/path` too.
  if (!/^[^\s/\\?#@]+$/.test(text) || !URL.canParse(`http://${text}`)) return undefined;
  const { hostname } = new URL(`http://${text}`);
  return { name: hostname, port: /:(\d+)$/.exec(text)?.[1] ?? "" };
}

/** Scheme and host of an origin; undefined for `null`, which says nothing about where a request comes from. */
function toOrigin(text: string): { readonly text: string; readonly host: string | undefined } | undefined {
  const [, scheme = "", host = ""] = /^([a-z][a-z\d+.-]*):\/\/([^\s/\\?#@]+)$/i.exec(text) ?? [];
  const isWeb = /^https?$/i.test(scheme);
  if (host === "" || !URL.canParse(`${scheme}://${host}`)) return undefined;
  // The URL parser knows hosts of the web only; an extension's is compared as it stands.
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
  allowedOrigins: z.array(OriginSchema).optional(),
};
const GuardOptionsSchema = strictObject(GUARD_OPTIONS);

function toHostCheck(allowed: readonly string[]): (text: string) => boolean {
  const hosts = allowed.flatMap((text) => toHost(text) ?? []);
  return (text) => {
    const asked = toHost(text);
    return hosts.some(({ name, port }) => name === asked?.name && (port === "" || port === asked.port));
  };
}

const isPreflight = ({ method, headers }: Request): boolean =>
  method === "OPTIONS" && headers.has("access-control-request-method");

/** @throws {ToolError} PARAM_INVALID for an unknown option, and for a value that is no host or origin */
export function createGuards(options: GuardOptions): Guards {
  const { allowedHosts: hosts = LOOPBACK, allowedOrigins = hosts } = parseOptions(
    GuardOptionsSchema,
    options,
    "options",
  );
  return { check: toCheck(hosts, allowedOrigins), finish: toReadable };
}

function toCheck(hosts: readonly string[], origins: readonly string[]): Guards["check"] {
  const isHost = toHostCheck(hosts);
  const isOriginHost = toHostCheck(origins);
  const wholeOrigins = new Set(origins.flatMap((text) => toOrigin(text)?.text ?? []));
  const mayCome = (text: string): boolean => {
    const origin = toOrigin(text);
    if (origin === undefined) return false;
    return wholeOrigins.has(origin.text) || (origin.host !== undefined && isOriginHost(origin.host));
  };
  return (request) => {
    // Where there is no such header (a request made in this process), the URL has what it would say.
    const host = request.headers.get("host") ?? new URL(request.url).host;
    if (!isHost(host)) return reject(403, "This server does not serve that Host");
    const origin = request.headers.get("origin");
    if (origin !== null && !mayCome(origin)) return reject(403, "Pages of that Origin may not call this server");
    return origin !== null && isPreflight(request) ? toPreflight(request) : undefined;
  };
}

function toPreflight(request: Request): Response {
  const headers = new Headers({
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Max-Age": String(PREFLIGHT_SECONDS),
  });
  const names = request.headers.get("access-control-request-headers");
  // The page is allowed, and tools define headers of their own (Mcp-Param-…): any list of header names may pass, and nothing else.
  if (names !== null && names.length <= MAX_NAMES_LENGTH && HEADER_NAMES.test(names)) {
    headers.set("Access-Control-Allow-Headers", names);
  }
  return toReadable(request, new Response(null, { status: 204, headers }));
}

function toReadable(request: Request, response: Response): Response {
  const origin = request.headers.get("origin");
  if (origin === null) return response;
  const headers = new Headers(response.headers);
  headers.set("Access-Control-Allow-Origin", origin);
  headers.set("Access-Control-Expose-Headers", EXPOSED);
  headers.append("Vary", "Origin");
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}
