// Creates the fetch function for OAuth discovery, registration and tokens. Requests go only to URLs that the policy allows and to checked
// addresses, without redirects. Responses must be small JSON documents.
import type { Readable } from "node:stream";
import type { FetchLike } from "@modelcontextprotocol/client";
import type { Dispatcher } from "undici";
import type { JsonValue } from "../../../../sandbox/contract/errors.ts";
import { isJsonObject } from "../../../../sandbox/contract/value-kind.ts";
import { Connections } from "../../../capabilities/fetch/connections.ts";
import { NO_EGRESS } from "../../../capabilities/fetch/egress-policy.ts";
import { loadHttpClient } from "../../../capabilities/fetch/http-client.ts";
import type { Resolver } from "../../../capabilities/fetch/pinned-addresses.ts";
import { systemResolver } from "../../../capabilities/fetch/system-resolver.ts";
import { parseSmallJson } from "../../../json/parse-json.ts";
import { BoundedBytes } from "../reading/bounded-bytes.ts";
import { OAuthDenied, type OAuthPolicy } from "./oauth-policy.ts";

/** Limit for one response. Metadata documents have about 4 KiB. */
const MAX_BYTES = 64 * 1024;
const RESPONSE_LIMITS = { bytes: MAX_BYTES, depth: 16, values: 10_000 } as const;
const RESPONSE_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
/** Longest time in ms from the request to the end of the response. */
const TIMEOUT_MS = 10_000;
const ISSUER_METADATA = /\/\.well-known\/(?:oauth-authorization-server|openid-configuration)(?:\/|$)/;

const resolveBySystem: Resolver = (hostname, signal) => systemResolver.resolve(hostname, `oauth ${hostname}`, signal);

interface OAuthResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** @param resolve returns the addresses of a host name. Default: the resolver of the operating system */
export function createOAuthFetch(policy: OAuthPolicy, resolve: Resolver = resolveBySystem): FetchLike {
  return async (input, init) => {
    const url = new URL(input);
    const method = (init?.method ?? "GET").toUpperCase();
    const isIssuerMetadata = ISSUER_METADATA.test(url.pathname);
    // The checks of a kind of request come first, because their errors say what is at the URL.
    if (method === "GET" && isIssuerMetadata) policy.checkIssuerMetadataUrl(url);
    else if (method === "GET") policy.checkResourceMetadataUrl(url);
    policy.checkTarget(url);
    const { status, headers, text } = await exchange(policy, resolve, url, method, init);
    if (status >= 300 && status < 400)
      throw new OAuthDenied(`${url.origin} answered with a redirect, which is not followed`);
    const isResourceMetadata = method === "GET" && !isIssuerMetadata;
    const value = parseResponse(text, status, isResourceMetadata);
    const isMetadata = method === "GET" && isSuccess(status) && isJsonObject(value);
    const body = isMetadata ? checkMetadata(policy, value, isIssuerMetadata) : value;
    return new Response(body === undefined ? null : JSON.stringify(body), { status, headers });
  };
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

/** Checks the metadata of a successful response. For an error, the SDK ignores the body and tries the next URL. */
function checkMetadata(
  policy: OAuthPolicy,
  metadata: { readonly [name: string]: unknown },
  isIssuerMetadata: boolean,
): { readonly [name: string]: unknown } {
  if (!isIssuerMetadata) return policy.readResourceMetadata(metadata);
  policy.checkIssuerMetadata(metadata);
  return metadata;
}

/**
 * Parses a response. Returns undefined for an error whose body is not JSON.
 * @param isResourceMetadata whether resource metadata is expected. If it is not JSON, the SDK treats it as missing and uses the server's own
 * origin, as after a 404; the policy checks the requests that follow.
 * @throws {Error} for resource metadata that is not JSON
 * @throws {OAuthDenied} for any other successful response that is not JSON
 */
function parseResponse(text: string, status: number, isResourceMetadata: boolean): JsonValue | undefined {
  try {
    return text === "" && !isSuccess(status)
      ? undefined
      : parseSmallJson(text, RESPONSE_LIMITS, RESPONSE_CODES, "The response");
  } catch {
    if (!isSuccess(status)) return undefined;
    if (isResourceMetadata) throw new Error("The server's resource metadata is not valid JSON");
    throw new OAuthDenied("The authorization server's response is not valid JSON");
  }
}

async function exchange(
  policy: OAuthPolicy,
  resolve: Resolver,
  url: URL,
  method: string,
  init: RequestInit | undefined,
): Promise<OAuthResponse> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  const egress = { ...NO_EGRESS, timeoutMs: TIMEOUT_MS };
  using connections = new Connections(egress, resolve);
  const client = await connections.take(url, policy.addressesFor(url), signal);
  const response = await loadHttpClient().request.call(client, {
    path: `${url.pathname}${url.search}`,
    method: method as Dispatcher.HttpMethod,
    headers: Object.fromEntries(headersOf(init)),
    body: toBody(init?.body),
    signal,
  });
  const headers = new Headers({ "content-type": "application/json" });
  const nonce = response.headers["dpop-nonce"];
  if (typeof nonce === "string") headers.set("dpop-nonce", nonce);
  return { status: response.statusCode, headers, text: await readText(response.body) };
}

function headersOf(init: RequestInit | undefined): Headers {
  const headers = new Headers(init?.headers);
  if (init?.body instanceof URLSearchParams && !headers.has("content-type")) {
    headers.set("content-type", "application/x-www-form-urlencoded");
  }
  headers.set("accept-encoding", "identity");
  return headers;
}

function toBody(body: RequestInit["body"]): string | null {
  if (body === undefined || body === null) return null;
  if (typeof body === "string") return body;
  if (body instanceof URLSearchParams) return body.toString();
  throw new TypeError("Expected a string or URLSearchParams as the body");
}

async function readText(body: Readable): Promise<string> {
  const bytes = new BoundedBytes(MAX_BYTES);
  for await (const chunk of body) {
    bytes.add(chunk as Buffer);
    if (bytes.bytes > MAX_BYTES)
      throw new OAuthDenied(`The authorization server's response is longer than ${MAX_BYTES} bytes`);
  }
  const whole = bytes.take();
  return "head" in whole ? "" : whole.toString("utf8");
}
