// `format` is asserted for the names below and ignored for others: an author who writes z.email() expects the check.
// Each test takes time linear in a bounded length.
import { format as cfworkerFormats } from "@cfworker/json-schema";

interface FormatRow {
  /** Longer strings are refused without a test; the bound is the format's own where it has one. */
  readonly maxChars: number;
  readonly test: (text: string) => boolean;
}

/** cfworker's test of that name; each was tried with strings made to hurt it. Its `url` is exponential, so not here. */
function borrowed(name: string, maxChars: number): FormatRow {
  const test = cfworkerFormats[name];
  if (test === undefined) throw new TypeError(`Expected a format named ${name} in @cfworker/json-schema`);
  return { maxChars, test };
}

const KiB = 1024;

/** Everything in RFC 3986 and its kin is shorter in practice; data: URLs past this belong in no argument checked by format. */
const MAX_URI_CHARS = 64 * KiB;

export const FORMATS: ReadonlyMap<string, FormatRow> = new Map([
  ["date-time", borrowed("date-time", 128)],
  ["date", borrowed("date", 10)],
  ["time", borrowed("time", 128)],
  ["duration", borrowed("duration", 256)],
  // RFC 5321: 64 for the name, 253 for the host.
  ["email", borrowed("email", 320)],
  ["hostname", borrowed("hostname", 253)],
  ["ipv4", borrowed("ipv4", 15)],
  ["ipv6", borrowed("ipv6", 45)],
  ["uuid", borrowed("uuid", 36)],
  ["uri", borrowed("uri", MAX_URI_CHARS)],
  ["uri-reference", borrowed("uri-reference", MAX_URI_CHARS)],
  ["uri-template", borrowed("uri-template", MAX_URI_CHARS)],
  ["url", { maxChars: MAX_URI_CHARS, test: (text: string): boolean => URL.canParse(text) }],
  ["json-pointer", borrowed("json-pointer", MAX_URI_CHARS)],
  ["relative-json-pointer", borrowed("relative-json-pointer", MAX_URI_CHARS)],
  ["regex", borrowed("regex", 4 * KiB)],
]);
