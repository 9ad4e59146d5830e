// Makes the request that follows a redirect, as the fetch standard does. Each hop is checked again: by the host's hooks, and by the
// egress rules when it is sent.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { normalizeMethod } from "./egress-rules.ts";
import { networkError } from "./network-errors.ts";
import { fromBase64 } from "./request-body.ts";
import { RequestFiller } from "./request-fill.ts";
import { type HeaderList, withoutHeaders } from "./request-headers.ts";
import type { CallSecrets } from "./secrets.ts";

/** A request as the tool states it: with placeholders where secrets are to be. */
export interface StatedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: HeaderList;
  readonly body: { readonly base64: string } | { readonly stream: true } | null;
  readonly redirect: "follow" | "error" | "manual";
}

/** A request that the host makes of a redirect, as hooks see it: secrets' values in its URL are redacted. */
export interface RedirectedRequest extends StatedRequest {
  /** The URL that answered with the redirect. */
  readonly redirectedFrom: string;
}

/** One request of an exchange, checked as far as that needs no policy. */
export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: HeaderList;
  /** All of the body, or that it comes in parts. */
  readonly body: Buffer | "stream" | null;
  readonly redirect: StatedRequest["redirect"];
}

/** Asks the host about a redirect before it is followed. Returns the request as the host wants it; throws its rejection. */
export type RedirectGuard = (request: RedirectedRequest) => Promise<StatedRequest>;

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** They say who is asking: only the origin that they were meant for is told. */
const CREDENTIALS = new Set(["authorization", "cookie", "proxy-authorization"]);
const ABOUT_THE_BODY = /^content-/;

/** @throws {ToolError} PARAM_INVALID, QUOTA_EXCEEDED */
export async function toHop(request: StatedRequest, { requestBytes }: EgressPolicy, turns: Turns): Promise<Hop> {
  const { headers, body, redirect } = request;
  const url = URL.parse(request.url);
  if (url === null) throw new ToolError("PARAM_INVALID", "Expected an absolute URL");
  const method = normalizeMethod(request.method);
  if (body !== null && (method === "GET" || method === "HEAD")) {
    throw new ToolError("PARAM_INVALID", `A request with the method ${method} has no body`);
  }
  const isWhole = body !== null && "base64" in body;
  const bytes = isWhole ? await fromBase64(body.base64, requestBytes, turns) : body === null ? null : "stream";
  return { url, method, headers, body: bytes, redirect };
}

/** The text of the Location header, if the response is a redirect to follow. */
export function locationOf(status: number, headers: HeaderList): string | undefined {
  if (!REDIRECTS.has(status)) return undefined;
  return headers.find(([name]) => name.toLowerCase() === "location")?.[1];
}

const becomesGet = (status: number, method: string): boolean =>
  status === 303 ? method !== "GET" && method !== "HEAD" : status < 303 && method === "POST";

/** Parts that a redirect is checked with. */
export interface RedirectParts {
  readonly policy: EgressPolicy;
  readonly secrets: CallSecrets;
  readonly turns: Turns;
  /** Undefined where no hook wants to be asked. */
  readonly guard?: RedirectGuard | undefined;
}

/**
 * Returns the request that follows a redirect, as the host's guard leaves it.
 * @throws {ToolError} CAPABILITY_DENIED, TOOL_FAILED, the guard's rejection
 */
export async function redirectOf(hop: Hop, status: number, location: string, parts: RedirectParts): Promise<Hop> {
  const { secrets, turns, guard } = parts;
  const url = URL.parse(Buffer.from(location, "latin1").toString(), hop.url.href);
  if (url === null) throw networkError("the response redirects to something that is no URL");
  url.hash ||= hop.url.hash;
  const isAway = url.origin !== hop.url.origin;
  const [shown] = await secrets.redactor.texts([location], turns);
  if (isAway && shown !== location) {
    throw denied("redirect", "a secret's value stands in a redirect to another origin");
  }
  const dropsBody = becomesGet(status, hop.method);
  if (hop.body === "stream" && !dropsBody) throw networkError("a body that was sent in parts cannot be sent again");
  const headers = await headersAlong(hop, { isAway, dropsBody }, new RequestFiller(secrets, url, turns));
  const { redirect } = hop;
  const next = { url, method: dropsBody ? "GET" : hop.method, headers, body: dropsBody ? null : hop.body, redirect };
  return guard === undefined ? next : await guarded(next, hop.url, guard, parts);
}

async function headersAlong(
  { headers }: Hop,
  { isAway, dropsBody }: { readonly isAway: boolean; readonly dropsBody: boolean },
  filler: RequestFiller,
): Promise<HeaderList> {
  const bound = new Set<string>();
  for (const [, value] of isAway ? headers : []) if (await filler.hasPlaceholder(value)) bound.add(value);
  return withoutHeaders(headers, (name, value) => {
    if (dropsBody && ABOUT_THE_BODY.test(name)) return true;
    return isAway && (CREDENTIALS.has(name) || bound.has(value));
  });
}

/** Asks the guard. A request that it amended is checked in the same way as a request of the tool. */
async function guarded(hop: Hop, from: URL, guard: RedirectGuard, parts: RedirectParts): Promise<Hop> {
  const { secrets, turns, policy } = parts;
  const { method, headers, redirect } = hop;
  const [url = "", redirectedFrom = ""] = await secrets.redactor.texts([hop.url.href, from.href], turns);
  const body = Buffer.isBuffer(hop.body) ? { base64: hop.body.toString("base64") } : null;
  const shown: RedirectedRequest = { method, url, headers, body, redirect, redirectedFrom };
  const given = await guard(shown);
  if (given === shown) return hop;
  const amended = await toHop(given, policy, turns);
  if (amended.body === "stream") {
    throw new ToolError("PARAM_INVALID", "A hook amended a redirect to a body that comes in parts; state it as base64");
  }
  // The hook saw the URL redacted; the request goes to the one that the server stated.
  return given.url === url ? { ...amended, url: hop.url } : amended;
}

/** @throws {ToolError} CAPABILITY_DENIED */
export function checkRedirects(followed: number, { maxRedirects }: EgressPolicy): void {
  if (followed >= maxRedirects) throw denied("redirect", `a request may be redirected ${maxRedirects} times`);
}
