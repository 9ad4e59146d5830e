// Where a redirect leads, and what of the request goes along, as fetch has it. That it may go there at all is checked again, elsewhere.
import { denied, type EgressPolicy } from "./egress-policy.ts";
import { networkError } from "./network-errors.ts";
import { type HeaderList, withoutHeaders } from "./request-headers.ts";
import type { CallSecrets } from "./secrets.ts";

/** One request of an exchange, as the tool made it: with placeholders where secrets are to be. */
export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: HeaderList;
  /** All of the body, or that it comes in parts. */
  readonly body: Buffer | "stream" | null;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** They say who is asking: only the origin that they were meant for is told. */
const CREDENTIALS = new Set(["authorization", "cookie", "proxy-authorization"]);
const ABOUT_THE_BODY = /^content-/;

/** The text of the Location header, if the response is a redirect to follow. */
export function locationOf(status: number, headers: HeaderList): string | undefined {
  if (!REDIRECTS.has(status)) return undefined;
  return headers.find(([name]) => name.toLowerCase() === "location")?.[1];
}

const becomesGet = (status: number, method: string): boolean =>
  status === 303 ? method !== "GET" && method !== "HEAD" : status < 303 && method === "POST";

/** @throws {ToolError} CAPABILITY_DENIED, TOOL_FAILED */
export function redirectOf(hop: Hop, status: number, location: string, secrets: CallSecrets): Hop {
  const url = URL.parse(Buffer.from(location, "latin1").toString(), hop.url.href);
  if (url === null) throw networkError("the response redirects to something that is no URL");
  url.hash ||= hop.url.hash;
  const isAway = url.origin !== hop.url.origin;
  if (isAway && secrets.redactor.text(location) !== location) {
    throw denied("redirect", "a secret's value stands in a redirect to another origin");
  }
  const dropsBody = becomesGet(status, hop.method);
  if (hop.body === "stream" && !dropsBody) throw networkError("a body that was sent in parts cannot be sent again");
  const headers = withoutHeaders(hop.headers, (name, value) => {
    if (dropsBody && ABOUT_THE_BODY.test(name)) return true;
    return isAway && (CREDENTIALS.has(name) || secrets.isIn(value));
  });
  return { url, method: dropsBody ? "GET" : hop.method, headers, body: dropsBody ? null : hop.body };
}

/** @throws {ToolError} CAPABILITY_DENIED */
export function checkRedirects(followed: number, { maxRedirects }: EgressPolicy): void {
  if (followed >= maxRedirects) throw denied("redirect", `a request may be redirected ${maxRedirects} times`);
}
