// The cookie of the console: 256 random bits, which stand for an API key until they expire. Pages of other origins cannot use it.
import { createHash, randomBytes } from "node:crypto";

const COOKIE = "glovebox_session";
const TOKEN_BYTES = 32;
const TOKEN_PATTERN = /^[A-Za-z0-9_-]{43}$/;
/** Time in ms after which a session ends, also if it is used. */
export const SESSION_MS: number = 12 * 60 * 60_000;
/** A header that a request with the cookie must have to change anything. A form cannot send it, and a script of another origin may not. */
export const CONSOLE_HEADER = "x-glovebox-console";

export interface NewSessionToken {
  readonly token: string;
  readonly hash: string;
}

export const hashOfToken = (token: string): string => createHash("sha256").update(token).digest("hex");

export function createSessionToken(): NewSessionToken {
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  return { token, hash: hashOfToken(token) };
}

/** Returns the token in a Cookie header. Two of them are none: one could be set by another host of the domain. */
export function readSessionCookie(header: string | undefined): string | undefined {
  const found = (header ?? "")
    .split(";")
    .map((pair) => pair.trim().split("="))
    .filter(([name]) => name === COOKIE)
    .map(([, value = ""]) => value);
  const [token] = found;
  return found.length === 1 && token !== undefined && TOKEN_PATTERN.test(token) ? token : undefined;
}

/** Returns the Set-Cookie header. @param isSecure false only for a server on this machine, which browsers reach without TLS */
export function toSessionCookie(
  token: string,
  { isSecure, maxAgeMs }: { isSecure: boolean; maxAgeMs: number },
): string {
  const flags = ["HttpOnly", "SameSite=Strict", "Path=/", `Max-Age=${Math.floor(maxAgeMs / 1_000)}`];
  return [`${COOKIE}=${token}`, ...flags, ...(isSecure ? ["Secure"] : [])].join("; ");
}
