// Recognizes Host headers that no DNS server can answer for. DNS rebinding needs a name that an attacker's DNS server resolves.
import { isIP } from "node:net";

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
