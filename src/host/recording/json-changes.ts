// Compares two JSON values, for reports of rehearsals: which places differ, and how.
import type { JsonValue } from "../../sandbox/contract/errors.ts";

/** One place in which two values differ. `path` is a JSON Pointer (RFC 6901). */
export interface JsonChange {
  readonly path: string;
  readonly kind: "added" | "removed" | "changed";
  /** Recorded value as JSON text, at most 200 characters. Absent for `added`. */
  readonly before?: string;
  /** New value as JSON text, at most 200 characters. Absent for `removed`. */
  readonly after?: string;
}

const MAX_CHANGES = 50;
const MAX_DEPTH = 64;
const SHOWN_LENGTH = 200;

const shown = (value: JsonValue): string => JSON.stringify(value).slice(0, SHOWN_LENGTH);
const escaped = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1");
const isContainer = (value: JsonValue): value is readonly JsonValue[] | { readonly [key: string]: JsonValue } =>
  typeof value === "object" && value !== null;

/** Returns the places in which two values differ, at most 50, in the order of the recorded value. */
export function jsonChanges(before: JsonValue, after: JsonValue): readonly JsonChange[] {
  const changes: JsonChange[] = [];
  collect(before, after, "", 0, changes);
  return changes;
}

function collect(before: JsonValue, after: JsonValue, path: string, depth: number, changes: JsonChange[]): void {
  if (changes.length >= MAX_CHANGES || before === after) return;
  const isSameKind = isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after);
  if (!isSameKind || depth >= MAX_DEPTH) {
    if (isSameKind && JSON.stringify(before) === JSON.stringify(after)) return;
    changes.push({ path, kind: "changed", before: shown(before), after: shown(after) });
    return;
  }
  const old = new Map(Object.entries(before));
  const now = new Map(Object.entries(after));
  for (const [key, value] of old) {
    if (changes.length >= MAX_CHANGES) return;
    const at = `${path}/${escaped(key)}`;
    const other = now.get(key);
    if (other === undefined) changes.push({ path: at, kind: "removed", before: shown(value) });
    else collect(value, other, at, depth + 1, changes);
  }
  for (const [key, value] of now) {
    if (changes.length >= MAX_CHANGES) return;
    if (!old.has(key)) changes.push({ path: `${path}/${escaped(key)}`, kind: "added", after: shown(value) });
  }
}

/** Returns a text that is equal for outputs that differ in the same places. Indexes of arrays count as one place. */
export const changePattern = (changes: readonly JsonChange[]): string =>
  [...new Set(changes.map(({ path, kind }) => `${kind} ${path.replaceAll(/\/\d+(?=\/|$)/g, "/*") || "/"}`))]
    .sort()
    .join(", ");
