// The URL of a request. Most are written as the URL standard would write them, and then its parser need not be loaded.
import { urls } from "./fetch-platform.ts";
import { toUsvString } from "./fetch-webidl.ts";

export interface ParsedUrl {
  readonly href: string;
  /** Without its colon. */
  readonly scheme: string;
  readonly hasCredentials: boolean;
}

/**
 * Left as it is by the parser: a lower-case name that is no address, no port or one that is no scheme's own, and only characters
 * that are never encoded. Dot segments and international names are looked for apart.
 */
const PLAIN =
  /^(https?):\/\/(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*(?::(?!80\/|443\/)[1-9]\d{0,3})?\/[\w\-.~!$&()*+,;=:@/%]*(?:\?[\w\-.~!$&()*+,;=:@/%?]*)?$/;
const NOT_PLAIN = /\/\.|%2e|xn--/i;

/** @throws {TypeError} when it cannot be parsed; relative ones cannot */
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
