// Writes and parses multipart/form-data (HTML, "multipart/form-data encoding algorithm"; Fetch, "multipart/form-data parser").
import { FormData, type FormDataEntry } from "./fetch-form-data.ts";
import { isToken } from "./fetch-headers.ts";
import { extractMimeType, serializeMimeType } from "./fetch-mime.ts";
import { blobs, concat } from "./fetch-platform.ts";
import { decodeUtf8, encodeUtf8 } from "./fetch-utf8.ts";

const toCrlf = (text: string): string => text.replace(/\r\n|\r|\n/g, "\r\n");
const escapeQuoted = (text: string): string =>
  text.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");

/** Returns a random boundary, so that no value contains it by accident. */
function makeBoundary(): string {
  let digits = "";
  while (digits.length < 32)
    digits += Math.floor(Math.random() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return `----glovebox-form-${digits}`;
}

export interface EncodedForm {
  readonly parts: readonly Uint8Array[];
  readonly boundary: string;
}

/** Encodes entries without copying the bytes of files. */
export function encodeMultipart(entries: readonly FormDataEntry[]): EncodedForm {
  const boundary = makeBoundary();
  const parts: Uint8Array[] = [];
  let text = "";
  for (const [name, value] of entries) {
    text += `--${boundary}\r\nContent-Disposition: form-data; name="${escapeQuoted(toCrlf(name))}"`;
    if (typeof value === "string") {
      text += `\r\n\r\n${toCrlf(value)}\r\n`;
      continue;
    }
    const type = value.type === "" ? "application/octet-stream" : value.type;
    text += `; filename="${escapeQuoted(value.name.toWellFormed())}"\r\nContent-Type: ${type}\r\n\r\n`;
    parts.push(encodeUtf8(text), blobs().blobBytes(value));
    text = "\r\n";
  }
  parts.push(encodeUtf8(`${text}--${boundary}--\r\n`));
  return { parts, boundary };
}

const CR = 13;
const LF = 10;

/** Returns the index of `pattern` at or after `from`, or a negative number. */
function indexOfBytes(bytes: Uint8Array, pattern: Uint8Array, from: number): number {
  const first = pattern[0] as number;
  for (let at = bytes.indexOf(first, from); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (startsWith(bytes, pattern, at)) return at;
  }
  return -1;
}

function startsWith(bytes: Uint8Array, pattern: Uint8Array, at: number): boolean {
  for (let index = 0; index < pattern.length; index += 1) if (bytes[at + index] !== pattern[index]) return false;
  return true;
}

const isLineEnd = (bytes: Uint8Array, at: number): boolean => bytes[at] === CR && bytes[at + 1] === LF;

const malformed = (problem: string): TypeError =>
  new TypeError(`formData: the body is not multipart/form-data: ${problem}`);

/** Skips spaces and tabs after a delimiter. */
function skipPadding(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === 32 || bytes[at] === 9) at += 1;
  return at;
}

/** Decodes each byte as one character. */
function isomorphic(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

interface PartHead {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
  /** Offset of the part's contents. */
  readonly end: number;
}

const DISPOSITION = /^form-data; name="([^"]*)"(?:; filename="([^"]*)")?/;
const EXTENDED_FILENAME = /; filename\*=utf-8''([^\s;]*)/i;

function decodeExtended(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed("a file name is not percent-encoded UTF-8");
  }
}

function readDisposition(line: Uint8Array): { readonly name: string; readonly filename: string | undefined } {
  const text = decodeUtf8(line);
  const found = DISPOSITION.exec(text);
  if (found === null) throw malformed("expected a Content-Disposition of form-data with a name");
  const extended = EXTENDED_FILENAME.exec(text.slice(found[0].length));
  const filename = extended === null ? found[2] : decodeExtended(extended[1] as string);
  return { name: found[1] as string, filename };
}

/** Reads the header lines of a part, up to the empty line. */
function readHead(bytes: Uint8Array, from: number): PartHead {
  let disposition: ReturnType<typeof readDisposition> | undefined;
  const contentTypes: string[] = [];
  let at = from;
  while (!isLineEnd(bytes, at)) {
    const end = bytes.indexOf(CR, at);
    if (end < 0 || bytes[end + 1] !== LF) throw malformed("a header line does not end");
    const line = bytes.subarray(at, end);
    const colon = line.indexOf(58);
    const name = isomorphic(line.subarray(0, Math.max(colon, 0))).replace(/^[\t ]+|[\t ]+$/g, "");
    if (!isToken(name) || line.includes(LF) || line.includes(0)) throw malformed("a header line is malformed");
    const value = line.subarray(skipPadding(line, colon + 1));
    const key = name.toLowerCase();
    if (key === "content-disposition") disposition = readDisposition(value);
    else if (key === "content-type") contentTypes.push(isomorphic(value));
    at = end + 2;
  }
  if (disposition === undefined) throw malformed("a part has no Content-Disposition");
  const contentType = contentTypes.length === 0 ? undefined : contentTypes.join(", ");
  return { ...disposition, contentType, end: at + 2 };
}

function typeOfFile(contentType: string | undefined): string {
  if (contentType === undefined) return "text/plain";
  const type = extractMimeType(contentType);
  return type === undefined ? "" : serializeMimeType(type);
}

/** @throws {TypeError} for a malformed body */
export function parseMultipart(bytes: Uint8Array, boundary: string | undefined): FormData {
  if (boundary === undefined || boundary === "") throw malformed("its Content-Type has no boundary");
  const delimiter = encodeUtf8(`--${boundary}`);
  const nextDelimiter = concat([new Uint8Array([CR, LF]), delimiter]);
  const form = new FormData();
  let at = 0;
  // Some senders start with empty lines.
  while (isLineEnd(bytes, at)) at += 2;
  if (!startsWith(bytes, delimiter, at)) throw malformed("it does not begin with its boundary");
  at += delimiter.length;
  for (;;) {
    const isLast = bytes[at] === 45 && bytes[at + 1] === 45;
    at = skipPadding(bytes, isLast ? at + 2 : at);
    if (isLast && at === bytes.length) return form;
    if (!isLineEnd(bytes, at)) throw malformed("a boundary is not at the end of its line");
    if (isLast) return form;
    const head = readHead(bytes, at + 2);
    // The delimiter of an empty part starts with the line end that closes its head.
    const end = indexOfBytes(bytes, nextDelimiter, head.end - 2);
    if (end < 0) throw malformed("it does not end with its boundary");
    const contents = bytes.subarray(head.end, Math.max(end, head.end));
    appendPart(form, head, contents);
    at = end + nextDelimiter.length;
  }
}

function appendPart(form: FormData, { name, filename, contentType }: PartHead, contents: Uint8Array): void {
  if (filename === undefined) form.append(name, decodeUtf8(contents));
  else form.append(name, new (blobs().File)([contents], filename, { type: typeOfFile(contentType), lastModified: 0 }));
}
