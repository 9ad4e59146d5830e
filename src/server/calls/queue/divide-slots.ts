// Divides the free slots of one process among the tenants with queued calls, so that the backlog of one tenant does not keep others waiting.

export interface FreeSlots {
  readonly free: number;
  /** Maximum number of calls of one tenant that run at the same time. */
  readonly maxPerTenant: number;
}

/**
 * Gives each free slot to the waiting tenant with the fewest calls at that moment. Among equals, the choice is random.
 * @param waiting tenants with queued calls
 * @param running number of calls of each tenant that run in this process
 * @returns how many calls of each tenant to claim. A tenant that gets none is left out
 */
export function divideSlots(
  waiting: readonly string[],
  running: ReadonlyMap<string, number>,
  { free, maxPerTenant }: FreeSlots,
): ReadonlyMap<string, number> {
  const tenants = waiting
    .map((tenantId) => ({ tenantId, count: running.get(tenantId) ?? 0, order: Math.random() }))
    .filter(({ count }) => count < maxPerTenant)
    .toSorted((a, b) => a.count - b.count || a.order - b.order);
  const shares = new Map<string, number>();
  let left = free;
  // Raises the lowest counts by one, level by level.
  for (let level = tenants[0]?.count ?? 0; left > 0 && level < maxPerTenant && tenants.length > 0; level += 1) {
    for (const { tenantId, count } of tenants) {
      if (left === 0 || count > level) break;
      shares.set(tenantId, (shares.get(tenantId) ?? 0) + 1);
      left -= 1;
    }
  }
  return shares;
}
