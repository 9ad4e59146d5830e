// Computes the JSON pointer of a `__proto__` key in large JSON text, for the error message.
import { toBoundedPointer } from "../json-schema/json-pointer.ts";
import { CLOSE, COMMA, KINDS, OPEN, OPEN_BRACKET, STRING, skipString, stringTextAt } from "./json-scanner.ts";
import { PROTO } from "./proto-key.ts";

const MAX_POINTER_LENGTH = 1_024;

/** The open containers at one position of a text, by level. Level 1 is the outermost. */
export interface OpenContainers {
  /** Positions of the opening brackets. */
  readonly opens: readonly number[];
  /** Positions of the keys; -1 in a list. */
  readonly keys: readonly number[];
  /** Level of the innermost container. */
  readonly depth: number;
}

/**
 * Returns the pointer of the key `__proto__` in the innermost of the open containers.
 * @throws {SyntaxError} if the key of a container is not a valid JSON string
 */
export function pointerToProtoKey(bytes: Buffer, containers: OpenContainers): string {
  const { opens, keys, depth } = containers;
  const path: (string | number)[] = [];
  for (let level = 1; level < depth; level += 1) {
    const isArray = bytes[opens[level] ?? 0] === OPEN_BRACKET;
    const start = keys[level + 1] ?? -1;
    path.push(isArray ? countCommas(bytes, containers, level) : readKey(bytes, start));
  }
  return toBoundedPointer([...path, PROTO], MAX_POINTER_LENGTH);
}

/** Returns the index of the open item of a list: the number of the list's own commas before that item. */
function countCommas(bytes: Buffer, { opens }: OpenContainers, level: number): number {
  const end = opens[level + 1] ?? 0;
  let commas = 0;
  let depth = 0;
  for (let at = (opens[level] ?? 0) + 1; at < end; at += 1) {
    const kind = KINDS[bytes[at] ?? 0];
    if (kind === STRING) at = skipString(bytes, at + 1, end);
    else if (kind === OPEN) depth += 1;
    else if (kind === CLOSE) depth -= 1;
    else if (kind === COMMA && depth === 0) commas += 1;
  }
  return commas;
}

const readKey = (bytes: Buffer, start: number): string =>
  String(JSON.parse(start < 0 ? "" : stringTextAt(bytes, start)));
