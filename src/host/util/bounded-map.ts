// Sets entries of a map with a maximum size. The oldest entry is evicted when the map is full.

/** Sets an entry as the newest one, and evicts the oldest if there are more than `maxEntries`. */
export function setBounded<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, maxEntries: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= maxEntries) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
