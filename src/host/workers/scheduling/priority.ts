// Which niceness an owner's processes get: the operating system then lets those go first that have used less than their share, and
// whose calls are short. Measured from the kernel's word on each process, ten times a second.
import { availableParallelism } from "node:os";
import { setBounded } from "../../util/bounded-map.ts";
import { LAST_NICENESS, MAY_RAISE } from "../health/process-meter.ts";

/** What an owner's processes have used since the last time. */
export interface CpuUsage {
  readonly cpuMs: number;
  /** Of it, what was used by processes with a call that has run for long. */
  readonly longCallMs: number;
}

/** How an owner stands with the queue. */
export interface OwnerState {
  /** Its share of the machine relative to others. */
  readonly weight: number;
  /** Calls of it wait: it wants as much as it can get, and one call's time matters less to it. */
  readonly isBacklogged: boolean;
}

/** What is known of the time since the last turn. */
export interface SchedulingSample {
  readonly uses: ReadonlyMap<string, CpuUsage>;
  /** Of this process, all its threads. */
  readonly hostCpuMs: number;
  readonly elapsedMs: number;
  readonly standingOf: (owner: string) => OwnerState;
}

/** A call that has used so much CPU time is a long one. */
export const LONG_CALL_MS = 40;
/** Of the newest reading in a rate. */
const SMOOTHING = 0.3;
const NEGLIGIBLE_CORES = 0.01;

interface Penalty {
  /** The turn after which it is let go. */
  readonly until: number;
  readonly turns: number;
}

interface Probation {
  /** Both by performance.now(): until then it has idle time only, and until then it counts as one of long calls. */
  readonly idleUntil: number;
  readonly until: number;
  readonly isForBadEnd: boolean;
}

interface Rates {
  /** CPU time of late, as cores: 1 is one thread all the time. */
  cores: number;
  longCallCores: number;
}

/**
 * By how much of its fair share of the machine an owner has used of late. Owners of long calls, and those past their share that have
 * calls waiting, go last, but keep a tenth of their share whatever the others do; the rest goes first until it has used its
 * share. Niceness 19 counts a seventieth of 0, 10 a ninth, 5 a third (the kernel's sched_prio_to_weight).
 */
const STEPS = {
  inBulk: [
    { shareUsed: 0.1, niceness: LAST_NICENESS },
    { shareUsed: 0, niceness: 10 },
  ],
  oneByOne: [{ shareUsed: 1, niceness: 5 }],
} as const;

/** Those that go last have on average less than this of their shares: then nobody may have more than its own before them. */
const STARVED_BELOW = 0.5;
/** Of its share: a burst of some 100 ms is no reason to be put last for two seconds. */
const GIVES_WAY_ABOVE = 1.5;
/** Turns that an owner stays last; twice as many each time it is put there again soon after it was let go, up to … */
const STAYS_LAST = 20;
const STAYS_LAST_AT_MOST = 320;
/** Turns after which it is not the same matter any more. */
const SOON = 100;
/** Owners that go last have at least this. */
export const LOW_PRIORITY_NICENESS = 10;
/**
 * Of the cores, used by this host and its processes: above the first the owners are in each other's way and going last means idle time
 * only; below the second they are not, and whoever goes last has niceness 10. On a machine that others keep busy there may be no idle
 * time at all, and there is nobody of ours to give way to.
 */
const CROWDED = { above: 0.6, below: 0.4 };
/**
 * Of a process that starts, which takes a tenth of a second of CPU time, and of owners of which no call has ended well yet: those that
 * are known go first, and where nobody else wants the processor it makes no difference.
 */
export const NEW_NICENESS = MAY_RAISE ? 9 : 0;
/** For so long an owner counts as one of long calls whose process came to a bad end, unless a call ends well before … */
const TROUBLED_MS = 60_000;
/**
 * … and one that is new where others' calls run: by then it has shown what it is. So long both have idle time only: to start a
 * process takes 100 ms of CPU time, and whatever is not SCHED_IDLE is preempted at the end of its slice of some milliseconds,
 * however nice it is, while a call wakes up ten times.
 */
const PROBATION_MS = 500;
const MAX_REMEMBERED = 10_000;

export class Priorities {
  readonly #rates = new Map<string, Rates>();
  readonly #cores = Math.max(1, availableParallelism());
  #hostCores = 0;
  #isCrowded = false;
  #niceness: ReadonlyMap<string, number> = new Map();
  /** Owners that are last, or were of late. */
  readonly #penalties = new Map<string, Penalty>();
  #turn = 0;
  /** Owners of which a short call has ended well since a process of theirs last came to a bad end. */
  readonly #known = new Map<string, true>();
  /** Of owners that are not known. */
  readonly #probations = new Map<string, Probation>();

  /** CPU time of late of all owners. */
  get coresInUse(): number {
    let cores = 0;
    for (const rates of this.#rates.values()) cores += rates.cores;
    return cores;
  }

  /** Remembered for a while when an owner has no process any more: the next one does not start with a clean slate. */
  nicenessOf(owner: string): number {
    const decided = this.#niceness.get(owner) ?? 0;
    const niceness = decided === LAST_NICENESS && !this.#isCrowded ? LOW_PRIORITY_NICENESS : decided;
    if (this.#known.has(owner)) return niceness;
    if (!this.isOnProbation(owner)) return Math.max(niceness, NEW_NICENESS);
    const isAtItsBeginning = performance.now() < (this.#probations.get(owner)?.idleUntil ?? 0);
    return isAtItsBeginning ? LAST_NICENESS : Math.max(niceness, LOW_PRIORITY_NICENESS);
  }

  /** It is new where others' calls run, or a process of it has come to a bad end. */
  isOnProbation(owner: string): boolean {
    return !this.#known.has(owner) && performance.now() < (this.#probations.get(owner)?.until ?? 0);
  }

  /** No short call of it has ended well yet, and none of its processes badly. */
  isNew(owner: string): boolean {
    return !this.#known.has(owner) && this.#probations.get(owner)?.isForBadEnd !== true;
  }

  /** Whether more threads of this owner would only keep others from theirs. */
  isPastShare(owner: string): boolean {
    return (this.#niceness.get(owner) ?? 0) > 0;
  }

  /** Whether a short call of it has ended well, and nothing badly since. */
  isKnown(owner: string): boolean {
    return this.#known.has(owner);
  }

  /** This owner gets its first process, where others' calls run. */
  beginsBesideOthers(owner: string): void {
    if (!this.#known.has(owner) && !this.#probations.has(owner)) this.#putOnProbation(owner, PROBATION_MS, false);
  }

  /** A call of this owner has ended as it should. From the first short one on it is known. */
  endedWell(owner: string, cpuMs: number): void {
    if (cpuMs > LONG_CALL_MS) {
      if (this.#probations.get(owner)?.isForBadEnd) this.#probations.delete(owner);
      return;
    }
    this.#probations.delete(owner);
    if (!this.#known.has(owner)) setBounded(this.#known, owner, true, MAX_REMEMBERED);
  }

  /** A process of this owner had to be killed, or crashed. */
  endedBadly(owner: string): void {
    this.#known.delete(owner);
    this.#putOnProbation(owner, TROUBLED_MS, true);
  }

  #putOnProbation(owner: string, ms: number, isForBadEnd: boolean): void {
    if (!MAY_RAISE) return;
    const now = performance.now();
    setBounded(
      this.#probations,
      owner,
      { idleUntil: now + PROBATION_MS, until: now + ms, isForBadEnd },
      MAX_REMEMBERED,
    );
  }

  /** Takes what has been used in the last `elapsedMs`, by the host itself as well. */
  follow({ uses, hostCpuMs, elapsedMs, standingOf }: SchedulingSample): void {
    this.#turn += 1;
    this.#hostCores += (hostCpuMs / elapsedMs - this.#hostCores) * SMOOTHING;
    for (const owner of new Set([...this.#rates.keys(), ...uses.keys()])) {
      const { cpuMs, longCallMs } = uses.get(owner) ?? { cpuMs: 0, longCallMs: 0 };
      const rates = this.#rates.get(owner) ?? { cores: 0, longCallCores: 0 };
      rates.cores += (cpuMs / elapsedMs - rates.cores) * SMOOTHING;
      rates.longCallCores += (longCallMs / elapsedMs - rates.longCallCores) * SMOOTHING;
      if (rates.cores < NEGLIGIBLE_CORES && !uses.has(owner)) {
        this.#rates.delete(owner);
      } else this.#rates.set(owner, rates);
    }
    this.#niceness = this.#decide(standingOf);
    const used = (this.coresInUse + this.#hostCores) / this.#cores;
    this.#isCrowded = used > (this.#isCrowded ? CROWDED.below : CROWDED.above);
  }

  #decide(standingOf: (owner: string) => OwnerState): ReadonlyMap<string, number> {
    const shares = this.#sharesOf(standingOf);
    const inBulk = [...shares].filter(([owner, share]) => this.#isInBulk(owner, share));
    const isStarved = inBulk.length > 0 && mean(inBulk.map(([, { used }]) => used)) < STARVED_BELOW;
    const bulk = new Set(inBulk.map(([owner]) => owner));
    const niceness = new Map<string, number>();
    for (const [owner, { used }] of shares) {
      // Well past its share, and others wait for theirs: its turn to wait.
      const givesWay = isStarved && used > GIVES_WAY_ABOVE;
      const steps = bulk.has(owner) || givesWay ? STEPS.inBulk : STEPS.oneByOne;
      niceness.set(owner, this.#settle(owner, steps.find(({ shareUsed }) => used >= shareUsed)?.niceness ?? 0));
    }
    return niceness;
  }

  /**
   * Whoever has been put last stays there for a while: each change takes a program for each of its processes. And there its rates
   * fall, since others go first: what it would do with its freedom is known from the last time.
   */
  #settle(owner: string, niceness: number): number {
    const known = this.#penalties.get(owner);
    if (niceness !== LAST_NICENESS) return this.#turn < (known?.until ?? 0) ? LAST_NICENESS : niceness;
    const turns = known === undefined || this.#turn > known.until + SOON ? STAYS_LAST : known.turns;
    const isOver = known === undefined || this.#turn >= known.until;
    const next = isOver && known !== undefined ? Math.min(2 * turns, STAYS_LAST_AT_MOST) : turns;
    setBounded(this.#penalties, owner, { until: this.#turn + next, turns: next }, MAX_REMEMBERED);
    return LAST_NICENESS;
  }

  #isInBulk(owner: string, { used, isBacklogged }: Share): boolean {
    const { cores = 0, longCallCores = 0 } = this.#rates.get(owner) ?? {};
    if (this.isOnProbation(owner)) return true;
    return longCallCores > cores / 2 || (isBacklogged && (used >= 1 || this.nicenessOf(owner) > 0));
  }

  #sharesOf(standingOf: (owner: string) => OwnerState): ReadonlyMap<string, Share> {
    const standings = [...this.#rates].map(([owner, { cores }]) => ({ owner, cores, ...standingOf(owner) }));
    const weights = standings.reduce((sum, { weight }) => sum + weight, 0);
    return new Map(
      standings.map(({ owner, cores, weight, isBacklogged }) => {
        const used = (cores * weights) / (this.#cores * weight);
        return [owner, { used, isBacklogged }];
      }),
    );
  }
}

/** What an owner has used of its share, 1 being all of it. */
interface Share {
  readonly used: number;
  readonly isBacklogged: boolean;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
