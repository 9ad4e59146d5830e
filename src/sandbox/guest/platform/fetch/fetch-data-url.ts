// Parses data: URLs (Fetch standard, "data: URL processor"), which need no request.
import { type MimeType, parseMimeType, serializeMimeType } from "./fetch-mime.ts";
import { fromBase64 } from "./fetch-platform.ts";
import { decodeUtf8, encodeUtf8 } from "./fetch-utf8.ts";

export interface DataUrl {
  /** The complete MIME type, as in Content-Type. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

function percentDecode(text: string): Uint8Array {
  const input = encodeUtf8(text);
  if (!input.includes(37)) return input;
  const output = new Uint8Array(input.length);
  let length = 0;
  for (let index = 0; index < input.length; index += 1) {
    const digits = String.fromCharCode(input[index + 1] ?? 0, input[index + 2] ?? 0);
    const isEscape = input[index] === 37 && /^[0-9a-f]{2}$/i.test(digits);
    output[length] = isEscape ? Number.parseInt(digits, 16) : (input[index] as number);
    length += 1;
    if (isEscape) index += 2;
  }
  return output.subarray(0, length);
}

/** Decodes forgiving base64: white space is ignored, and padding is optional. */
function decodeBase64(text: string): Uint8Array {
  return fromBase64(text.replace(/[\t\n\f\r ]/g, ""));
}

const BASE64_MARK = /; *base64$/i;
const DEFAULT_TYPE: MimeType = { essence: "text/plain", parameters: new Map([["charset", "US-ASCII"]]) };

/** @throws {TypeError} for a malformed URL */
export function readDataUrl(href: string): DataUrl {
  const hash = href.indexOf("#");
  const input = href.slice("data:".length, hash < 0 ? undefined : hash);
  const comma = input.indexOf(",");
  if (comma < 0) throw new TypeError("expected a comma in a data: URL");
  let type = input.slice(0, comma).replace(/^[\t\n\f\r ]+|[\t\n\f\r ]+$/g, "");
  let bytes = percentDecode(input.slice(comma + 1));
  if (BASE64_MARK.test(type)) {
    try {
      bytes = decodeBase64(decodeUtf8(bytes));
    } catch (cause) {
      throw new TypeError("expected valid base64 in a data: URL marked as base64", { cause });
    }
    type = type.replace(BASE64_MARK, "");
  }
  if (type.startsWith(";")) type = `text/plain${type}`;
  return { type: serializeMimeType(parseMimeType(type) ?? DEFAULT_TYPE), bytes };
}
