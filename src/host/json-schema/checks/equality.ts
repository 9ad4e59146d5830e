// Compares JSON values. Each compared value spends fuel of the run, so that huge values cannot block the host.
import type { SchemaRun } from "../schema-run.ts";

export function equalJson(a: unknown, b: unknown, run: SchemaRun): boolean {
  run.spend(1);
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => equalJson(item, b[index], run));
  }
  const keys = Object.keys(a);
  const otherKeys = Object.keys(b);
  run.spend((keys.length + otherKeys.length) >> 2);
  if (keys.length !== otherKeys.length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && equalJson(Reflect.get(a, key), Reflect.get(b, key), run));
}

/** Returns the indexes of the first two equal items, or undefined. Only items with equal hashes are compared in depth. */
export function findDuplicate(items: readonly unknown[], run: SchemaRun): readonly [number, number] | undefined {
  const scalars = new Map<unknown, number>();
  const buckets = new Map<number, number[]>();
  for (const [index, item] of items.entries()) {
    run.spend(4);
    if (typeof item !== "object" || item === null) {
      const earlier = scalars.get(item);
      if (earlier !== undefined) return [earlier, index];
      scalars.set(item, index);
      continue;
    }
    const hash = hashJson(item, run);
    const bucket = buckets.get(hash) ?? [];
    const earlier = bucket.find((other) => equalJson(items[other], item, run));
    if (earlier !== undefined) return [earlier, index];
    bucket.push(index);
    buckets.set(hash, bucket);
  }
  return undefined;
}

/** Returns a 32-bit hash that does not depend on the order of keys. Deliberate collisions only cost time, which is bounded. */
function hashJson(value: unknown, run: SchemaRun): number {
  run.spend(1);
  if (typeof value === "string") return hashText(value, run);
  if (typeof value === "number") return hashText(String(value), run) ^ 0x6e75;
  if (typeof value !== "object" || value === null) return hashText(String(value), run) ^ 0x6c69;
  if (Array.isArray(value)) {
    let hash = 0x6172;
    for (const item of value) hash = (Math.imul(hash, 31) + hashJson(item, run)) | 0;
    return hash;
  }
  let hash = 0x6f62;
  for (const key of Object.keys(value)) {
    hash = (hash + Math.imul(hashText(key, run), hashJson(Reflect.get(value, key), run) | 1)) | 0;
  }
  return hash;
}

/** Hashes the length and the first 64 characters. Colliding values are compared in full. */
function hashText(text: string, run: SchemaRun): number {
  const end = Math.min(text.length, 64);
  run.spend(end >> 3);
  let hash = text.length;
  for (let index = 0; index < end; index++) hash = (Math.imul(hash, 33) + text.charCodeAt(index)) | 0;
  return hash;
}
