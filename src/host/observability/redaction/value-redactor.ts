// Copies a value without its secrets, for telemetry, logs and display. Detects secrets by the names of fields, by patterns in values, and
// by known values. The original value is not changed.
import * as z from "zod";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { MAX_SECRET_BYTES, Redactor } from "./call-redactor.ts";
import { isCardNumber } from "./card-numbers.ts";
import { isSecretName, NameSet } from "./key-names.ts";
import { redactMatches } from "./value-matches.ts";

/** Options of {@link redact} and {@link createRedactor}. */
export interface RedactOptions {
  /** Additional names of secrets, as whole words in any case style: `["customerCode"]` also matches `X-Customer-Code`. */
  readonly names?: readonly string[] | undefined;
  /** Names that are not treated as secrets although they look like one. Patterns in their values are still redacted. */
  readonly allowNames?: readonly string[] | undefined;
  /** Known secrets by their labels, each of 8 to 8,192 bytes. Escaped, base64 and reversed forms are also redacted. */
  readonly values?: { readonly [label: string]: string } | undefined;
  /** Longest text in UTF-16 code units, 64 to 10,000,000. A longer text is truncated and its length is added. @default 4,096 */
  readonly maxTextUnits?: number | undefined;
  /** Nesting depth, 1 to 100. Deeper values are left out. @default 24 */
  readonly maxDepth?: number | undefined;
  /** Number of values, 1 to 1,000,000. Further values are left out. @default 10,000 */
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
type ParsedOptions = z.infer<typeof RedactOptionsSchema>;

const REDACTED = "[redacted]";
const LEFT_OUT = "[left out]";
/** Names of fields that contain the name of a `value` field next to them: `{ name: "Authorization", value: "…" }`. */
const NAME_FIELDS = ["name", "key", "header", "field"] as const;
/** Private members of a JSON Web Key (RFC 7517, 7518). */
const JWK_SECRETS: ReadonlySet<string> = new Set(["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]);
/** Nesting depth of JSON within strings of JSON. */
const MAX_JSON_DEPTH = 4;
/** Text after the truncation point that is also searched, so that a secret across that point is found. */
const MARGIN_LENGTH = 8_192;
/** The same margin for known values: an escaped byte takes up to six characters. */
const KNOWN_MARGIN_LENGTH = MAX_SECRET_BYTES * 6;

/** Redacts any number of values. The options are compiled once. Its methods never throw. */
export class ValueRedactor {
  readonly #options: ParsedOptions;
  readonly #names: NameSet;
  readonly #allowed: NameSet;
  readonly #known = new Redactor();

  /** @throws {ToolError} PARAM_INVALID, naming the invalid option */
  constructor(options: RedactOptions = {}) {
    const parsed = parseOptions(RedactOptionsSchema, options, "options");
    this.#options = parsed;
    this.#names = new NameSet(parsed.names);
    this.#allowed = new NameSet(parsed.allowNames);
    for (const [label, value] of Object.entries(parsed.values)) this.#known.addSecret(label, value);
  }

  /** Returns a copy without secrets: plain data, Maps, Sets and dates. Cycles, functions and bytes are replaced by a note. */
  value(value: unknown): unknown {
    return new ValueCopier(this, this.#options).copy(value, 0);
  }

  /** Redacts a text, which may be JSON. */
  text(text: string): string {
    return new ValueCopier(this, this.#options).text(text, 0);
  }

  readonly #isSecret = (name: string): boolean => this.isSecret(name);

  /** @internal */
  isSecret(name: string): boolean {
    return this.#names.has(name) || (isSecretName(name) && !this.#allowed.has(name));
  }

  /** @internal Redacts known values and patterns in a text, and truncates it. */
  plain(text: string): string {
    const { maxTextUnits } = this.#options;
    const isCut = text.length > maxTextUnits;
    const margin = this.#known.isEmpty ? MARGIN_LENGTH : KNOWN_MARGIN_LENGTH;
    const head = isCut ? text.slice(0, maxTextUnits + margin) : text;
    const redacted = redactMatches(this.#known.isEmpty ? head : this.#known.text(head), this.#isSecret);
    return isCut || redacted.length > maxTextUnits ? cut(redacted, maxTextUnits, text.length) : redacted;
  }
}

/** Truncates a text and adds its original length, in no more than `units`. */
function cut(text: string, maxLength: number, length: number): string {
  const note = `… [${length} characters]`;
  let end = Math.max(0, Math.min(text.length, maxLength - note.length));
  // Do not split a surrogate pair.
  if (/[\uD800-\uDBFF]/.test(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end) + note;
}

const isJsonLike = (text: string): boolean => /^\s*[[{]/.test(text.slice(0, 64)) && /[\]}]\s*$/.test(text.slice(-64));

/** Copies one value. */
class ValueCopier {
  readonly #redactor: ValueRedactor;
  readonly #options: ParsedOptions;
  readonly #path = new Set<object>();
  #left: number;

  constructor(redactor: ValueRedactor, options: ParsedOptions) {
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
    if (jsonDepth < MAX_JSON_DEPTH && text.length <= this.#options.maxTextUnits + MARGIN_LENGTH && isJsonLike(text)) {
      const whole = this.#json(text, jsonDepth);
      if (whole !== undefined) return this.#redactor.plain(whole);
    }
    return this.#redactor.plain(text);
  }

  /** Redacts JSON text; unchanged text is returned as it was. Returns undefined if the text is not JSON. */
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
      // A proxy, or an object that imitates a built-in type.
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
    // The loop stops early, because a sparse array can be arbitrarily long.
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
    const fields = new Map(entries);
    const isWebKey = typeof fields.get("kty") === "string";
    const named = NAME_FIELDS.map((field) => fields.get(field)).find((name) => typeof name === "string");
    const isNamed = typeof named === "string" && fields.has("value") && this.#redactor.isSecret(named);
    const copied: [unknown, unknown][] = [];
    for (const [key, value] of entries) {
      if (this.#left <= 0) {
        copied.push(["…", `[${entries.length - copied.length} more left out]`]);
        break;
      }
      const name = typeof key === "string" ? key : "";
      const isSecret =
        this.#redactor.isSecret(name) || (isWebKey && JWK_SECRETS.has(name)) || (isNamed && name === "value");
      const shown = isSecret && isHidden(value, name) ? REDACTED : this.copy(value, depth, jsonDepth);
      copied.push([typeof key === "string" ? this.#redactor.plain(key) : key, shown]);
    }
    return copied;
  }
}

/** Longest list that is treated as pairs; headers have fewer. */
const MAX_PAIRS = 1_000;

/** Returns whether a list consists of pairs of name and value, such as headers, forms and entries. */
function arePairs(items: readonly unknown[]): boolean {
  if (items.length === 0 || items.length > MAX_PAIRS) return false;
  try {
    return items.every((item) => Array.isArray(item) && item.length === 2 && typeof item[0] === "string");
  } catch {
    return false;
  }
}

/** Returns whether a secret's value is hidden. Missing values, booleans and token counts are not secrets. */
function isHidden(value: unknown, name: string): boolean {
  if (value === undefined || value === null || typeof value === "boolean" || value === "") return false;
  return !(typeof value === "number" && /tokens$/i.test(name));
}

/** Reads the fields of an object. Each getter is called once; one that throws is reported as unreadable. */
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

/** Creates an object; `__proto__` becomes an ordinary property. */
function toPlain(pairs: readonly (readonly [unknown, unknown])[]): object {
  const plain = {};
  for (const [key, value] of pairs) {
    Object.defineProperty(plain, String(key), { value, enumerable: true, configurable: true, writable: true });
  }
  return plain;
}

let defaultRedactor: ValueRedactor | undefined;

/**
 * Returns a copy of any value in which `[redacted]` replaces each secret. Secrets are detected by the names of fields, by patterns (JWTs,
 * bearer and basic credentials, private keys, card numbers, keys of known issuers, passwords in URLs and assignments), and by `values`.
 * Strings that contain JSON are searched too. The original value is not changed. Secrets without a known name, pattern or value remain.
 * @throws {ToolError} PARAM_INVALID for invalid options; never for a value
 * @example
 * ```ts
 * import { redact } from "glovebox";
 * console.log(redact({ apiKey: "k-1", monkey: "see" })); // { apiKey: '[redacted]', monkey: 'see' }
 * ```
 */
export function redact(value: unknown, options?: RedactOptions): unknown {
  if (options !== undefined) return new ValueRedactor(options).value(value);
  defaultRedactor ??= new ValueRedactor();
  return defaultRedactor.value(value);
}

/**
 * Returns a function that redacts values as {@link redact} does. The options are compiled once, which makes it many times faster for small values.
 * @throws {ToolError} PARAM_INVALID for invalid options
 * @example
 * ```ts
 * import { createRedactor } from "glovebox";
 *
 * const redact = createRedactor({ names: ["iban"] });
 * console.log(redact({ iban: "DE89370400440532013000", city: "Riga" })); // { iban: '[redacted]', city: 'Riga' }
 * ```
 */
export function createRedactor(options: RedactOptions = {}): (value: unknown) => unknown {
  const redactor = new ValueRedactor(options);
  return (value) => redactor.value(value);
}
