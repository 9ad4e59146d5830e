// Who is next: calls wait by account (a tenant) and lane (a tool), and the account that has used the least CPU time for its
// weight goes first. Start-time fair queuing (Goyal, Vin, Cheng 1996) with the CPU time used in the place of packet lengths.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { NestedCallSlot } from "../../routing/call-chain.ts";
import type { OwnerState } from "./priority.ts";

/** How much an account may have in the queue and out of it. */
export interface QueueLimits {
  /** Running at one time. */
  readonly concurrentCalls: number;
  /** Waiting at one time. */
  readonly queuedCalls: number;
}

/** Whose an entry is, and what may pass. */
export interface Claim {
  /** Who pays: a tenant. */
  readonly account: string;
  /** Of all accounts' CPU time, this one's share counts so many times. */
  readonly weight: number;
  /** Which of the account's tools. */
  readonly lane: string;
  readonly accountLimits: QueueLimits;
  readonly laneLimits: QueueLimits;
  /**
   * Of the running call that this one is nested in, which waits for it: one call at a time may run there, past the limits on running
   * ones. Else callers that hold all places, and wait for calls that wait for a place, would wait for ever.
   */
  readonly seat?: NestedCallSlot | undefined;
}

/** A place in the queue. */
export interface Entry<Item> {
  readonly item: Item;
  readonly claim: Claim;
  readonly order: number;
  /** Left in its lane, to be passed over: taking one out of the middle of many would cost as many steps. */
  isOver: boolean;
  /** It runs in its caller's place. */
  isSeated: boolean;
}

/** Whether it could run in its caller's place now. */
export const canUseParentSlot = ({ claim }: Entry<unknown>): boolean => claim.seat?.isTaken === false;

interface Lane<Item> {
  readonly waiting: Entry<Item>[];
  queued: number;
  running: number;
}

interface Account<Item> {
  readonly lanes: Map<string, Lane<Item>>;
  /** Those that wait, in their lanes too, and are nested in a running call. */
  readonly nested: Set<Entry<Item>>;
  weight: number;
  /** CPU time used, divided by the weight; never behind those that were busy while this one was idle. */
  virtualMs: number;
  queued: number;
  /** Among those that wait. */
  isListed: boolean;
  running: number;
  /** Mean time that a call of this account runs, in ms; undefined before the first has ended. */
  serviceMs: number | undefined;
}

/** What a call is taken to cost until its CPU time is known: so that accounts of equal standing take turns. */
const PROVISIONAL_MS = 1;
/** Weight of the newest call in an account's mean. */
const SMOOTHING = 0.2;
const DEFAULT_RETRY_MS = 1_000;
const MIN_RETRY_MS = 50;
const MAX_RETRY_MS = 30_000;

export class FairQueue<Item> {
  readonly #accounts = new Map<string, Account<Item>>();
  /** Accounts with something in the queue, and some that have nothing any more; in the order of the last time somebody asked. */
  #waiting: Account<Item>[] = [];
  #forgetAbove = MAX_REMEMBERED;
  readonly #maxQueued: number;
  readonly #countsRoom: boolean;
  /** Standing of the account that was served last: where one that was idle comes in. */
  #virtualMs = 0;
  #queued = 0;
  #order = 0;

  /**
   * @param maxQueued entries of all accounts that may wait
   * @param countsRoom whether entries that `concurrentCalls` admits may be in the queue beside the `queuedCalls` that wait, because they
   *   lack only a process: a cold pool has few processes, each with a small window. Default: false
   */
  constructor(maxQueued: number, { countsRoom = false }: { readonly countsRoom?: boolean } = {}) {
    this.#maxQueued = maxQueued;
    this.#countsRoom = countsRoom;
  }

  get queued(): number {
    return this.#queued;
  }

  /**
   * Adds what may be able to run at once: whether it may wait is asked afterwards, by `refusal`.
   * @throws {ToolError} OVERLOADED, with `retryAfterMs`, when those that wait already leave no room
   */
  add(item: Item, claim: Claim): Entry<Item> {
    const account = this.#accountOf(claim);
    const { accountLimits } = claim;
    const isFull = account.queued > 0 && account.queued >= this.#mostQueued(account, accountLimits);
    if (isFull) throw overloaded("this tenant", accountLimits.queuedCalls, account);
    return this.#push(item, claim, account);
  }

  /** Puts back what was taken, past every limit: it has been admitted before. */
  putBack(item: Item, claim: Claim): Entry<Item> {
    return this.#push(item, claim, this.#accountOf(claim));
  }

  /** Why an entry that could not run at once may not wait either; undefined when it may. */
  refusal({ claim }: Entry<Item>): ToolError | undefined {
    const account = this.#accountOf(claim);
    const { accountLimits, laneLimits } = claim;
    if (this.#queued > this.#maxQueued) return overloaded("all tenants", this.#maxQueued, account);
    if (account.queued > this.#mostQueued(account, accountLimits)) {
      return overloaded("this tenant", accountLimits.queuedCalls, account);
    }
    const lane = laneOf(account, claim.lane);
    const isOver = lane.queued > this.#mostQueued(lane, laneLimits);
    return isOver ? overloaded("this tool", laneLimits.queuedCalls, account) : undefined;
  }

  /** Entries of an account, or of a lane, that may be in the queue at one time. */
  #mostQueued({ running }: { readonly running: number }, { queuedCalls, concurrentCalls }: QueueLimits): number {
    return this.#countsRoom ? queuedCalls + Math.max(0, concurrentCalls - running) : queuedCalls;
  }

  #push(item: Item, claim: Claim, account: Account<Item>): Entry<Item> {
    const lane = laneOf(account, claim.lane);
    this.#order += 1;
    const entry: Entry<Item> = { item, claim, order: this.#order, isOver: false, isSeated: false };
    if (account.queued + account.running === 0) account.virtualMs = Math.max(account.virtualMs, this.#virtualMs);
    lane.waiting.push(entry);
    if (claim.seat !== undefined) account.nested.add(entry);
    if (!account.isListed) this.#waiting.push(account);
    account.isListed = true;
    lane.queued += 1;
    account.queued += 1;
    this.#queued += 1;
    return entry;
  }

  /** How long an account's next call should wait before it is tried again, in ms. */
  retryAfterMs(account: string): number {
    return retryAfterMs(this.#accounts.get(account));
  }

  /** Takes an entry out, for whatever reason. */
  remove(entry: Entry<Item>): void {
    if (entry.isOver) return;
    entry.isOver = true;
    const account = this.#accountOf(entry.claim);
    const lane = laneOf(account, entry.claim.lane);
    account.nested.delete(entry);
    lane.queued -= 1;
    account.queued -= 1;
    this.#queued -= 1;
    while (lane.waiting[0]?.isOver) lane.waiting.shift();
  }

  /** An entry that was removed now runs. */
  begin(entry: Entry<Item>): void {
    const account = this.#accountOf(entry.claim);
    const { seat, lane } = entry.claim;
    entry.isSeated = canUseParentSlot(entry);
    if (entry.isSeated && seat !== undefined) seat.isTaken = true;
    else {
      account.running += 1;
      laneOf(account, lane).running += 1;
    }
    account.virtualMs += PROVISIONAL_MS / account.weight;
    this.#virtualMs = Math.max(this.#virtualMs, account.virtualMs - PROVISIONAL_MS / account.weight);
  }

  /** An entry that ran has ended, after so many ms. */
  end(entry: Entry<Item>, serviceMs: number): void {
    const account = this.#accountOf(entry.claim);
    const { seat } = entry.claim;
    const lane = laneOf(account, entry.claim.lane);
    if (entry.isSeated && seat !== undefined) seat.isTaken = false;
    else {
      account.running -= 1;
      lane.running -= 1;
    }
    account.serviceMs = (account.serviceMs ?? serviceMs) * (1 - SMOOTHING) + serviceMs * SMOOTHING;
    if (lane.running + lane.queued === 0) account.lanes.delete(entry.claim.lane);
    this.#forgetIdle();
  }

  /** CPU time that an account has used. */
  charge(name: string, cpuMs: number): void {
    const account = this.#accounts.get(name);
    if (account !== undefined) account.virtualMs += cpuMs / account.weight;
  }

  standingOf(name: string): OwnerState {
    const account = this.#accounts.get(name);
    return { weight: account?.weight ?? 1, isBacklogged: (account?.queued ?? 0) > 0 };
  }

  /**
   * What may run next, best first: of the least served account what its caller has a place for, then the head of each lane that has room,
   * if the account has; and so on.
   */
  *candidates(): Generator<Entry<Item>> {
    if (this.#queued === 0) return;
    for (const account of this.#waiting) account.isListed = account.queued > 0;
    // Mostly in order already, which takes a sort one look at each.
    this.#waiting = this.#waiting.filter(({ isListed }) => isListed).sort((a, b) => a.virtualMs - b.virtualMs);
    for (const account of this.#waiting) yield* candidatesOf(account);
  }

  /** Every entry that waits. */
  *entries(): Generator<Entry<Item>> {
    for (const { lanes } of this.#accounts.values()) {
      for (const { waiting } of lanes.values()) yield* waiting.filter(({ isOver }) => !isOver);
    }
  }

  #accountOf({ account: name, weight }: Claim): Account<Item> {
    let account = this.#accounts.get(name);
    if (account === undefined) {
      const virtualMs = this.#virtualMs;
      const [queued, running] = [0, 0];
      account = {
        lanes: new Map(),
        nested: new Set(),
        weight,
        virtualMs,
        queued,
        isListed: false,
        running,
        serviceMs: undefined,
      };
      this.#accounts.set(name, account);
    }
    account.weight = weight;
    return account;
  }

  /** Accounts that have nothing to gain from being remembered: as good as new. Looked for when there are many. */
  #forgetIdle(): void {
    if (this.#accounts.size <= this.#forgetAbove) return;
    for (const [name, { queued, running, virtualMs }] of this.#accounts) {
      if (queued + running === 0 && virtualMs <= this.#virtualMs) this.#accounts.delete(name);
    }
    // Not again for each call, where all of them have a reason to stay.
    this.#forgetAbove = Math.max(MAX_REMEMBERED, 2 * this.#accounts.size);
  }
}

const MAX_REMEMBERED = 1_000;

function laneOf<Item>(account: Account<Item>, name: string): Lane<Item> {
  let lane = account.lanes.get(name);
  if (lane === undefined) {
    lane = { waiting: [], queued: 0, running: 0 };
    account.lanes.set(name, lane);
  }
  return lane;
}

/** Of one account: the tool that runs least comes first, so that many calls of one do not keep another waiting. */
function candidatesOf<Item>({ lanes, nested, running }: Account<Item>): readonly Entry<Item>[] {
  const heads: { readonly entry: Entry<Item>; readonly running: number }[] = [];
  for (const lane of lanes.values()) {
    const entry = lane.waiting[0];
    if (entry === undefined || running >= entry.claim.accountLimits.concurrentCalls) continue;
    if (lane.running < entry.claim.laneLimits.concurrentCalls) heads.push({ entry, running: lane.running });
  }
  if (heads.length > 1) heads.sort((a, b) => a.running - b.running || a.entry.order - b.entry.order);
  const ready = heads.map(({ entry }) => entry);
  return nested.size === 0 ? ready : [...[...nested].filter(canUseParentSlot), ...ready];
}

/** The time in which what waits will have run, by the mean of the calls before. */
function retryAfterMs(account: Account<unknown> | undefined): number {
  if (account?.serviceMs === undefined) return DEFAULT_RETRY_MS;
  const rounds = Math.ceil((account.queued + 1) / Math.max(1, account.running));
  return Math.round(Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, rounds * account.serviceMs)));
}

function overloaded(whose: string, queuedCalls: number, account: Account<unknown>): ToolError {
  const retryMs = retryAfterMs(account);
  return new ToolError(
    "OVERLOADED",
    `The queue is full: ${queuedCalls} calls of ${whose} may wait at one time; try again in ${retryMs} ms`,
    { details: { queuedCalls, retryAfterMs: retryMs } },
  );
}
