// Parses and writes IP addresses, for node:net and its classes.

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/;
const GROUPS = 8;
const GROUP_BITS = 16n;
/** The first 96 bits of an IPv4 address that is written as IPv6: ::ffff:0:0/96. */
const MAPPED = 0xffffn << 32n;

interface ParsedUrl {
  readonly hostname: string;
}
declare const URL: { parse(url: string): ParsedUrl | null };

export function isIPv4(text: unknown): text is string {
  return typeof text === "string" && IPV4.test(text) && !/(?:^|\.)0\d/.test(text);
}

/** Returns the hostname of a URL with the address, without brackets: all groups in hexadecimal. */
function readIPv6(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  const [address = "", ...zone] = text.split("%");
  if (zone.length > 1 || zone[0] === "" || !/^[0-9a-f:.]+$/i.test(address)) return undefined;
  return URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1);
}

export const isIPv6 = (text: unknown): text is string => readIPv6(text) !== undefined;

export const isIP = (text: unknown): 0 | 4 | 6 => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);

/** Returns the 128 bits of an address. Those of an IPv4 address are mapped to IPv6. */
export function parseAddress(text: string, family: "ipv4" | "ipv6"): bigint | undefined {
  if (family === "ipv4") {
    if (!isIPv4(text)) return undefined;
    return MAPPED | text.split(".").reduce((bits, byte) => (bits << 8n) | BigInt(byte), 0n);
  }
  const hostname = readIPv6(text);
  if (hostname === undefined) return undefined;
  const [head = [], tail = []] = hostname.split("::").map((side) => (side === "" ? [] : side.split(":")));
  const zeros = Array<string>(GROUPS - head.length - tail.length).fill("0");
  return [...head, ...zeros, ...tail].reduce((bits, group) => (bits << GROUP_BITS) | BigInt(`0x${group}`), 0n);
}

export const isMapped = (bits: bigint): boolean => bits >> 32n === MAPPED >> 32n;

function formatIPv4(bits: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (bits >> shift) & 0xffn).join(".");
}

/** Writes an address as inet_ntop() does. */
export function formatAddress(bits: bigint, family: "ipv4" | "ipv6"): string {
  if (family === "ipv4") return formatIPv4(bits);
  const groups = Array.from({ length: GROUPS }, (_, index) =>
    Number((bits >> (GROUP_BITS * BigInt(GROUPS - 1 - index))) & 0xffffn),
  );
  const text = groups.map((group) => group.toString(16)).join(":");
  const runs = [...text.matchAll(/(?:^|(?<=:))0(?::0)+(?=:|$)/g)];
  const longest = runs.reduce<RegExpExecArray | undefined>(
    (best, run) => (best === undefined || run[0].length > best[0].length ? run : best),
    undefined,
  );
  const zeros = groups.findIndex((group) => group !== 0);
  if (zeros === 6 || isMapped(bits)) return `${zeros === 6 ? "::" : "::ffff:"}${formatIPv4(bits)}`;
  if (longest === undefined) return text;
  const before = text.slice(0, longest.index).replace(/:$/, "");
  const after = text.slice(longest.index + longest[0].length).replace(/^:/, "");
  return `${before}::${after}`;
}
