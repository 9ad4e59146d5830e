// Selects candidates for eviction when a limit for all callers is reached.

/** Returns the items of the owner that has the most items, in the order of the map. */
export function largestOwnerItems<Value extends { readonly owner: string }>(
  all: ReadonlyMap<string, Value>,
): readonly (readonly [id: string, value: Value])[] {
  const byOwner = Map.groupBy(all, ([, { owner }]) => owner);
  const [most = []] = [...byOwner.values()].sort((a, b) => b.length - a.length);
  return most;
}
