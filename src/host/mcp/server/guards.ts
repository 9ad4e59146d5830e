// What is checked of a request before anything in it is believed: for whom it was meant, from which page it comes, how large it is. A
// page on the web may have any name point at a server on this machine (DNS rebinding); Host and Origin give it away.
import { isJsonContentType, readRequestBody } from "@modelcontextprotocol/server";
import * as z from "zod";
import { ToolError } from "../../../sandbox/errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../../json-text.ts";
import { parseOptions } from "../../option-problems.ts";
import { refuse } from "./refusal.ts";

export interface GuardOptions {
  /** Hosts that requests may be for: a name, for any port, or `name:port`; this machine's own (`localhost`, `127.0.0.1`, `[::1]`) unless stated. */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * Pages that requests may come from: a host as above, or a whole origin (`https://app.example.com`, `chrome-extension://ID`); those of
   * `allowedHosts` unless stated. What is no browser sends none, and passes.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Of a request's body, 1 KiB to 64 MiB; 4 MiB unless stated. */
  readonly maxBodyBytes?: number | undefined;
}

export interface Guards {
  /** What answers a request that may not pass (403), or a browser's question whether it may (204). */
  check(request: Request): Response | undefined;
  /** Its body as JSON, undefined where it has none; or what answers one that cannot be read. */
  readBody(request: Request): Promise<{ readonly value: unknown } | Response>;
  /** The answer, for the page that the request came from to read: {@link Guards.check} has let it through. */
  finish(request: Request, response: Response): Response;
}

const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** What a call's arguments may be is stated by limits; this is for what stands around them. */
const BOUNDS = { depth: 200, values: 1_250_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"] as const;
/** What a browser may remember of an answer to its question, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** What pages may read of a response beside its body: the session, and where to get a token. */
const EXPOSED = "Mcp-Session-Id, WWW-Authenticate";

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
const GuardOptionsSchema = z.object({
  allowedHosts: z.array(HostSchema).optional(),
  allowedOrigins: z.array(OriginSchema).optional(),
  maxBodyBytes: z
    .int()
    .min(1_024)
    .max(64 * 1_024 * 1_024)
    .default(MAX_BODY_BYTES),
});

function toHostCheck(allowed: readonly string[]): (text: string) => boolean {
  const hosts = allowed.flatMap((text) => toHost(text) ?? []);
  return (text) => {
    const asked = toHost(text);
    return hosts.some(({ name, port }) => name === asked?.name && (port === "" || port === asked.port));
  };
}

const isPreflight = ({ method, headers }: Request): boolean =>
  method === "OPTIONS" && headers.has("access-control-request-method");

/** @throws {ToolError} PARAM_INVALID for what is no host and no origin */
export function createGuards({ allowedHosts, allowedOrigins, maxBodyBytes }: GuardOptions): Guards {
  const stated = parseOptions(GuardOptionsSchema, { allowedHosts, allowedOrigins, maxBodyBytes }, "options");
  return {
    check: toCheck(stated.allowedHosts ?? LOOPBACK, stated.allowedOrigins ?? stated.allowedHosts ?? LOOPBACK),
    readBody: async (request) => await readJson(request, stated.maxBodyBytes),
    finish: toReadable,
  };
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
    if (!isHost(host)) return refuse(403, "This server does not answer for that Host");
    const origin = request.headers.get("origin");
    if (origin !== null && !mayCome(origin)) return refuse(403, "Pages of that Origin may not call this server");
    return origin !== null && isPreflight(request) ? toPreflight(request) : undefined;
  };
}

/** Parsed in slices where it is large, so that no caller's body holds the host up. */
async function readJson(request: Request, maxBytes: number): Promise<{ readonly value: unknown } | Response> {
  if (request.method !== "POST") return { value: undefined };
  const coding = request.headers.get("content-encoding");
  if (!isJsonContentType(request.headers.get("content-type")) || (coding !== null && coding !== "identity")) {
    return refuse(415, "Expected Content-Type: application/json, without Content-Encoding");
  }
  const read = await readRequestBody(request, maxBytes);
  if (read.tooLarge) return refuse(413, `Expected a body of at most ${maxBytes} bytes`);
  const bounds = { ...BOUNDS, bytes: maxBytes };
  try {
    const value = isSmallJson(read.text)
      ? parseSmallJson(read.text, bounds, CODES, "The body")
      : await parseLargeText(read.text, bounds, CODES, "The body", request.signal);
    return { value };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return refuse(400, `Parse error: ${error.message}`, -32_700);
  }
}

function toPreflight(request: Request): Response {
  const headers = new Headers({
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Max-Age": String(PREFLIGHT_SECONDS),
  });
  const asked = request.headers.get("access-control-request-headers");
  // The page is allowed: which headers it sends is for the protocol to say, which has more of them with each tool (Mcp-Param-…).
  if (asked !== null) headers.set("Access-Control-Allow-Headers", asked);
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
