// node:querystring: parses and serializes query strings.
import { Buffer } from "../buffer/node-buffer.ts";

type Values = { [name: string]: string | string[] };
type Codec = (text: string) => string;

function escapeText(value: unknown): string {
  const text = typeof value === "string" ? value : String(value);
  return encodeURIComponent(text);
}

function unescapeBuffer(text: string): Buffer {
  const bytes: number[] = [];
  for (let index = 0; index < text.length; index += 1) {
    const hex = text.slice(index + 1, index + 3);
    if (text[index] === "%" && /^[0-9a-f]{2}$/i.test(hex)) {
      bytes.push(Number.parseInt(hex, 16));
      index += 2;
    } else bytes.push(text.charCodeAt(index) & 0xff);
  }
  return Buffer.from(bytes);
}

function unescapeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return unescapeBuffer(text).toString();
  }
}

function toText(value: unknown): string {
  switch (typeof value) {
    case "string":
      return value;
    case "number":
      return Number.isFinite(value) ? String(value) : "";
    case "bigint":
    case "boolean":
      return String(value);
    default:
      return "";
  }
}

interface Options {
  readonly encodeURIComponent?: Codec;
  readonly decodeURIComponent?: Codec;
  readonly maxKeys?: number;
}

function stringify(values: unknown, separator?: string | null, equals?: string | null, options?: Options): string {
  if (typeof values !== "object" || values === null) return "";
  const encode = options?.encodeURIComponent ?? querystring.escape;
  const pair = (name: string, value: unknown): string => `${encode(name)}${equals || "="}${encode(toText(value))}`;
  return Object.entries(values)
    .flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => pair(name, one)) : [pair(name, value)]))
    .join(separator || "&");
}

function parse(text: unknown, separator?: string | null, equals?: string | null, options?: Options): Values {
  const values = Object.create(null) as Values;
  if (typeof text !== "string" || text === "") return values;
  const custom = options?.decodeURIComponent ?? querystring.unescape;
  const decode = (part: string): string => {
    const spaced = part.replaceAll("+", " ");
    try {
      return custom(spaced);
    } catch {
      return unescapeText(spaced);
    }
  };
  const maxKeys = options?.maxKeys ?? 1_000;
  const sign = equals || "=";
  const parts = text.split(separator || "&").filter((part) => part !== "");
  for (const part of maxKeys > 0 ? parts.slice(0, maxKeys) : parts) {
    const at = part.indexOf(sign);
    const name = decode(at < 0 ? part : part.slice(0, at));
    const value = at < 0 ? "" : decode(part.slice(at + sign.length));
    const known = values[name];
    if (known === undefined) values[name] = value;
    else if (Array.isArray(known)) known.push(value);
    else values[name] = [known, value];
  }
  return values;
}

export const querystring = {
  escape: escapeText,
  unescape: unescapeText,
  unescapeBuffer,
  stringify,
  encode: stringify,
  parse,
  decode: parse,
};
