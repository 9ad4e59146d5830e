// Limits concurrent lookups of the operating system's resolver. Each lookup occupies one of the four threads that the process also needs
// for files, compression and cryptography, and a slow name server of one tenant can keep it for seconds.
import { lookup } from "node:dns/promises";

/** Lookups at once, of all accounts. One of the four threads stays free. */
const MAX_LOOKUPS = 3;
/** Lookups at once of one account. A second one must leave a thread for an account that has none. */
const MAX_LOOKUPS_PER_ACCOUNT = 2;

type LookUp = (hostname: string) => Promise<readonly string[]>;

const lookUpAll: LookUp = async (hostname) =>
  (await lookup(hostname, { all: true, order: "verbatim" })).map(({ address }) => address);

/**
 * Shares the threads of lookups fairly. The account with the fewest running lookups is next, and among those the one that has waited
 * longest for its turn: however many names a tenant queues, another tenant's name waits for one lookup at most.
 */
export class SystemResolver {
  readonly #lookUp: LookUp;
  readonly #running = new Map<string, number>();
  /** Lookups in the order of their calls, by account. The account whose turn was last is the last one. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #total = 0;

  constructor(lookUp: LookUp = lookUpAll) {
    this.#lookUp = lookUp;
  }

  /**
   * Returns the addresses of a host name.
   * @param account tenant, or part of the host, that the lookup counts for
   * @param signal if it aborts while the lookup is queued, the lookup does not start
   */
  async resolve(hostname: string, account: string, signal: AbortSignal): Promise<readonly string[]> {
    await this.#acquire(account, signal);
    try {
      return await this.#lookUp(hostname);
    } finally {
      this.#count(account, -1);
      this.#next();
    }
  }

  #acquire(account: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const giveUp = (): void => {
        this.#leave(account, begin);
        reject(signal.reason);
      };
      const begin = (): void => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      signal.addEventListener("abort", giveUp, { once: true });
      const queue = this.#waiting.get(account) ?? new Set();
      this.#waiting.set(account, queue.add(begin));
      this.#next();
    });
  }

  #leave(account: string, begin: () => void): void {
    const queue = this.#waiting.get(account);
    queue?.delete(begin);
    if (queue?.size === 0) this.#waiting.delete(account);
  }

  #count(account: string, change: 1 | -1): void {
    this.#total += change;
    const count = (this.#running.get(account) ?? 0) + change;
    if (count === 0) this.#running.delete(account);
    else this.#running.set(account, count);
  }

  #next(): void {
    for (let account = this.#nextAccount(); account !== undefined; account = this.#nextAccount()) {
      const queue = this.#waiting.get(account) ?? new Set();
      const [begin] = queue;
      this.#waiting.delete(account);
      if (begin === undefined) continue;
      queue.delete(begin);
      if (queue.size > 0) this.#waiting.set(account, queue);
      this.#count(account, 1);
      begin();
    }
  }

  /** Returns the account whose turn it is; undefined if no waiting account may start a lookup. */
  #nextAccount(): string | undefined {
    if (this.#total >= MAX_LOOKUPS) return undefined;
    const max = this.#total === MAX_LOOKUPS - 1 ? 1 : MAX_LOOKUPS_PER_ACCOUNT;
    let chosen: string | undefined;
    let fewest: number = max;
    for (const account of this.#waiting.keys()) {
      const running = this.#running.get(account) ?? 0;
      if (running >= fewest) continue;
      if (running === 0) return account;
      chosen = account;
      fewest = running;
    }
    return chosen;
  }
}

/** The threads belong to the process, so all lookups of the process share them. */
export const systemResolver: SystemResolver = new SystemResolver();
