// Decides which queued call runs next. Calls wait by account (a tenant, or its builds) and tool; the account that has used the least
// CPU time for its weight goes first. This is start-time fair queuing (Goyal, Vin, Cheng 1996) with CPU time in place
// of packet lengths.
import { ToolError } from "../../../sandbox/contract/errors.ts";
import type { NestedCallSlot } from "../../routing/call-chain.ts";
import type { OwnerState } from "./priority.ts";

/** Limits on running and queued calls. */
export interface QueueLimits {
  /** Maximum number of calls that run at once. */
  readonly maxConcurrentCalls: number;
  /** Maximum number of calls that wait at once. */
  readonly maxQueuedCalls: number;
}

/** The account and tool of an entry, with their limits. */
export interface Claim {
  /** Account that is charged: the id of a tenant, or a separate key for the tenant's builds. */
  readonly account: string;
  /** Relative share of the CPU time of all accounts. */
  readonly weight: number;
  /** Key of the tool within the account. */
  readonly toolKey: string;
  readonly accountLimits: QueueLimits;
  readonly toolLimits: QueueLimits;
  /**
   * Slot of the running call that this nested call belongs to. One nested call at a time may use it, beyond the limits
   * on running calls. Without it, callers that hold every slot and wait for nested calls would deadlock.
   */
  readonly parentSlot?: NestedCallSlot | undefined;
  /** Number of the outermost call of a nested one: later ones have higher numbers. */
  readonly rootNumber?: number | undefined;
}

/** A queued or running call. */
export interface Entry<Item> {
  readonly item: Item;
  readonly claim: Claim;
  readonly order: number;
  /** Removed, but still in its tool queue, where it is skipped: removal from the middle of a long array is slow. */
  isRemoved: boolean;
  /** It runs in its parent's slot. */
  usesParentSlot: boolean;
}

/** Returns whether the entry could run in its parent's slot now. */
export const canUseParentSlot = ({ claim }: Entry<unknown>): boolean => claim.parentSlot?.isTaken === false;

interface ToolQueue<Item> {
  readonly waiting: Entry<Item>[];
  queued: number;
  running: number;
}

interface Account<Item> {
  readonly toolQueues: Map<string, ToolQueue<Item>>;
  /** Queued entries nested in a running call. They are in their tool queues too. */
  readonly nested: Set<Entry<Item>>;
  weight: number;
  /** CPU time used, divided by the weight. At least that of the accounts that were busy while this one was idle. */
  virtualMs: number;
  queued: number;
  /** Whether the account is in the list of waiting accounts. */
  isListed: boolean;
  running: number;
  /** Mean run time of this account's calls, in ms; undefined before the first has ended. */
  serviceMs: number | undefined;
}

/** Cost of a call until its CPU time is known, so that accounts with equal usage alternate. */
const PROVISIONAL_MS = 1;
/** Weight of the newest call in an account's mean. */
const SMOOTHING = 0.2;
const DEFAULT_RETRY_MS = 1_000;
const MIN_RETRY_MS = 50;
const MAX_RETRY_MS = 30_000;

export class FairQueue<Item> {
  readonly #accounts = new Map<string, Account<Item>>();
  /** Accounts with queued entries, and some that no longer have any. Sorted as of the latest `candidates()`. */
  #waiting: Account<Item>[] = [];
  #dropAbove = MAX_IDLE_ACCOUNTS;
  readonly #maxQueued: number;
  readonly #countsRoom: boolean;
  /** Virtual time of the account served last. An account that was idle starts there. */
  #virtualMs = 0;
  #queued = 0;
  #order = 0;

  /**
   * @param maxQueued maximum number of entries of all accounts that may wait
   * @param countsRoom whether entries within `maxConcurrentCalls` may be queued in addition to `maxQueuedCalls`, because they
   * only lack a process: a cold pool has few processes, each with a small window. Default: false
   */
  constructor(maxQueued: number, { countsRoom = false }: { readonly countsRoom?: boolean } = {}) {
    this.#maxQueued = maxQueued;
    this.#countsRoom = countsRoom;
  }

  get queued(): number {
    return this.#queued;
  }

  /**
   * Adds an entry that may be able to run at once. If it cannot, `overloadError` tells whether it may wait.
   * @throws {ToolError} OVERLOADED, with `retryAfterMs`, when the account's queue is already full
   */
  add(item: Item, claim: Claim): Entry<Item> {
    const account = this.#accountOf(claim);
    const { accountLimits } = claim;
    const isFull = account.queued > 0 && account.queued >= this.#maxQueuedOf(account, accountLimits);
    if (isFull) throw overloaded("calls may wait (limits.maxQueuedCalls)", accountLimits.maxQueuedCalls, account);
    return this.#push(item, claim, account);
  }

  /** Adds an entry again, beyond every limit, because it was admitted before. */
  putBack(item: Item, claim: Claim): Entry<Item> {
    return this.#push(item, claim, this.#accountOf(claim));
  }

  /** Returns why an entry that could not run at once may not wait, or undefined if it may. */
  overloadError({ claim }: Entry<Item>): ToolError | undefined {
    const account = this.#accountOf(claim);
    const { accountLimits, toolLimits } = claim;
    if (this.#queued > this.#maxQueued)
      return overloaded("calls in all may wait (workers.maxQueued)", this.#maxQueued, account);
    if (account.queued > this.#maxQueuedOf(account, accountLimits)) {
      return overloaded("calls may wait (limits.maxQueuedCalls)", accountLimits.maxQueuedCalls, account);
    }
    const queue = toolQueueOf(account, claim.toolKey);
    const isFull = queue.queued > this.#maxQueuedOf(queue, toolLimits);
    return isFull
      ? overloaded("calls of this tool may wait (limits.maxQueuedCalls)", toolLimits.maxQueuedCalls, account)
      : undefined;
  }

  /** Maximum number of entries of an account or a tool that may be queued at once. */
  #maxQueuedOf({ running }: { readonly running: number }, { maxQueuedCalls, maxConcurrentCalls }: QueueLimits): number {
    return this.#countsRoom ? maxQueuedCalls + Math.max(0, maxConcurrentCalls - running) : maxQueuedCalls;
  }

  #push(item: Item, claim: Claim, account: Account<Item>): Entry<Item> {
    const queue = toolQueueOf(account, claim.toolKey);
    this.#order += 1;
    const entry: Entry<Item> = { item, claim, order: this.#order, isRemoved: false, usesParentSlot: false };
    if (account.queued + account.running === 0) account.virtualMs = Math.max(account.virtualMs, this.#virtualMs);
    queue.waiting.push(entry);
    if (claim.parentSlot !== undefined) account.nested.add(entry);
    if (!account.isListed) this.#waiting.push(account);
    account.isListed = true;
    queue.queued += 1;
    account.queued += 1;
    this.#queued += 1;
    return entry;
  }

  /** Time in ms after which an account should retry. */
  retryAfterMs(account: string): number {
    return retryAfterMs(this.#accounts.get(account));
  }

  /** Removes an entry from the queue. */
  remove(entry: Entry<Item>): void {
    if (entry.isRemoved) return;
    entry.isRemoved = true;
    const account = this.#accountOf(entry.claim);
    const queue = toolQueueOf(account, entry.claim.toolKey);
    account.nested.delete(entry);
    queue.queued -= 1;
    account.queued -= 1;
    this.#queued -= 1;
    while (queue.waiting[0]?.isRemoved) queue.waiting.shift();
  }

  /** Marks a removed entry as running. */
  begin(entry: Entry<Item>): void {
    const account = this.#accountOf(entry.claim);
    const { parentSlot, toolKey } = entry.claim;
    entry.usesParentSlot = canUseParentSlot(entry);
    if (entry.usesParentSlot && parentSlot !== undefined) parentSlot.isTaken = true;
    else {
      account.running += 1;
      toolQueueOf(account, toolKey).running += 1;
    }
    account.virtualMs += PROVISIONAL_MS / account.weight;
    this.#virtualMs = Math.max(this.#virtualMs, account.virtualMs - PROVISIONAL_MS / account.weight);
  }

  /**
   * Marks a running entry as ended.
   * @param serviceMs how long it ran, in ms
   */
  end(entry: Entry<Item>, serviceMs: number): void {
    const account = this.#accountOf(entry.claim);
    const { parentSlot } = entry.claim;
    const queue = toolQueueOf(account, entry.claim.toolKey);
    if (entry.usesParentSlot && parentSlot !== undefined) parentSlot.isTaken = false;
    else {
      account.running -= 1;
      queue.running -= 1;
    }
    account.serviceMs = (account.serviceMs ?? serviceMs) * (1 - SMOOTHING) + serviceMs * SMOOTHING;
    const isIdle = queue.running + queue.queued === 0;
    if (isIdle && account.toolQueues.size > MAX_IDLE_TOOLS) account.toolQueues.delete(entry.claim.toolKey);
    this.#dropIdleAccounts();
  }

  /** Charges CPU time to an account. */
  charge(name: string, cpuMs: number): void {
    const account = this.#accounts.get(name);
    if (account !== undefined) account.virtualMs += cpuMs / account.weight;
  }

  ownerStateOf(name: string): OwnerState {
    const account = this.#accounts.get(name);
    return { weight: account?.weight ?? 1, isBacklogged: (account?.queued ?? 0) > 0 };
  }

  /**
   * Yields the entries that may run next, best first. The least served account comes first. Within an account, nested
   * calls whose parent's slot is free come first, then the head of each tool queue that is below its limits.
   */
  *candidates(): Generator<Entry<Item>> {
    if (this.#queued === 0) return;
    const [only] = this.#waiting;
    if (this.#waiting.length === 1 && only !== undefined) {
      yield* candidatesOf(only);
      return;
    }
    for (const account of this.#waiting) account.isListed = account.queued > 0;
    // The list is nearly sorted, so the sort takes about linear time.
    this.#waiting = this.#waiting.filter(({ isListed }) => isListed).sort((a, b) => a.virtualMs - b.virtualMs);
    for (const account of this.#waiting) yield* candidatesOf(account);
  }

  /** Yields every queued entry. */
  *entries(): Generator<Entry<Item>> {
    for (const { toolQueues } of this.#accounts.values()) {
      for (const { waiting } of toolQueues.values()) yield* waiting.filter(({ isRemoved }) => !isRemoved);
    }
  }

  #accountOf({ account: name, weight }: Claim): Account<Item> {
    let account = this.#accounts.get(name);
    if (account === undefined) {
      const virtualMs = this.#virtualMs;
      const [queued, running] = [0, 0];
      account = {
        toolQueues: new Map(),
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

  /** Drops idle accounts whose state equals that of a new account. Runs only if there are many. */
  #dropIdleAccounts(): void {
    if (this.#accounts.size <= this.#dropAbove) return;
    for (const [name, { queued, running, virtualMs }] of this.#accounts) {
      if (queued + running === 0 && virtualMs <= this.#virtualMs) this.#accounts.delete(name);
    }
    // If most accounts had to stay, do not scan again for each call.
    this.#dropAbove = Math.max(MAX_IDLE_ACCOUNTS, 2 * this.#accounts.size);
  }
}

const MAX_IDLE_ACCOUNTS = 1_000;
/** Tools of an account that may have no entry: adding and deleting the same one all the time is slow. */
const MAX_IDLE_TOOLS = 8;

function toolQueueOf<Item>(account: Account<Item>, name: string): ToolQueue<Item> {
  let queue = account.toolQueues.get(name);
  if (queue === undefined) {
    queue = { waiting: [], queued: 0, running: 0 };
    account.toolQueues.set(name, queue);
  }
  return queue;
}

/**
 * Candidates of one account. The tool with the fewest running calls comes first, so that many calls of one tool do not
 * delay another.
 */
function candidatesOf<Item>({ toolQueues, nested, running }: Account<Item>): readonly Entry<Item>[] {
  const heads: { readonly entry: Entry<Item>; readonly running: number }[] = [];
  for (const queue of toolQueues.values()) {
    const entry = queue.waiting[0];
    if (entry === undefined || running >= entry.claim.accountLimits.maxConcurrentCalls) continue;
    if (queue.running < entry.claim.toolLimits.maxConcurrentCalls) heads.push({ entry, running: queue.running });
  }
  if (heads.length > 1) heads.sort((a, b) => a.running - b.running || a.entry.order - b.entry.order);
  const ready = heads.map(({ entry }) => entry);
  return nested.size === 0 ? ready : [...[...nested].filter(canUseParentSlot), ...ready];
}

/** Time in ms in which the queued calls will have run, estimated from the mean of earlier calls. */
function retryAfterMs(account: Account<unknown> | undefined): number {
  if (account?.serviceMs === undefined) return DEFAULT_RETRY_MS;
  const rounds = Math.ceil((account.queued + 1) / Math.max(1, account.running));
  return Math.round(Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, rounds * account.serviceMs)));
}

/** @param rule what is limited, with its option: a text for hosts with one tenant and with several */
function overloaded(rule: string, maxQueuedCalls: number, account: Account<unknown>): ToolError {
  const retryMs = retryAfterMs(account);
  return new ToolError(
    "OVERLOADED",
    `The queue is full: at most ${maxQueuedCalls} ${rule}; try again in ${retryMs} ms`,
    { details: { maxQueuedCalls, retryAfterMs: retryMs } },
  );
}
