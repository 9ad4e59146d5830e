// Replaces the bytes in a value by placeholder strings, and lists the bytes as base64, for values that are transferred as JSON only, such as
// those of `ctx.tools`.
import { randomBytes } from "node:crypto";
import { isUint8Array } from "node:util/types";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";

/** The bytes of a value. The placeholder of `parts[n]`, which is base64, is `mark` followed by n. */
export interface PlaceholderBytes {
  readonly mark: string;
  readonly parts: readonly string[];
}

/** Copies only the objects on the path to a replaced value. */
function replace(value: ToolValue, replaceLeaf: (leaf: string | Uint8Array) => ToolValue): ToolValue {
  if (typeof value === "string" || isUint8Array(value)) return replaceLeaf(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item: ToolValue) => replace(item, replaceLeaf));
  const entries = Object.entries(value as { readonly [key: string]: ToolValue });
  return Object.fromEntries(entries.map(([key, item]) => [key, replace(item, replaceLeaf)]));
}

const containsBytes = (value: ToolValue): boolean => {
  if (typeof value !== "object" || value === null) return false;
  return isUint8Array(value) || Object.values(value).some(containsBytes);
};

/** Returns the value with placeholders, and its bytes. `bytes` is absent if the value contains none. */
export function replaceBytes(value: ToolValue): { readonly value: JsonValue; readonly bytes?: PlaceholderBytes } {
  if (!containsBytes(value)) return { value: value as JsonValue };
  const mark = `bytes ${randomBytes(12).toString("hex")} `;
  const parts: string[] = [];
  const marked = replace(value, (leaf) => {
    if (typeof leaf === "string") return leaf;
    return `${mark}${parts.push(Buffer.from(leaf.buffer, leaf.byteOffset, leaf.byteLength).toString("base64")) - 1}`;
  });
  return { value: marked as JsonValue, bytes: { mark, parts } };
}

/** Returns the value with bytes instead of placeholders. A string that only looks like a placeholder is kept. */
export function restoreBytes(value: JsonValue, { mark, parts }: PlaceholderBytes): ToolValue {
  return replace(value, (leaf) => {
    if (typeof leaf !== "string" || !leaf.startsWith(mark)) return leaf;
    const part = parts[Number(leaf.slice(mark.length))];
    return part === undefined ? leaf : new Uint8Array(Buffer.from(part, "base64"));
  });
}
