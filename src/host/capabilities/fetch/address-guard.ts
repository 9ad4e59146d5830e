// Decides which IP addresses a request may connect to: public addresses, and exceptions that the host allows. It blocks every range of
// IANA's special-purpose registries, and every IPv6 form that contains an IPv4 address.
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = readonly [Address, number];

/** IPv4 ranges that are not public. All other IPv4 addresses are. */
const BLOCKED_IPV4 = {
  "0.0.0.0/8": "this network",
  "10.0.0.0/8": "private",
  "100.64.0.0/10": "carrier-grade NAT",
  "127.0.0.0/8": "loopback",
  "168.63.129.16/32": "cloud metadata",
  "169.254.0.0/16": "link-local, cloud metadata",
  "172.16.0.0/12": "private",
  "192.0.0.0/24": "protocol assignments",
  "192.0.2.0/24": "documentation",
  "192.31.196.0/24": "AS112",
  "192.52.193.0/24": "automatic multicast tunneling",
  "192.88.99.0/24": "6to4 relays",
  "192.168.0.0/16": "private",
  "192.175.48.0/24": "AS112",
  "198.18.0.0/15": "benchmarking",
  "198.51.100.0/24": "documentation",
  "203.0.113.0/24": "documentation",
  "224.0.0.0/4": "multicast",
  "255.255.255.255/32": "broadcast",
  "240.0.0.0/4": "reserved",
} as const;

/** IPv6 ranges that are not public. Everything outside 2000::/3 is blocked anyway; ranges outside it are listed for their names. */
const BLOCKED_IPV6 = {
  "::/128": "unspecified",
  "::1/128": "loopback",
  "::ffff:0:0/96": "IPv4-mapped",
  "::ffff:0:0:0/96": "IPv4-translated",
  "::/96": "IPv4-compatible",
  "64:ff9b::/96": "NAT64",
  "64:ff9b:1::/48": "NAT64",
  "100::/64": "discard",
  "2001::/32": "Teredo",
  "2001:2::/48": "benchmarking",
  "2001:10::/28": "ORCHID",
  "2001:20::/28": "ORCHID",
  "2001::/23": "protocol assignments",
  "2001:db8::/32": "documentation",
  "2002::/16": "6to4",
  "2620:4f:8000::/48": "AS112",
  "3fff::/20": "documentation",
  "5f00::/16": "segment routing",
  "fc00::/7": "private",
  "fe80::/10": "link-local",
  "fec0::/10": "site-local",
  "ff00::/8": "multicast",
} as const;

const toTable = (blocked: { readonly [cidr: string]: string }): readonly (readonly [Cidr, string])[] =>
  Object.entries(blocked).map(([cidr, name]) => [ipaddr.parseCIDR(cidr), name] as const);
interface ParsedRanges {
  readonly blocked: readonly (readonly [Cidr, string])[];
  readonly globalIpv6: Cidr;
}
/** Parsed when the first address is checked: parsing takes 3 % of an import's CPU time, and most programs send no requests. */
let parsedRanges: ParsedRanges | undefined;
function ranges(): ParsedRanges {
  parsedRanges ??= {
    blocked: [...toTable(BLOCKED_IPV4), ...toTable(BLOCKED_IPV6)],
    globalIpv6: ipaddr.parseCIDR("2000::/3"),
  };
  return parsedRanges;
}

const isIn = (address: Address, [network, bits]: Cidr): boolean =>
  address.kind() === network.kind() && (address as ipaddr.IPv4).match(network as ipaddr.IPv4, bits);

/** An interface identifier of `0:5efe` or `200:5efe` with an IPv4 address after it (RFC 5214). */
function isIsatap(address: Address): boolean {
  if (address.kind() !== "ipv6") return false;
  const { parts } = address as ipaddr.IPv6;
  return ((parts[4] ?? 0) & 0xfdff) === 0 && parts[5] === 0x5efe;
}

/** Addresses that may be connected to although they are in a blocked range. */
export type AddressList = readonly Cidr[];

/** Parses a CIDR range such as `10.1.0.0/16`, or a single address. Returns undefined for any other text. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = "", bits] = text.split("/");
  if (isIP(address) === 0 || address.includes("%")) return undefined;
  try {
    if (bits !== undefined) return ipaddr.parseCIDR(text);
    const parsed = ipaddr.parse(address);
    return [parsed, parsed.kind() === "ipv4" ? 32 : 128];
  } catch {
    return undefined;
  }
}

/** Returns the name of the blocked range that contains the address; undefined if the address may be connected to. */
export function blockedRange(text: string, allowed: AddressList): string | undefined {
  // Addresses in unusual notation, such as `0177.0.0.1`, mean different addresses to different parsers.
  if (isIP(text) === 0) return "not an address";
  const address = ipaddr.parse(text);
  if (allowed.some((cidr) => isIn(address, cidr))) return undefined;
  const { blocked, globalIpv6 } = ranges();
  const [, name] = blocked.find(([cidr]) => isIn(address, cidr)) ?? [];
  if (name !== undefined) return name;
  if (isIsatap(address)) return "ISATAP";
  if (address.kind() === "ipv6" && !isIn(address, globalIpv6)) return "not public";
  return undefined;
}
