// Creates the request that follows a redirect, as the fetch standard does. Each hop is checked again: by the host's hooks, and by
// the egress rules (`checkTarget()` of check-target.ts) when exchange.ts sends it.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { normalizeMethod } from "./egress-rules.ts";
import { networkError } from "./network-errors.ts";
import { fromBase64 } from "./request-body.ts";
import { RequestFiller } from "./request-fill.ts";
import { type HeaderList, withoutHeaders } from "./request-headers.ts";
import { redactHeadTexts } from "./response-head.ts";
import type { CallSecrets } from "./secrets.ts";

/** A request as the tool sends it, with placeholders instead of secret values. */
export interface ToolRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderList;
  readonly body: { readonly base64: string } | { readonly stream: true } | null;
  readonly redirect: "follow" | "error" | "manual";
}

/** The request that follows a redirect, as hooks receive it: secret values in its URL are redacted. */
export interface RedirectedRequest extends ToolRequest {
  /** The URL that answered with the redirect. */
  readonly redirectedFrom: string;
}

/** One request of an exchange: parsed, but not yet checked against the egress rules. */
export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: HeaderList;
  /** The whole body, or "stream" if the tool sends it in parts. */
  readonly body: Buffer | "stream" | null;
  readonly redirect: ToolRequest["redirect"];
}

/** Runs the host's hooks for a redirect before it is followed. Returns the request that they leave; throws the rejection of a hook. */
export type RedirectGuard = (request: RedirectedRequest) => Promise<ToolRequest>;

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Headers that identify the client. A redirect to another origin drops them. */
const CREDENTIALS = new Set(["authorization", "cookie", "proxy-authorization"]);
const BODY_HEADER = /^content-/;

/** Parses a request of the tool. @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED */
export async function toHop(request: ToolRequest, { requestBytes }: EgressPolicy, turns: Turns): Promise<Hop> {
  const { headers, body, redirect } = request;
  const url = URL.parse(request.url);
  if (url === null) throw new ToolError("PARAM_INVALID", "Expected an absolute URL");
  const method = normalizeMethod(request.method);
  if (body !== null && (method === "GET" || method === "HEAD")) {
    throw new ToolError("PARAM_INVALID", `A request with the method ${method} must not have a body`);
  }
  const isWhole = body !== null && "base64" in body;
  const bytes = isWhole ? await fromBase64(body.base64, requestBytes, turns) : body === null ? null : "stream";
  return { url, method, headers, body: bytes, redirect };
}

/** Returns the Location header of a redirect; undefined for other responses. */
export function locationOf(status: number, headers: HeaderList): string | undefined {
  if (!REDIRECTS.has(status)) return undefined;
  return headers.find(([name]) => name.toLowerCase() === "location")?.[1];
}

const becomesGet = (status: number, method: string): boolean =>
  status === 303 ? method !== "GET" && method !== "HEAD" : status < 303 && method === "POST";

/** Dependencies of {@link redirectOf}. */
export interface RedirectDependencies {
  readonly policy: EgressPolicy;
  readonly secrets: CallSecrets;
  readonly turns: Turns;
  /** Undefined if no hook handles capability calls. */
  readonly guard?: RedirectGuard | undefined;
}

/**
 * Returns the request that follows a redirect, as modified by the host's guard.
 * @throws {ToolError} CAPABILITY_DENIED, TOOL_FAILED, the guard's rejection
 */
export async function redirectOf(
  hop: Hop,
  status: number,
  location: string,
  dependencies: RedirectDependencies,
): Promise<Hop> {
  const { secrets, turns, guard } = dependencies;
  const url = URL.parse(Buffer.from(location, "latin1").toString(), hop.url.href);
  if (url === null) throw networkError("the response redirects to an invalid URL");
  url.hash ||= hop.url.hash;
  const isCrossOrigin = url.origin !== hop.url.origin;
  const [shown] = await redactHeadTexts([location], secrets.redactor, turns);
  if (isCrossOrigin && shown !== location) {
    throw denied("redirect", "a redirect to another origin contains the value of a secret");
  }
  const dropsBody = becomesGet(status, hop.method);
  if (hop.body === "stream" && !dropsBody) throw networkError("a streamed body cannot be sent again for a redirect");
  const headers = await redirectedHeaders(hop, { isCrossOrigin, dropsBody }, new RequestFiller(secrets, url, turns));
  const { redirect } = hop;
  const next = { url, method: dropsBody ? "GET" : hop.method, headers, body: dropsBody ? null : hop.body, redirect };
  return guard === undefined ? next : await guarded(next, hop.url, guard, dependencies);
}

/** Returns the headers to send to the redirect's target. Credentials and headers with placeholders are not sent to another origin. */
async function redirectedHeaders(
  { headers }: Hop,
  { isCrossOrigin, dropsBody }: { readonly isCrossOrigin: boolean; readonly dropsBody: boolean },
  filler: RequestFiller,
): Promise<HeaderList> {
  const bound = new Set<string>();
  for (const [, value] of isCrossOrigin ? headers : []) if (await filler.hasPlaceholder(value)) bound.add(value);
  return withoutHeaders(headers, (name, value) => {
    if (dropsBody && BODY_HEADER.test(name)) return true;
    return isCrossOrigin && (CREDENTIALS.has(name) || bound.has(value));
  });
}

/** Runs the guard. A request that it modified is checked like a request of the tool. */
async function guarded(hop: Hop, from: URL, guard: RedirectGuard, dependencies: RedirectDependencies): Promise<Hop> {
  const { secrets, turns, policy } = dependencies;
  const { method, headers, redirect } = hop;
  const [url = "", redirectedFrom = ""] = await secrets.redactor.texts([hop.url.href, from.href], turns);
  const body = Buffer.isBuffer(hop.body) ? { base64: hop.body.toString("base64") } : null;
  const shown: RedirectedRequest = { method, url, headers, body, redirect, redirectedFrom };
  const result = await guard(shown);
  if (result === shown) return hop;
  const modified = await toHop(result, policy, turns);
  if (modified.body === "stream") {
    throw new ToolError(
      "PARAM_INVALID",
      "A hook returned a redirected request with a streamed body. Return the body as base64",
    );
  }
  // The hook received the redacted URL. If it did not change it, the request goes to the server's original URL.
  return result.url === url ? { ...modified, url: hop.url } : modified;
}

/** @throws {ToolError} CAPABILITY_DENIED */
export function checkRedirects(followed: number, { maxRedirects }: EgressPolicy): void {
  if (followed >= maxRedirects) {
    throw denied("redirect", `the request was redirected more than ${maxRedirects} times (egress.maxRedirects)`);
  }
}
