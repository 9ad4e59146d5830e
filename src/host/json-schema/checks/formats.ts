// Checks of the keyword `format`, which is asserted for the names below and ignored for others: an author who writes z.email() expects the
// check. Each test takes linear time in a bounded length.
import { format as cfworkerFormats } from "@cfworker/json-schema";

interface FormatRow {
  /** Longer strings are rejected without a test. The limit comes from the format's standard if that has one. */
  readonly maxChars: number;
  readonly test: (text: string) => boolean;
}

/** Returns cfworker's test of that name. Each was tested with hostile strings. Its `url` takes exponential time and is not used. */
function borrowed(name: string, maxChars: number): FormatRow {
  const test = cfworkerFormats[name];
  if (test === undefined) throw new TypeError(`Expected a format named ${name} in @cfworker/json-schema`);
  return { maxChars, test };
}

const KiB = 1024;

/** URIs are shorter in practice, except large data: URLs. */
const MAX_URI_LENGTH = 64 * KiB;

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
  ["uri", borrowed("uri", MAX_URI_LENGTH)],
  ["uri-reference", borrowed("uri-reference", MAX_URI_LENGTH)],
  ["uri-template", borrowed("uri-template", MAX_URI_LENGTH)],
  ["url", { maxChars: MAX_URI_LENGTH, test: (text: string): boolean => URL.canParse(text) }],
  ["json-pointer", borrowed("json-pointer", MAX_URI_LENGTH)],
  ["relative-json-pointer", borrowed("relative-json-pointer", MAX_URI_LENGTH)],
  ["regex", borrowed("regex", 4 * KiB)],
]);
