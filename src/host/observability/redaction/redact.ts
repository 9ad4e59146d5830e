// A value as it may be shown: in telemetry, in logs, to a person. Secrets are found by their names, by what they look like, and by what
// they are known to be; the value itself stays as it is.
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { isCardNumber } from "./card-numbers.ts";
import { isSecretName, NameSet } from "./key-names.ts";
import { MAX_SECRET_BYTES, Redactor } from "./redactor.ts";
import { redactShapes } from "./value-shapes.ts";

export interface RedactOptions {
  /** Names of secrets besides the usual ones, as whole words in any case style: `["customerCode"]` is also `X-Customer-Code`. */
  readonly names?: readonly string[] | undefined;
  /** Names whose values are shown though they look like a secret's. What the values look like is looked at all the same. */
  readonly allowNames?: readonly string[] | undefined;
  /** Secrets that are known, by the label that stands in their place; each of 8 to 8,192 bytes. Escaped, in base64 and reversed too. */
  readonly values?: { readonly [label: string]: string } | undefined;
  /** A longer text is cut, and says how long it was; 64 to 10,000,000 UTF-16 units, 4,096 unless stated. */
  readonly maxTextUnits?: number | undefined;
  /** What is nested deeper is left out; 1 to 100, 24 unless stated. */
  readonly maxDepth?: number | undefined;
  /** What comes after so many values is left out; 1 to 1,000,000, 10,000 unless stated. */
  readonly maxValues?: number | undefined;
}

export const RedactOptionsSchema = strictObject({
  names: z.array(z.string().min(1)).default([]),
  allowNames: z.array(z.string().min(1)).default([]),
  values: z.record(z.string().min(1), z.string()).default({}),
  maxTextUnits: z.int().min(64).max(10_000_000).default(4_096),
  maxDepth: z.int().min(1).max(100).default(24),
  maxValues: z.int().min(1).max(1_000_000).default(10_000),
});
type Settled = z.infer<typeof RedactOptionsSchema>;

const REDACTED = "[redacted]";
const LEFT_OUT = "[left out]";
/** Names and values in one object: `{ name: "Authorization", value: "…" }`. */
const NAME_FIELDS = ["name", "key", "header", "field"] as const;
/** Of a JSON Web Key (RFC 7517, 7518): the private part. */
const JWK_SECRETS: ReadonlySet<string> = new Set(["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]);
/** JSON in a text in JSON …: so many times. */
const MAX_JSON_DEPTH = 4;
/** Behind the place where a text is cut so much of it is looked at, so that a secret across that place is found whole. */
const MARGIN_UNITS = 8_192;
/** As a known value may be written: six signs for each byte. */
const KNOWN_MARGIN_UNITS = MAX_SECRET_BYTES * 6;

/** Compiled once; used for any number of values. Never throws. */
export class ValueRedactor {
  readonly #options: Settled;
  readonly #names: NameSet;
  readonly #allowed: NameSet;
  readonly #known = new Redactor();

  /** @throws {ToolError} PARAM_INVALID, naming the option that is wrong */
  constructor(options: RedactOptions = {}) {
    const parsed = parseOptions(RedactOptionsSchema, options, "options");
    this.#options = parsed;
    this.#names = new NameSet(parsed.names);
    this.#allowed = new NameSet(parsed.allowNames);
    for (const [label, value] of Object.entries(parsed.values)) this.#known.conceal(label, value);
  }

  /** A copy without secrets: plain data, with Maps, Sets and dates as they are. Cycles, functions and bytes are named, not shown. */
  value(value: unknown): unknown {
    return new Walk(this, this.#options).copy(value, 0);
  }

  /** One text, JSON or not. */
  text(text: string): string {
    return new Walk(this, this.#options).text(text, 0);
  }

  readonly #isSecret = (name: string): boolean => this.isSecret(name);

  /** @internal */
  isSecret(name: string): boolean {
    return this.#names.has(name) || (isSecretName(name) && !this.#allowed.has(name));
  }

  /** @internal By value and by shape, as far as the text will be shown. */
  plain(text: string): string {
    const { maxTextUnits } = this.#options;
    const isCut = text.length > maxTextUnits;
    const margin = this.#known.isIdle ? MARGIN_UNITS : KNOWN_MARGIN_UNITS;
    const head = isCut ? text.slice(0, maxTextUnits + margin) : text;
    const redacted = redactShapes(this.#known.isIdle ? head : this.#known.text(head), this.#isSecret);
    return isCut || redacted.length > maxTextUnits ? cut(redacted, maxTextUnits, text.length) : redacted;
  }
}

/** What is left of a longer text, with its length, in no more than `units`. */
function cut(text: string, units: number, length: number): string {
  const note = `… [${length} characters]`;
  let end = Math.max(0, Math.min(text.length, units - note.length));
  // Not through a pair of surrogates.
  if (/[\uD800-\uDBFF]/.test(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end) + note;
}

const isJsonLike = (text: string): boolean => /^\s*[[{]/.test(text.slice(0, 64)) && /[\]}]\s*$/.test(text.slice(-64));

/** One value on its way. */
class Walk {
  readonly #redactor: ValueRedactor;
  readonly #options: Settled;
  readonly #path = new Set<object>();
  #left: number;

  constructor(redactor: ValueRedactor, options: Settled) {
    this.#redactor = redactor;
    this.#options = options;
    this.#left = options.maxValues;
  }

  copy(value: unknown, depth: number, jsonDepth = 0): unknown {
    if (this.#left <= 0) return LEFT_OUT;
    this.#left -= 1;
    switch (typeof value) {
      case "string":
        return this.text(value, jsonDepth);
      case "number":
      case "bigint":
        return isCardNumber(String(value)) ? "[redacted:card]" : value;
      case "function":
        return "[function]";
      case "symbol":
        return "[symbol]";
      case "object":
        return value === null ? null : this.#object(value, depth, jsonDepth);
      default:
        return value;
    }
  }

  text(text: string, jsonDepth: number): string {
    if (jsonDepth < MAX_JSON_DEPTH && text.length <= this.#options.maxTextUnits + MARGIN_UNITS && isJsonLike(text)) {
      const whole = this.#json(text, jsonDepth);
      if (whole !== undefined) return this.#redactor.plain(whole);
    }
    return this.#redactor.plain(text);
  }

  /** JSON in a text: read, redacted and written again; as it was where there was nothing to redact. Undefined where it is none. */
  #json(text: string, jsonDepth: number): string | undefined {
    try {
      const parsed: unknown = JSON.parse(text);
      const before = JSON.stringify(parsed);
      const after = JSON.stringify(this.copy(parsed, 0, jsonDepth + 1));
      return before === after ? text : after;
    } catch {
      return undefined;
    }
  }

  #object(value: object, depth: number, jsonDepth: number): unknown {
    if (this.#path.has(value)) return "[circular]";
    if (depth >= this.#options.maxDepth) return LEFT_OUT;
    this.#path.add(value);
    try {
      return this.#copyObject(value, depth + 1, jsonDepth);
    } catch {
      // A proxy, or what only looks like one of its kind.
      return "[unreadable]";
    } finally {
      this.#path.delete(value);
    }
  }

  #copyObject(value: object, depth: number, jsonDepth: number): unknown {
    if (Array.isArray(value)) return this.#array(value, depth, jsonDepth);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) {
      return `[${value.byteLength} bytes]`;
    }
    if (value instanceof Date) return new Date(value.getTime());
    if (value instanceof RegExp || value instanceof URL) return this.text(String(value), MAX_JSON_DEPTH);
    if (value instanceof String || value instanceof Number) return this.copy(value.valueOf(), depth, jsonDepth);
    if (value instanceof Set) return new Set(this.#array([...value], depth, jsonDepth));
    if (value instanceof Map) {
      const pairs = this.#pairs([...value], depth, jsonDepth);
      return new Map(pairs.map(([key, shown]) => [typeof key === "object" ? this.copy(key, depth) : key, shown]));
    }
    if (value instanceof Headers || value instanceof URLSearchParams || value instanceof FormData) {
      return Object.fromEntries(this.#pairs([...(value as Iterable<[string, unknown]>)], depth, jsonDepth));
    }
    const entries: [unknown, unknown][] = Error.isError(value) ? errorFields(value) : fieldsOf(value);
    return toPlain(this.#pairs(entries, depth, jsonDepth));
  }

  #array(items: readonly unknown[], depth: number, jsonDepth: number): unknown[] {
    const copied: unknown[] = [];
    const isList = arePairs(items);
    // One that is sparse has no end that could be waited for.
    for (let at = 0; at < items.length; at += 1) {
      if (this.#left <= 0) {
        copied.push(`[${items.length - at} more left out]`);
        break;
      }
      const item = items[at];
      if (!isList) copied.push(this.copy(item, depth, jsonDepth));
      else copied.push(...this.#pairs([item as [string, unknown]], depth, jsonDepth));
    }
    return copied;
  }

  #pairs(entries: readonly (readonly [unknown, unknown])[], depth: number, jsonDepth: number): [unknown, unknown][] {
    const stated = new Map(entries);
    const isKey = typeof stated.get("kty") === "string";
    const named = NAME_FIELDS.map((field) => stated.get(field)).find((name) => typeof name === "string");
    const isNamed = typeof named === "string" && stated.has("value") && this.#redactor.isSecret(named);
    const copied: [unknown, unknown][] = [];
    for (const [key, value] of entries) {
      if (this.#left <= 0) {
        copied.push(["…", `[${entries.length - copied.length} more left out]`]);
        break;
      }
      const name = typeof key === "string" ? key : "";
      const isSecret =
        this.#redactor.isSecret(name) || (isKey && JWK_SECRETS.has(name)) || (isNamed && name === "value");
      const shown = isSecret && isHidden(value, name) ? REDACTED : this.copy(value, depth, jsonDepth);
      copied.push([typeof key === "string" ? this.#redactor.plain(key) : key, shown]);
    }
    return copied;
  }
}

/** A longer list is none of headers. */
const MAX_PAIRS = 1_000;

/** Names and values as a list has them: headers, forms, entries. */
function arePairs(items: readonly unknown[]): boolean {
  if (items.length === 0 || items.length > MAX_PAIRS) return false;
  try {
    return items.every((item) => Array.isArray(item) && item.length === 2 && typeof item[0] === "string");
  } catch {
    return false;
  }
}

/** Nothing, yes and no are no secrets; nor is what many tokens are counted by. */
function isHidden(value: unknown, name: string): boolean {
  if (value === undefined || value === null || typeof value === "boolean" || value === "") return false;
  return !(typeof value === "number" && /tokens$/i.test(name));
}

/** An accessor is asked once; one that throws says nothing. */
function fieldsOf(value: object): [string, unknown][] {
  return Object.keys(value).map((key) => {
    try {
      return [key, (value as { readonly [key: string]: unknown })[key]];
    } catch {
      return [key, "[unreadable]"];
    }
  });
}

function errorFields(error: Error): [string, unknown][] {
  const { name, message, stack, cause } = error;
  const shown = new Map<string, unknown>([
    ["name", name],
    ["message", message],
    ...fieldsOf(error),
    ...(stack === undefined ? [] : [["stack", stack] as const]),
    ...(cause === undefined ? [] : [["cause", cause] as const]),
  ]);
  if ("errors" in error) shown.set("errors", error.errors);
  return [...shown];
}

/** `__proto__` is a name like any other. */
function toPlain(pairs: readonly (readonly [unknown, unknown])[]): object {
  const plain = {};
  for (const [key, value] of pairs) {
    Object.defineProperty(plain, String(key), { value, enumerable: true, configurable: true, writable: true });
  }
  return plain;
}

const DEFAULT = new ValueRedactor();

/**
 * A copy of any value with `[redacted]` in the place of each secret: by the names that values stand under, by what they look like (JWTs,
 * bearer and basic credentials, private keys, card numbers, keys of known issuers, passwords in URLs and assignments), and by `values`.
 * JSON in texts is looked into. The value itself is not touched. It finds what shows itself, which is not every secret there is.
 * @throws {ToolError} PARAM_INVALID for options that are wrong; never for a value
 * @example
 * ```ts
 * import { redact } from "glovebox";
 * console.log(redact({ apiKey: "k-1", monkey: "see" })); // { apiKey: '[redacted]', monkey: 'see' }
 * ```
 */
export function redact(value: unknown, options?: RedactOptions): unknown {
  return (options === undefined ? DEFAULT : new ValueRedactor(options)).value(value);
}
