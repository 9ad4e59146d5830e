// Headers of node:http: the rules for names and values, the headers of a request as the host accepts them, and those of a response as Node
// joins them.
import { decodedCodings, listCodings } from "../../../protocol/content-codings.ts";
import { checkString, nodeError } from "../shared/node-error.ts";
import { type HttpServer, restatesHost } from "./restated-headers.ts";

export type Headers = { [name: string]: unknown };
export type HeaderPair = readonly [name: string, value: string];

const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;

export function validateToken(what: string, text: unknown): asserts text is string {
  if (typeof text === "string" && TOKEN.test(text)) return;
  throw nodeError(TypeError, "ERR_INVALID_HTTP_TOKEN", `${what} must be a valid HTTP token ["${String(text)}"]`);
}

export function validateHeaderName(name: unknown): asserts name is string {
  validateToken("Header name", name);
}

export function validateHeaderValue(name: string, value: unknown): void {
  checkString(name, "name");
  if (value === undefined) {
    throw nodeError(TypeError, "ERR_HTTP_INVALID_HEADER_VALUE", `Invalid value "undefined" for header "${name}"`);
  }
  // An array is a list of values. Its text, joined by commas, has the same characters.
  if (/[^\t\x20-\x7e\x80-\xff]/.test(String(value))) {
    throw nodeError(TypeError, "ERR_INVALID_CHAR", `Invalid character in header content ["${name}"]`);
  }
}

/** Returns the headers of a request as they are sent. */
export function toWireHeaders(given: Iterable<readonly [string, unknown]>, server: HttpServer): HeaderPair[] {
  const pairs: HeaderPair[] = [];
  for (const [name, value] of given) {
    const values = (Array.isArray(value) ? value : [value]).map(String);
    for (const text of name.toLowerCase() === "cookie" ? [values.join("; ")] : values) {
      if (!restatesHost(name, text, server)) pairs.push([name, text]);
    }
  }
  return pairs;
}

/** Response headers of which Node keeps the first. */
const SINGLE = new Set([
  "age",
  "authorization",
  "content-length",
  "content-type",
  "etag",
  "expires",
  "from",
  "host",
  "if-modified-since",
  "if-unmodified-since",
  "last-modified",
  "location",
  "max-forwards",
  "proxy-authorization",
  "referer",
  "retry-after",
  "server",
  "user-agent",
]);

/** Joins the headers of a message by Node's rules. @param raw names and values in turn */
export function joinHeaders(raw: readonly string[], joinsSingle: boolean): Headers {
  const joined: Headers = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] as string).toLowerCase();
    const value = raw[index + 1] as string;
    const known = Object.hasOwn(joined, name) ? joined[name] : undefined;
    if (name === "set-cookie") joined[name] = [...((known as string[] | undefined) ?? []), value];
    else if (known === undefined) joined[name] = value;
    else if (joinsSingle || !SINGLE.has(name)) joined[name] = `${known}${name === "cookie" ? "; " : ", "}${value}`;
  }
  return joined;
}

/** Returns all values of each name. @param raw names and values in turn */
export function listHeaders(raw: readonly string[]): { [name: string]: string[] } {
  const listed = { __proto__: null } as unknown as { [name: string]: string[] };
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] as string).toLowerCase();
    listed[name] ??= [];
    listed[name].push(raw[index + 1] as string);
  }
  return listed;
}

/** Headers that describe an encoded body. */
const OF_ENCODED = ["content-encoding", "content-length"];

/** Returns the headers of a response with a body. The host has decoded the body, so they must not describe the encoded one. */
export function ofDecodedBody(pairs: readonly HeaderPair[]): readonly HeaderPair[] {
  const encodings = pairs.filter(([name]) => name.toLowerCase() === "content-encoding").map(([, value]) => value);
  const isDecoded = decodedCodings(listCodings(encodings.join(","))).length > 0;
  return isDecoded ? pairs.filter(([name]) => !OF_ENCODED.includes(name.toLowerCase())) : pairs;
}

/** Pairs the names and values of a flat list. */
export const pairUp = (flat: readonly unknown[]): [name: string, value: unknown][] =>
  Array.from({ length: Math.floor(flat.length / 2) }, (_, index) => [String(flat[index * 2]), flat[index * 2 + 1]]);
