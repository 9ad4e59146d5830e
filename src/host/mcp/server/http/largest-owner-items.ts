// Selects candidates for eviction when a limit for all callers is reached.
import { tenantOfCallerKey } from "../authorization/caller.ts";

type Items<Value> = readonly (readonly [id: string, value: Value])[];

/** @param newcomer group that is about to get a further item */
function largestGroup<Value>(
  items: Iterable<readonly [string, Value]>,
  groupOf: (value: Value) => string,
  newcomer: string,
): Items<Value> {
  const groups = Map.groupBy(items, ([, value]) => groupOf(value));
  const sizes = [...groups].map(([group, all]) => ({ all, size: all.length + (group === newcomer ? 1 : 0) }));
  return sizes.sort((a, b) => b.size - a.size)[0]?.all ?? [];
}

/**
 * Returns the items of the owner that has the most items, in the order of the map: of the tenant with the most items, because a tenant can have
 * many callers with few items each.
 * @param newcomer owner of the item that needs room
 */
export const largestOwnerItems = <Value extends { readonly owner: string }>(
  all: ReadonlyMap<string, Value>,
  newcomer: string,
): Items<Value> =>
  largestGroup(
    largestGroup(all, ({ owner }) => tenantOfCallerKey(owner), tenantOfCallerKey(newcomer)),
    ({ owner }) => owner,
    newcomer,
  );
