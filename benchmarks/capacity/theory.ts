// Results of queueing theory that the simulation is checked against, and that answer what needs no simulation.

/**
 * Returns the probability that an arrival waits in an M/M/c queue: the formula of Erlang C.
 * @param load arrivals per ms times service in ms: the number of busy servers
 */
export function erlangC(servers: number, load: number): number {
  // The recursion of Erlang B, which does not overflow.
  let blocking = 1;
  for (let n = 1; n <= servers; n += 1) blocking = (load * blocking) / (n + load * blocking);
  const utilisation = load / servers;
  return blocking / (1 - utilisation * (1 - blocking));
}

/** Returns the mean time in ms in an M/M/c queue, waiting and service. */
export function meanResponseMs(servers: number, arrivalsPerMs: number, serviceMs: number): number {
  const load = arrivalsPerMs * serviceMs;
  return serviceMs + (erlangC(servers, load) * serviceMs) / (servers - load);
}

/** Returns the time in ms that this share of the arrivals waits at most in an M/M/c queue that serves in order of arrival. */
export function waitQuantileMs(share: number, servers: number, arrivalsPerMs: number, serviceMs: number): number {
  const load = arrivalsPerMs * serviceMs;
  const waits = erlangC(servers, load);
  return share <= 1 - waits ? 0 : (Math.log(waits / (1 - share)) * serviceMs) / (servers - load);
}

/** Tenants with the same share of all calls. */
export interface TenantGroup {
  readonly tenants: number;
  /** Of each. */
  readonly share: number;
}

/** Ranks from this one on are in groups, whose sizes grow by a tenth. */
const FIRST_GROUPED = 100;

/** The shares of tenants by Zipf's law, in groups, so that a million of them are a few hundred numbers. */
export function zipfGroups(count: number, exponent: number): readonly TenantGroup[] {
  const groups: { tenants: number; share: number }[] = [];
  let sum = 0;
  for (let first = 1; first <= count; ) {
    const tenants = Math.min(count + 1 - first, first < FIRST_GROUPED ? 1 : Math.floor(first / 10));
    const share = 1 / (first + (tenants - 1) / 2) ** exponent;
    groups.push({ tenants, share });
    sum += tenants * share;
    first += tenants;
  }
  return groups.map(({ tenants, share }) => ({ tenants, share: share / sum }));
}

/**
 * Returns the time in ms for which a tenant without calls keeps its process, if those that were used last keep theirs: the
 * approximation of Che et al. 2002.
 * @param capacity processes in all
 * @param idleMs time after which an unused process ends in any case
 */
export function keptAgeMs(
  groups: readonly TenantGroup[],
  callsPerMs: number,
  capacity: number,
  idleMs: number,
): number {
  const kept = (ageMs: number): number =>
    groups.reduce((sum, { tenants, share }) => sum + tenants * (1 - Math.exp(-share * callsPerMs * ageMs)), 0);
  if (kept(idleMs) <= capacity) return idleMs;
  let [low, high] = [0, idleMs];
  for (let step = 0; step < 40; step += 1) {
    const middle = (low + high) / 2;
    if (kept(middle) > capacity) high = middle;
    else low = middle;
  }
  return low;
}

/** Returns the share of calls whose tenant has a process, if each keeps it for this time after a call. */
export const warmShare = (groups: readonly TenantGroup[], callsPerMs: number, ageMs: number): number =>
  groups.reduce((sum, { tenants, share }) => sum + tenants * share * (1 - Math.exp(-share * callsPerMs * ageMs)), 0);
