// Saves a list of tools from one tool that cannot be parsed: its text is replaced by its name and the reason, so that it costs only itself.
import { Buffer } from "node:buffer";

/** Key of a tool whose definition was replaced. Its value is the reason. */
export const UNREADABLE_KEY = "glovebox/unreadable";

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN: ReadonlySet<number> = new Set([91, 123]);
const CLOSE: ReadonlySet<number> = new Set([93, 125]);
/** Depth of a tool in a response: the message, its result, and the list. */
const TOOL_DEPTH = 4;
const MAX_NAME_LENGTH = 256;
/** `__proto__`, also with escapes. */
const PROTO_KEY =
  /^"(?:_|\\u005[fF]){2}(?:p|\\u0070)(?:r|\\u0072)(?:o|\\u006[fF])(?:t|\\u0074)(?:o|\\u006[fF])(?:_|\\u005[fF]){2}"$/;
const MAX_PROTO_TEXT = 64;

interface Scanned {
  readonly start: number;
  deepest: number;
  hasProtoKey: boolean;
  name: string | undefined;
}

/** Returns the index of the closing quote of the string that starts at `start`. */
function endOfString(bytes: Buffer, start: number): number {
  for (let at = start + 1; at < bytes.length; at += 1) {
    if (bytes[at] === BACKSLASH) at += 1;
    else if (bytes[at] === QUOTE) return at;
  }
  return bytes.length;
}

const isKey = (bytes: Buffer, end: number): boolean => {
  for (let at = end + 1; at < bytes.length; at += 1) if ((bytes[at] as number) > 32) return bytes[at] === 58;
  return false;
};

function textAt(bytes: Buffer, start: number, end: number): string | undefined {
  try {
    return JSON.parse(bytes.toString("utf8", start, end + 1)) as string;
  } catch {
    return undefined;
  }
}

/**
 * Returns a response in which each item of a list at the depth of tools is replaced if it is nested too deeply or has a key `__proto__`;
 * undefined if there is no such item. Whether the response is a list of tools is decided by its reader.
 */
export function replaceUnreadableTools(bytes: Buffer, maxDepth: number): Buffer | undefined {
  const parts: Buffer[] = [];
  let from = 0;
  let depth = 0;
  let item: Scanned | undefined;
  let isNameNext = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const unit = bytes[at] as number;
    if (unit === QUOTE) {
      const end = endOfString(bytes, at);
      if (item !== undefined && isKey(bytes, end)) {
        const length = end - at + 1;
        const isShort = length <= MAX_PROTO_TEXT;
        item.hasProtoKey ||= isShort && PROTO_KEY.test(bytes.toString("latin1", at, end + 1));
        isNameNext = depth === TOOL_DEPTH && length === 6 && bytes.toString("latin1", at, end + 1) === '"name"';
      } else if (isNameNext && item !== undefined) {
        item.name ??= textAt(bytes, at, end);
        isNameNext = false;
      }
      at = end;
    } else if (OPEN.has(unit)) {
      depth += 1;
      if (depth === TOOL_DEPTH) item = { start: at, deepest: depth, hasProtoKey: false, name: undefined };
      if (item !== undefined && depth > item.deepest) item.deepest = depth;
    } else if (CLOSE.has(unit)) {
      if (depth === TOOL_DEPTH && item !== undefined) {
        const problem = problemOf(item, maxDepth);
        if (problem !== undefined) {
          const name = (item.name ?? "").slice(0, MAX_NAME_LENGTH);
          parts.push(
            bytes.subarray(from, item.start),
            Buffer.from(JSON.stringify({ name, [UNREADABLE_KEY]: problem })),
          );
          from = at + 1;
        }
        item = undefined;
      }
      depth -= 1;
    }
  }
  return parts.length === 0 ? undefined : Buffer.concat([...parts, bytes.subarray(from)]);
}

function problemOf({ deepest, hasProtoKey }: Scanned, maxDepth: number): string | undefined {
  if (deepest > maxDepth) return `Its definition is nested more than ${maxDepth} levels deep`;
  return hasProtoKey ? 'Its definition has the key "__proto__", which is not allowed' : undefined;
}
