// fetch for discovery, registration and tokens: only where the policy allows it, to addresses that were checked, without redirects, and
// with small answers in JSON that were parsed within bounds.
import type { Readable } from "node:stream";
import type { FetchLike } from "@modelcontextprotocol/client";
import type { Dispatcher } from "undici";
import type { JsonValue } from "../../../../sandbox/contract/errors.ts";
import { Connections } from "../../../capabilities/fetch/connections.ts";
import { NO_EGRESS } from "../../../capabilities/fetch/egress-policy.ts";
import { loadHttpClient } from "../../../capabilities/fetch/http-client.ts";
import type { Resolver } from "../../../capabilities/fetch/pinned-addresses.ts";
import { SystemResolver } from "../../../capabilities/fetch/system-resolver.ts";
import { parseSmallJson } from "../../../json/parse-json.ts";
import { BoundedBytes } from "../reading/bounded-bytes.ts";
import { isJsonObject } from "../reading/json-size.ts";
import { OAuthDenied, type OAuthPolicy } from "./oauth-policy.ts";

/** Limit for one answer: metadata have some 4 KiB. */
const MAX_BYTES = 64 * 1024;
const ANSWER_LIMITS = { bytes: MAX_BYTES, depth: 16, values: 10_000 } as const;
const ANSWER_CODES = { invalid: "OUTPUT_INVALID", tooLarge: "OUTPUT_TOO_LARGE" } as const;
/** From the request to the end of the answer. */
const TIMEOUT_MS = 10_000;
const ISSUER_METADATA = /\/\.well-known\/(?:oauth-authorization-server|openid-configuration)(?:\/|$)/;

const resolver = new SystemResolver();
const resolveBySystem: Resolver = (hostname, signal) => resolver.resolve(hostname, "mcp-oauth", signal);

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** @param resolve gives a host name's addresses; those of the operating system by default */
export function createOAuthFetch(policy: OAuthPolicy, resolve: Resolver = resolveBySystem): FetchLike {
  return async (input, init) => {
    const url = new URL(input);
    const method = (init?.method ?? "GET").toUpperCase();
    const isIssuers = ISSUER_METADATA.test(url.pathname);
    policy.checkTarget(url);
    if (method === "GET" && isIssuers) policy.checkIssuerMetadataUrl(url);
    else if (method === "GET") policy.checkResourceMetadataUrl(url);
    const { status, headers, text } = await exchange(policy, resolve, url, method, init);
    if (status >= 300 && status < 400) throw new OAuthDenied(`${url.origin} answered with a redirect`);
    const isResources = method === "GET" && !isIssuers;
    const value = readAnswer(text, status, isResources);
    const isMetadata = method === "GET" && isSuccess(status) && isJsonObject(value);
    const body = isMetadata ? checkMetadata(policy, value, isIssuers) : value;
    return new Response(body === undefined ? null : JSON.stringify(body), { status, headers });
  };
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

/** Checks the body of a success. The SDK does not use the body of an error as metadata: it tries the next URL. */
function checkMetadata(
  policy: OAuthPolicy,
  metadata: { readonly [name: string]: unknown },
  isIssuers: boolean,
): { readonly [name: string]: unknown } {
  if (!isIssuers) return policy.readResourceMetadata(metadata);
  policy.checkIssuerMetadata(metadata);
  return metadata;
}

/**
 * Parses an answer; undefined for an error whose body is no JSON.
 * @param isResources whether it should be metadata of the resource. Where those are no JSON, the SDK treats them as missing and uses the
 * server's own origin, as after a 404; the policy checks what it requests there.
 * @throws {Error} for metadata of the resource that are no JSON
 * @throws {OAuthDenied} for any other success that is no JSON
 */
function readAnswer(text: string, status: number, isResources: boolean): JsonValue | undefined {
  try {
    return text === "" && !isSuccess(status)
      ? undefined
      : parseSmallJson(text, ANSWER_LIMITS, ANSWER_CODES, "The answer");
  } catch {
    if (!isSuccess(status)) return undefined;
    if (isResources) throw new Error("The server's resource metadata are no JSON that can be read");
    throw new OAuthDenied("The authorization server's answer is no JSON that can be read");
  }
}

async function exchange(
  policy: OAuthPolicy,
  resolve: Resolver,
  url: URL,
  method: string,
  init: RequestInit | undefined,
): Promise<Answer> {
  const late = AbortSignal.timeout(TIMEOUT_MS);
  const signal = init?.signal ? AbortSignal.any([init.signal, late]) : late;
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
  throw new TypeError("Expected a body of text");
}

async function readText(body: Readable): Promise<string> {
  const bytes = new BoundedBytes(MAX_BYTES);
  for await (const chunk of body) {
    bytes.add(chunk as Buffer);
    if (bytes.bytes > MAX_BYTES)
      throw new OAuthDenied(`The authorization server's answer is longer than ${MAX_BYTES} bytes`);
  }
  const whole = bytes.take();
  return "head" in whole ? "" : whole.toString("utf8");
}
