// Maps that would otherwise grow for ever: the entry that was set longest ago goes when there are too many.

/** Sets an entry as the newest of at most `most`. */
export function setBounded<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= most) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
