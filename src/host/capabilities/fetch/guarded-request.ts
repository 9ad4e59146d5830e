// Sends a request to a URL that someone outside the host has chosen, such as the target of a webhook: to public addresses only, which are
// checked and pinned like those of a tool's request, without redirects, and with limits on time and size.
import { isIP } from "node:net";
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { TenantIdSchema } from "../../routing/tenant-scope.ts";
import { deferFailure } from "../../util/defer-failure.ts";
import { blockedRange, parseCidr } from "./address-guard.ts";
import { checkTarget } from "./check-target.ts";
import { Connections } from "./connections.ts";
import { EgressSchema } from "./egress-policy.ts";
import { hostOf } from "./egress-rules.ts";
import { loadHttpClient } from "./http-client.ts";
import { networkError, toExchangeError } from "./network-errors.ts";
import { systemResolver } from "./system-resolver.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Argument of {@link sendGuardedRequest}. */
export interface GuardedRequest {
  /** An http or https URL without a user name or password. */
  readonly url: string;
  /** @default "POST" if there is a body, otherwise "GET" */
  readonly method?: (typeof METHODS)[number] | undefined;
  readonly headers?: { readonly [name: string]: string } | undefined;
  readonly body?: string | undefined;
  /** Addresses and CIDR ranges that may be connected to although they are not public. @default [] */
  readonly addresses?: readonly string[] | undefined;
  /** Longest time in ms until the response is complete, 1 to 300,000. @default 10000 */
  readonly timeoutMs?: number | undefined;
  /** Longest response body in bytes, 0 to 64 MiB. A longer one is cut off. @default 65536 */
  readonly maxResponseBytes?: number | undefined;
  /** Tenant that has chosen the URL. The lookups of host names are shared fairly between tenants. Default: the host itself */
  readonly tenantId?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Response to a {@link GuardedRequest}. A redirect is a response too: it is not followed. */
export interface GuardedResponse {
  readonly status: number;
  /** The headers, with names in lower case. Of a repeated header, the values are joined by a comma. */
  readonly headers: { readonly [name: string]: string };
  readonly text: string;
  /** Whether the body was longer than `maxResponseBytes`. */
  readonly isCutOff: boolean;
}

const UrlSchema = z.string().refine((text) => URL.canParse(text), { error: "Expected a URL" });

const AddressesSchema = z
  .array(z.string().refine((text) => parseCidr(text) !== undefined, { error: "Expected an address or a CIDR range" }))
  .max(1_000);

const RequestSchema = strictObject({
  url: UrlSchema,
  method: z.enum(METHODS).optional(),
  headers: z.record(z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/), z.string().max(16_384)).default({}),
  body: z.string().max(MAX_BODY_BYTES).optional(),
  addresses: AddressesSchema.default([]),
  timeoutMs: z.int().min(1).max(300_000).default(10_000),
  maxResponseBytes: z.int().min(0).max(MAX_BODY_BYTES).default(65_536),
  tenantId: TenantIdSchema.optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/**
 * Sends a request and returns its response, whatever its status. A redirect is a response like any other.
 * @throws {ToolError} as a rejection: PARAM_INVALID for invalid options; CAPABILITY_DENIED for a URL whose scheme or address is not allowed;
 *   TOOL_FAILED if there was no response, or not in time
 * @example
 * ```typescript
 * import { sendGuardedRequest } from "glovebox";
 *
 * // A URL that a tenant has entered: it reaches public addresses only.
 * const body = JSON.stringify({ event: "call.failed" });
 * const headers = { "content-type": "application/json" };
 * const { status } = await sendGuardedRequest({ url: "https://example.com/hook", body, headers, tenantId: "acme" });
 * console.log(status);
 * ```
 */
export function sendGuardedRequest(request: GuardedRequest): Promise<GuardedResponse> {
  return deferFailure(() => sendParsed(request));
}

/** Names that are always addresses of the machine itself (RFC 6761). */
const LOCALHOST = /^(?:.+\.)?localhost\.?$/i;

/**
 * Returns why {@link sendGuardedRequest} can never connect to the host of a URL, as far as that is known without a lookup: the range of its
 * address, such as `private`. Undefined for an address that may be connected to, and for a name.
 * @param url an http or https URL
 * @param addresses addresses and CIDR ranges that may be connected to although they are not public. Default: none
 * @throws {ToolError} PARAM_INVALID for text that is no URL, and for an address that is none
 * @example
 * ```typescript
 * import { findBlockedRange } from "glovebox";
 *
 * console.log(findBlockedRange("http://192.168.1.5/hook")); // private
 * console.log(findBlockedRange("https://example.com/hook")); // undefined
 * ```
 */
export function findBlockedRange(url: string, addresses: readonly string[] = []): string | undefined {
  const host = hostOf(new URL(parseOptions(UrlSchema, url, "url")));
  const allowed = parseOptions(AddressesSchema, addresses, "addresses")
    .map(parseCidr)
    .filter((cidr) => cidr !== undefined);
  if (!LOCALHOST.test(host)) return isIP(host) === 0 ? undefined : blockedRange(host, allowed);
  // One address of a name that may be connected to is enough for a request.
  const ranges = ["127.0.0.1", "::1"].map((address) => blockedRange(address, allowed));
  return ranges.includes(undefined) ? undefined : "loopback";
}

async function sendParsed(request: GuardedRequest): Promise<GuardedResponse> {
  const options = parseOptions(RequestSchema, request, "request") as z.output<typeof RequestSchema>;
  const { body, headers, tenantId, timeoutMs, maxResponseBytes } = options;
  const method = options.method ?? (body === undefined ? "GET" : "POST");
  const url = new URL(options.url);
  // The URL allows itself: what is checked is its scheme, its form and its addresses.
  const rule =
    /^https?:$/.test(url.protocol) && url.host !== "" ? [{ to: url.origin, addresses: options.addresses }] : [];
  const policy = EgressSchema.parse({ allow: rule, methods: [...METHODS], timeoutMs });
  const addresses = checkTarget(url, method, policy, undefined);
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]);
  const account = tenantId === undefined ? "host" : `tenant ${tenantId}`;
  using connections = new Connections(policy, (host, inTime) => systemResolver.resolve(host, account, inTime));
  try {
    const client = await connections.take(url, addresses, signal);
    const response = await loadHttpClient().request.call(client, {
      path: `${url.pathname}${url.search}`,
      method,
      signal,
      body: body ?? null,
      headers: { ...headers, "accept-encoding": "identity" },
    });
    const read = await readStart(response.body, maxResponseBytes);
    return { status: response.statusCode, headers: toHeaders(response.headers), ...read };
  } catch (thrown) {
    if (timeout.aborted) throw networkError(`no response within ${timeoutMs} ms`, "ETIMEDOUT", thrown);
    options.signal?.throwIfAborted();
    throw toExchangeError(thrown);
  }
}

async function readStart(body: AsyncIterable<Buffer>, most: number): Promise<{ text: string; isCutOff: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes > most) break;
  }
  return { text: Buffer.concat(chunks).subarray(0, most).toString("utf8"), isCutOff: bytes > most };
}

function toHeaders(headers: { readonly [name: string]: string | string[] | undefined }): {
  readonly [name: string]: string;
} {
  const entries = Object.entries(headers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : `${value}`]),
  );
}
