// JSON text that comes from outside: size-checked, depth-checked, then parsed. Nothing hostile stalls or pollutes the host.
import { type ErrorCode, type JsonValue, ToolError } from "../sandbox/errors.ts";

export interface JsonTextLimits {
  readonly bytes: number;
  readonly depth: number;
}

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const COLON = 58;
const SPACE = 32;

/** The deepest nesting of valid JSON text; stops counting past `limit`. */
function depthOf(text: string, limit: number): number {
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

/** The index of the quote that ends the string which begins at `start`. */
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

const PROTO = "__proto__";
/** Every unit as an escape: the longest way to write the key. */
const LONGEST_PROTO = PROTO.length * "\\u005f".length;

/** Whether the text between two quotes is the key, plain or with escapes. */
function isProto(raw: string): boolean {
  return raw === PROTO || (raw.includes("\\") && JSON.parse(`"${raw}"`) === PROTO);
}

/**
 * Whether valid JSON text has a key `__proto__`, which a careless merge downstream would follow. Read from the text: to walk
 * the value took 3.9 s for 8 MB of `[],[],…`.
 */
function hasProtoKey(text: string): boolean {
  let start = text.indexOf('"');
  while (start >= 0) {
    const end = endOfString(text, start);
    const length = end - start - 1;
    if (length >= PROTO.length && length <= LONGEST_PROTO && isProto(text.slice(start + 1, end))) {
      let next = end + 1;
      while (text.charCodeAt(next) <= SPACE) next += 1;
      if (text.charCodeAt(next) === COLON) return true;
    }
    start = text.indexOf('"', end + 1);
  }
  return false;
}

/** Visits that a better message is worth. */
const MAX_VISITS = 10_000;

/** Where the key is, as an RFC 6901 pointer; undefined when it is not among the first values. */
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

/** Which code each kind of violation gets: an input's and an output's differ. */
export interface JsonTextCodes {
  readonly invalid: ErrorCode;
  readonly tooLarge: ErrorCode;
}

/** @throws {ToolError} `codes.tooLarge` past `limits.bytes` */
export function checkJsonBytes(bytes: number, limits: JsonTextLimits, codes: JsonTextCodes, what: string): void {
  if (bytes <= limits.bytes) return;
  throw new ToolError(codes.tooLarge, `${what}: expected at most ${limits.bytes} bytes of JSON, got ${bytes}`, {
    details: { limitBytes: limits.bytes, bytes },
  });
}

/**
 * Parses JSON text.
 * @param what names the value in messages, e.g. "The output"
 * @throws {ToolError} `codes.tooLarge`, or `codes.invalid` for bad JSON, nesting past `limits.depth`, or a `__proto__` key
 */
export function parseJsonText(text: string, limits: JsonTextLimits, codes: JsonTextCodes, what: string): JsonValue {
  // UTF-8 is at most three bytes for a UTF-16 unit: short texts need no exact count.
  if (text.length * 3 > limits.bytes) checkJsonBytes(Buffer.byteLength(text), limits, codes, what);
  if (depthOf(text, limits.depth) > limits.depth) {
    throw new ToolError(codes.invalid, `${what}: expected JSON nested at most ${limits.depth} deep`, {
      details: { limitDepth: limits.depth },
    });
  }
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch (cause) {
    throw new ToolError(codes.invalid, `${what}: expected JSON, got text that is not`, { cause });
  }
  if (text.includes("__proto__") || text.includes("\\u005f") || text.includes("\\u005F")) {
    if (hasProtoKey(text)) {
      const pointer = findProtoKey(value);
      const where = pointer === undefined ? "" : `, at ${pointer}`;
      throw new ToolError(codes.invalid, `${what}: the key "__proto__" is not allowed${where}`, {
        ...(pointer === undefined ? {} : { details: { problems: [{ pointer, message: "This key is not allowed" }] } }),
      });
    }
  }
  return value;
}
