// Ports that requests must not use (Fetch standard, "bad port"): their services speak other protocols, and a request could trigger an
// action.

const BLOCKED: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);
/** Port in a URL that the parser has serialized, which omits the default port of the scheme. */
const PORT = /^https?:\/\/[^/?#]*:(\d+)(?:[/?#]|$)/;

/** Returns the port of a URL if it is blocked. */
export function blockedPort(href: string): number | undefined {
  const port = Number(PORT.exec(href)?.[1] ?? Number.NaN);
  return BLOCKED.has(port) ? port : undefined;
}
