// Parses untrusted JSON text: checks size and depth first, then parses it at once if small, otherwise in time slices. Hostile text can
// neither block nor pollute the host.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { type CpuAccount, encodeTimeSliced } from "../util/time-slicing.ts";
import { CONTAINER_VALUES, JsonErrorFactory, type JsonTextCodes, type JsonTextLimits } from "./json-errors.ts";
import { containsNonFinite } from "./non-finite.ts";
import { checkLargeJson, parseLargeJson } from "./parse-large-json.ts";
import { isProtoKey, MAX_PROTO_LENGTH, PROTO } from "./proto-key.ts";

/** The worst text of this size takes 5 ms (measured). */
const SMALL_JSON_BYTES = 128 * 1024;

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const COMMA = 44;
const COLON = 58;
const SPACE = 32;

/** Returns the depth of valid JSON text. Stops counting above `limit`. */
export function depthOf(text: string, limit: number): number {
  let depth = 0;
  let deepest = 0;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit === QUOTE) index = endOfString(text, index);
    else if (unit === OPEN_BRACKET || unit === OPEN_BRACE) {
      depth += 1;
      if (depth > deepest) deepest = depth;
      if (deepest > limit) return deepest;
    } else if (unit === CLOSE_BRACKET || unit === CLOSE_BRACE) depth -= 1;
  }
  return deepest;
}

/** Returns the index of the closing quote of the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}

/** Returns the number of values in valid JSON text, weighted by {@link CONTAINER_VALUES}. Stops counting above `limit`. */
function countValues(text: string, limit: number): number {
  let count = 0;
  for (let index = 0; index < text.length && count <= limit; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit === QUOTE) index = endOfString(text, index);
    // A number or a word is counted at its last code unit.
    else if (isScalarUnit(unit) && isScalarUnit(text.charCodeAt(index + 1))) continue;
    else if (!isScalarUnit(unit) && unit !== OPEN_BRACKET && unit !== OPEN_BRACE) continue;
    count += unit === OPEN_BRACKET || unit === OPEN_BRACE ? CONTAINER_VALUES : 1;
  }
  return count;
}

/** Characters of a number, `true`, `false` or `null`. */
const isScalarUnit = (unit: number): boolean =>
  unit > SPACE &&
  unit !== QUOTE &&
  unit !== COMMA &&
  unit !== COLON &&
  unit !== OPEN_BRACKET &&
  unit !== CLOSE_BRACKET &&
  unit !== OPEN_BRACE &&
  unit !== CLOSE_BRACE;

/**
 * Returns whether valid JSON text has a key `__proto__`, which a careless merge could follow. Reads the text, because walking the value
 * took 3.9 s for 8 MB of `[],[],…`.
 */
function hasProtoKey(text: string): boolean {
  let start = text.indexOf('"');
  while (start >= 0) {
    const end = endOfString(text, start);
    const length = end - start - 1;
    if (length >= PROTO.length && length <= MAX_PROTO_LENGTH && isProtoKey(text.slice(start + 1, end))) {
      let next = end + 1;
      while (text.charCodeAt(next) <= SPACE) next += 1;
      if (text.charCodeAt(next) === COLON) return true;
    }
    start = text.indexOf('"', end + 1);
  }
  return false;
}

/** Number of values that are visited for a better error message. */
const MAX_VISITS = 10_000;

/** Returns the path of the key as an RFC 6901 pointer, or undefined if it is not among the first values. */
function findProtoKey(root: JsonValue): string | undefined {
  let visits = 0;
  const visit = (value: JsonValue, pointer: string): string | undefined => {
    visits += 1;
    if (typeof value !== "object" || value === null || visits > MAX_VISITS) return undefined;
    if (Object.hasOwn(value, PROTO)) return `${pointer}/${PROTO}`;
    for (const key in value) {
      const token = key.slice(0, 100).replaceAll("~", "~0").replaceAll("/", "~1");
      const found = visit((value as { readonly [key: string]: JsonValue })[key] ?? null, `${pointer}/${token}`);
      if (found !== undefined || visits > MAX_VISITS) return found;
    }
    return undefined;
  };
  return visit(root, "");
}

/** @throws {ToolError} `codes.tooLarge` for more than `limits.bytes` */
export function checkJsonBytes(bytes: number, limits: JsonTextLimits, codes: JsonTextCodes, what: string): void {
  if (bytes > limits.bytes) throw new JsonErrorFactory(limits, codes, what).bytes(bytes);
}

/** Checks text before it is parsed. */
function checkSmallBounds(text: string, limits: JsonTextLimits, codes: JsonTextCodes, what: string): void {
  // UTF-8 has at most three bytes for a UTF-16 code unit: short texts need no exact count.
  if (text.length * 3 > limits.bytes) checkJsonBytes(Buffer.byteLength(text), limits, codes, what);
  if (depthOf(text, limits.depth) > limits.depth) throw new JsonErrorFactory(limits, codes, what).depth();
}

/** Checks valid JSON text. */
function checkSmallContent(text: string, limits: JsonTextLimits, codes: JsonTextCodes, what: string): void {
  // An array or object takes at least two code units: most texts need no count.
  if (text.length * (CONTAINER_VALUES / 2) > limits.values && countValues(text, limits.values) > limits.values) {
    throw new JsonErrorFactory(limits, codes, what).values();
  }
  if (text.includes("__proto__") || text.includes("\\u005f") || text.includes("\\u005F")) {
    if (hasProtoKey(text)) throw new JsonErrorFactory(limits, codes, what).protoKey(findProtoKey(JSON.parse(text)));
  }
}

/** Checks text from this process's own JSON.stringify as {@link parseSmallJson} does, without parsing it. */
export function checkSmallJson(text: string, limits: JsonTextLimits, codes: JsonTextCodes, what: string): void {
  checkSmallBounds(text, limits, codes, what);
  checkSmallContent(text, limits, codes, what);
}

/**
 * Parses JSON text at once. Only for small text, because 8 MiB can take 0.8 s.
 * @param what names the value in messages, e.g. "The output"
 * @throws {ToolError} `codes.tooLarge`, or `codes.invalid` for invalid JSON, nesting deeper than `limits.depth`, a number beyond the
 *   range of a double, or a `__proto__` key
 */
export function parseSmallJson(text: string, limits: JsonTextLimits, codes: JsonTextCodes, what: string): JsonValue {
  checkSmallBounds(text, limits, codes, what);
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (cause) {
    throw new JsonErrorFactory(limits, codes, what).syntaxOfWhole(cause);
  }
  checkSmallContent(text, limits, codes, what);
  if (containsNonFinite(value, text)) throw new JsonErrorFactory(limits, codes, what).infinity();
  return value;
}

/**
 * Returns whether text is parsed at once, which saves a turn of the event loop. This includes text of any size with a lone surrogate,
 * because UTF-8 cannot encode it. Such text comes from this process, not from a wire.
 */
export function isSmallJson(text: string | Buffer): boolean {
  return text.length <= SMALL_JSON_BYTES || (typeof text === "string" && !text.isWellFormed());
}

/** Parses text as {@link parseSmallJson} does, but in time slices. Also rejects with the signal's reason when the signal aborts. */
export async function parseLargeText(
  text: string | Buffer,
  limits: JsonTextLimits,
  codes: JsonTextCodes,
  what: string,
  signal: AbortSignal,
  cpuAccount?: CpuAccount,
): Promise<JsonValue> {
  checkJsonBytes(typeof text === "string" ? Buffer.byteLength(text) : text.length, limits, codes, what);
  const bytes = typeof text === "string" ? await encodeTimeSliced(text, signal) : text;
  return await parseLargeJson(bytes, {
    limits,
    errors: new JsonErrorFactory(limits, codes, what),
    signal,
    cpuAccount,
  });
}

/** Checks text as {@link checkSmallJson} does, but in time slices. Also rejects with the signal's reason when the signal aborts. */
export async function checkLargeText(
  bytes: Buffer,
  limits: JsonTextLimits,
  codes: JsonTextCodes,
  what: string,
  signal: AbortSignal,
): Promise<void> {
  checkJsonBytes(bytes.length, limits, codes, what);
  await checkLargeJson(bytes, { limits, errors: new JsonErrorFactory(limits, codes, what), signal });
}
