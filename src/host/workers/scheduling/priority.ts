// Sets the niceness of each owner's processes, ten times a second. The operating system then prefers owners that have
// used less than their share and whose calls are short. CPU usage is read from the kernel.
import { availableParallelism } from "node:os";
import { setBounded } from "../../util/bounded-map.ts";
import { CAN_RAISE_PRIORITY, LOWEST_PRIORITY } from "../health/process-meter.ts";

/** CPU usage of an owner's processes since the previous sample. */
export interface CpuUsage {
  readonly cpuMs: number;
  /** The part used by processes with a long-running call. */
  readonly longCallMs: number;
}

/** An owner's scheduling state in the queue. */
export interface OwnerState {
  /** Its share of the machine relative to others. */
  readonly weight: number;
  /** Calls of the owner are queued, so throughput matters more to it than the latency of one call. */
  readonly isBacklogged: boolean;
}

/** Usage since the previous sample. */
export interface SchedulingSample {
  readonly usages: ReadonlyMap<string, CpuUsage>;
  /** CPU time of the host process, all its threads included. */
  readonly hostCpuMs: number;
  readonly elapsedMs: number;
  readonly ownerStateOf: (owner: string) => OwnerState;
}

/** CPU time in ms from which a call counts as long. */
export const LONG_CALL_MS = 40;
/** Weight of the newest reading in a rate. */
const SMOOTHING = 0.3;
const NEGLIGIBLE_CORES = 0.01;

interface Penalty {
  /** Sample number until which the owner stays at the lowest priority. */
  readonly until: number;
  readonly samples: number;
}

interface Probation {
  /**
   * Times by performance.now(). Until `idleUntil` the owner gets only idle CPU time, until `until` it is treated as one
   * of long calls.
   */
  readonly idleUntil: number;
  readonly until: number;
  readonly isForFailure: boolean;
}

interface Rates {
  /** Recent CPU usage in cores: 1 is one thread that is always busy. */
  cores: number;
  longCallCores: number;
}

/**
 * Niceness by the fraction of its fair CPU share that an owner has used recently. Owners of long calls, and owners past
 * their share that have queued calls, get the lowest priority but keep a tenth of their share. Other owners come first
 * until they have used their share. Compared with niceness 0, the kernel weights niceness 19 at 1/70, 10 at 1/9 and 5
 * at 1/3 (sched_prio_to_weight).
 */
const STEPS = {
  batch: [
    { shareUsed: 0.1, niceness: LOWEST_PRIORITY },
    { shareUsed: 0, niceness: 10 },
  ],
  interactive: [{ shareUsed: 1, niceness: 5 }],
} as const;

/**
 * If low-priority owners get less than this fraction of their shares on average, no other owner may exceed its own
 * share.
 */
const STARVATION_BELOW = 0.5;
/**
 * Fraction of its share above which an owner yields to them. Demotion lasts two seconds, which a burst of 100 ms must
 * not cause.
 */
const YIELD_ABOVE = 1.5;
/**
 * Samples that an owner stays at the lowest priority. Doubles on each demotion soon after the previous one, up to
 * `MAX_PENALTY`.
 */
const FIRST_PENALTY = 20;
const MAX_PENALTY = 320;
/** Samples after which a demotion no longer counts as soon after the previous one. */
const RELAPSE_WITHIN = 100;
/** Least niceness of low-priority owners. */
export const LOW_PRIORITY_NICENESS = 10;
/**
 * Fractions of the cores in use by this host and its processes. Above the first, owners compete, and the lowest
 * priority means idle CPU time only. Below the second, they do not, and the lowest priority is niceness 10: on a
 * machine that other programs keep busy there may be no idle time, and no owner would benefit from it.
 */
const CONTENTION = { above: 0.6, below: 0.4 };
/**
 * Niceness of a starting process, which takes 100 ms of CPU time, and of owners without a successful call. Known owners
 * go first. Without contention it makes no difference.
 */
export const NEW_NICENESS = CAN_RAISE_PRIORITY ? 9 : 0;
/**
 * After a failure of its process, an owner is treated as one of long calls for this many ms, unless a call succeeds
 * before.
 */
const FAILURE_PROBATION_MS = 60_000;
/**
 * A new owner that starts while other owners' calls run is treated the same for this many ms. During this time both get
 * only idle CPU time. Starting a process takes 100 ms of CPU time, and any policy but SCHED_IDLE, at any niceness,
 * keeps the CPU for a slice of some milliseconds, while a call wakes up ten times.
 */
const PROBATION_MS = 500;
const MAX_OWNERS = 10_000;

export class Priorities {
  readonly #rates = new Map<string, Rates>();
  readonly #cores = Math.max(1, availableParallelism());
  #hostCores = 0;
  #isContended = false;
  #niceness: ReadonlyMap<string, number> = new Map();
  /** Owners that are or recently were at the lowest priority. */
  readonly #penalties = new Map<string, Penalty>();
  #sampleCount = 0;
  /** Owners of which a short call has succeeded since their last process failure. */
  readonly #known = new Map<string, true>();
  /** Owners that are not known. */
  readonly #probations = new Map<string, Probation>();

  /** Recent CPU usage of all owners, in cores. */
  get coresInUse(): number {
    let cores = 0;
    for (const rates of this.#rates.values()) cores += rates.cores;
    return cores;
  }

  /** Returns an owner's niceness. It outlives the owner's processes, so that a new process does not reset it. */
  nicenessOf(owner: string): number {
    const decided = this.#niceness.get(owner) ?? 0;
    const niceness = decided === LOWEST_PRIORITY && !this.#isContended ? LOW_PRIORITY_NICENESS : decided;
    if (this.#known.has(owner)) return niceness;
    if (!this.isOnProbation(owner)) return Math.max(niceness, NEW_NICENESS);
    const isIdleOnly = performance.now() < (this.#probations.get(owner)?.idleUntil ?? 0);
    return isIdleOnly ? LOWEST_PRIORITY : Math.max(niceness, LOW_PRIORITY_NICENESS);
  }

  /** Whether the owner is new and started while other owners' calls ran, or one of its processes failed recently. */
  isOnProbation(owner: string): boolean {
    return !this.#known.has(owner) && performance.now() < (this.#probations.get(owner)?.until ?? 0);
  }

  /** Whether no short call of the owner has succeeded yet, and none of its processes has failed. */
  isNew(owner: string): boolean {
    return !this.#known.has(owner) && this.#probations.get(owner)?.isForFailure !== true;
  }

  /** Whether more threads of this owner would only take CPU time from other owners. */
  isPastShare(owner: string): boolean {
    return (this.#niceness.get(owner) ?? 0) > 0;
  }

  /** Whether a short call of the owner has succeeded since its last process failure. */
  isKnown(owner: string): boolean {
    return this.#known.has(owner);
  }

  /** Records that an owner gets its first process while other owners' calls run. */
  recordContendedStart(owner: string): void {
    if (!this.#known.has(owner) && !this.#probations.has(owner)) this.#putOnProbation(owner, PROBATION_MS, false);
  }

  /** Records a successful call. The first short one makes the owner known. */
  recordSuccess(owner: string, cpuMs: number): void {
    if (cpuMs > LONG_CALL_MS) {
      if (this.#probations.get(owner)?.isForFailure) this.#probations.delete(owner);
      return;
    }
    this.#probations.delete(owner);
    if (!this.#known.has(owner)) setBounded(this.#known, owner, true, MAX_OWNERS);
  }

  /** Records that a process of this owner crashed or had to be killed. */
  recordFailure(owner: string): void {
    this.#known.delete(owner);
    this.#putOnProbation(owner, FAILURE_PROBATION_MS, true);
  }

  #putOnProbation(owner: string, ms: number, isForFailure: boolean): void {
    if (!CAN_RAISE_PRIORITY) return;
    const now = performance.now();
    setBounded(this.#probations, owner, { idleUntil: now + PROBATION_MS, until: now + ms, isForFailure }, MAX_OWNERS);
  }

  /** Processes one sample and decides each owner's niceness. */
  update({ usages, hostCpuMs, elapsedMs, ownerStateOf }: SchedulingSample): void {
    this.#sampleCount += 1;
    this.#hostCores += (hostCpuMs / elapsedMs - this.#hostCores) * SMOOTHING;
    for (const owner of new Set([...this.#rates.keys(), ...usages.keys()])) {
      const { cpuMs, longCallMs } = usages.get(owner) ?? { cpuMs: 0, longCallMs: 0 };
      const rates = this.#rates.get(owner) ?? { cores: 0, longCallCores: 0 };
      rates.cores += (cpuMs / elapsedMs - rates.cores) * SMOOTHING;
      rates.longCallCores += (longCallMs / elapsedMs - rates.longCallCores) * SMOOTHING;
      if (rates.cores < NEGLIGIBLE_CORES && !usages.has(owner)) {
        this.#rates.delete(owner);
      } else this.#rates.set(owner, rates);
    }
    this.#niceness = this.#decide(ownerStateOf);
    const used = (this.coresInUse + this.#hostCores) / this.#cores;
    this.#isContended = used > (this.#isContended ? CONTENTION.below : CONTENTION.above);
  }

  #decide(ownerStateOf: (owner: string) => OwnerState): ReadonlyMap<string, number> {
    const shares = this.#sharesOf(ownerStateOf);
    const batchOwners = [...shares].filter(([owner, share]) => this.#isBatch(owner, share));
    const isStarved = batchOwners.length > 0 && mean(batchOwners.map(([, { used }]) => used)) < STARVATION_BELOW;
    const batch = new Set(batchOwners.map(([owner]) => owner));
    const niceness = new Map<string, number>();
    for (const [owner, { used }] of shares) {
      // This owner is well past its share while low-priority owners starve: demote it.
      const yields = isStarved && used > YIELD_ABOVE;
      const steps = batch.has(owner) || yields ? STEPS.batch : STEPS.interactive;
      niceness.set(owner, this.#settle(owner, steps.find(({ shareUsed }) => used >= shareUsed)?.niceness ?? 0));
    }
    return niceness;
  }

  /**
   * Keeps a demoted owner at the lowest priority for a while: each change starts a program for each of its processes.
   * Its rates fall there because other owners go first, so they say nothing about its demand.
   */
  #settle(owner: string, niceness: number): number {
    const previous = this.#penalties.get(owner);
    if (niceness !== LOWEST_PRIORITY) return this.#sampleCount < (previous?.until ?? 0) ? LOWEST_PRIORITY : niceness;
    const samples =
      previous === undefined || this.#sampleCount > previous.until + RELAPSE_WITHIN ? FIRST_PENALTY : previous.samples;
    const hasExpired = previous === undefined || this.#sampleCount >= previous.until;
    const next = hasExpired && previous !== undefined ? Math.min(2 * samples, MAX_PENALTY) : samples;
    setBounded(this.#penalties, owner, { until: this.#sampleCount + next, samples: next }, MAX_OWNERS);
    return LOWEST_PRIORITY;
  }

  #isBatch(owner: string, { used, isBacklogged }: Share): boolean {
    const { cores = 0, longCallCores = 0 } = this.#rates.get(owner) ?? {};
    if (this.isOnProbation(owner)) return true;
    // Its calls wait, for an answer or a timer. At the lowest priority, they may also wait for a core.
    if (cores < NEGLIGIBLE_CORES && this.#niceness.get(owner) !== LOWEST_PRIORITY) return false;
    return longCallCores > cores / 2 || (isBacklogged && (used >= 1 || this.nicenessOf(owner) > 0));
  }

  #sharesOf(ownerStateOf: (owner: string) => OwnerState): ReadonlyMap<string, Share> {
    const states = [...this.#rates].map(([owner, { cores }]) => ({ owner, cores, ...ownerStateOf(owner) }));
    const weights = states.reduce((sum, { weight }) => sum + weight, 0);
    return new Map(
      states.map(({ owner, cores, weight, isBacklogged }) => {
        const used = (cores * weights) / (this.#cores * weight);
        return [owner, { used, isBacklogged }];
      }),
    );
  }
}

/** An owner's usage relative to its share; 1 is all of it. */
interface Share {
  readonly used: number;
  readonly isBacklogged: boolean;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
