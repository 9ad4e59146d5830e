// Parses the URL of a request. Most URLs are already in the form that the URL standard serializes, so its parser need not be loaded.
import { urls } from "./fetch-platform.ts";
import { toUsvString } from "./fetch-webidl.ts";

export interface ParsedUrl {
  readonly href: string;
  /** Scheme without the colon. */
  readonly scheme: string;
  readonly hasCredentials: boolean;
}

/**
 * Matches URLs that the parser does not change: a lower-case host name that is not an address, no port or a non-default one, and only
 * characters that are never encoded. {@link NOT_PLAIN} excludes dot segments and international names.
 */
const PLAIN =
  /^(https?):\/\/(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*(?::(?!80\/|443\/)[1-9]\d{0,3})?\/[\w\-.~!$&()*+,;=:@/%]*(?:\?[\w\-.~!$&()*+,;=:@/%?]*)?$/;
const NOT_PLAIN = /\/\.|%2e|xn--/i;

/** @throws {TypeError} when the URL is invalid or relative */
export function parseUrl(value: unknown): ParsedUrl {
  const text = toUsvString(value);
  const plain = PLAIN.exec(text);
  if (plain !== null && !NOT_PLAIN.test(text)) {
    return { href: text, scheme: plain[1] as string, hasCredentials: false };
  }
  try {
    const { href, protocol, username, password } = new (urls().URL)(text);
    return { href, scheme: protocol.slice(0, -1), hasCredentials: username !== "" || password !== "" };
  } catch (cause) {
    throw new TypeError(`Failed to parse URL from ${text.slice(0, 1_000)}`, { cause });
  }
}
