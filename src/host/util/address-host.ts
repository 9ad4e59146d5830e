// Recognizes hosts that no attacker on the network can answer for: addresses, which DNS rebinding cannot use, and the names of this machine.
import { isIP } from "node:net";

/** Names of this machine, as the host of a URL has them. */
export const LOOPBACK_NAMES: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** Returns whether a text is a URL that is safe from attackers on the network: https, or http on this machine. */
export function isSecureUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || (protocol === "http:" && LOOPBACK_NAMES.includes(hostname));
}

/**
 * Returns whether a Host header is an IP address or `localhost`, with or without a port. A web page cannot point such a host at a server of
 * its choice: browsers do not resolve addresses, and resolve `localhost` themselves. Other spellings of addresses are none, such as `127.1`
 * or one with a trailing dot: browsers do not send them.
 */
export function isAddressHost(host: string | undefined): boolean {
  if (host === undefined) return false;
  const name = host.replace(/:\d{1,5}$/, "").replace(/^\[(.*)\]$/, "$1");
  return name.toLowerCase() === "localhost" || isIP(name) !== 0;
}
