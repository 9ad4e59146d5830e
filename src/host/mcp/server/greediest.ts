// Who makes room where there is none left.

/** What belongs to whoever has the most of it, in its order. */
export function largestOwnerItems<Value extends { readonly owner: string }>(
  all: ReadonlyMap<string, Value>,
): readonly (readonly [id: string, value: Value])[] {
  const byOwner = Map.groupBy(all, ([, { owner }]) => owner);
  const [most = []] = [...byOwner.values()].sort((a, b) => b.length - a.length);
  return most;
}
