// Limits concurrent lookups of the operating system's resolver. Each lookup occupies one of the four threads that the host also needs for
// files, compression and cryptography, and a slow name server of one tenant can keep it for seconds.
import { lookup } from "node:dns/promises";

const MAX_LOOKUPS = 3;
const MAX_LOOKUPS_PER_ACCOUNT = 2;

type LookUp = (hostname: string) => Promise<readonly string[]>;

const lookUpAll: LookUp = async (hostname) =>
  (await lookup(hostname, { all: true, order: "verbatim" })).map(({ address }) => address);

interface Waiting {
  readonly account: string;
  readonly begin: () => void;
}

/** Shared by all tenants. A tenant cannot occupy all threads. */
export class SystemResolver {
  readonly #lookUp: LookUp;
  readonly #running: string[] = [];
  readonly #waiting = new Set<Waiting>();

  constructor(lookUp: LookUp = lookUpAll) {
    this.#lookUp = lookUp;
  }

  /**
   * Returns the addresses of a host name.
   * @param account tenant that the lookup counts for
   * @param signal if it aborts while the lookup is queued, the lookup does not start
   */
  async resolve(hostname: string, account: string, signal: AbortSignal): Promise<readonly string[]> {
    await this.#acquire(account, signal);
    try {
      return await this.#lookUp(hostname);
    } finally {
      this.#running.splice(this.#running.indexOf(account), 1);
      this.#next();
    }
  }

  #acquire(account: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const giveUp = (): void => {
        this.#waiting.delete(waiting);
        reject(signal.reason);
      };
      const begin = (): void => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      const waiting = { account, begin };
      signal.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(waiting);
      this.#next();
    });
  }

  #next(): void {
    for (const waiting of this.#waiting) {
      if (this.#running.length >= MAX_LOOKUPS) return;
      const own = this.#running.filter((account) => account === waiting.account).length;
      if (own >= MAX_LOOKUPS_PER_ACCOUNT) continue;
      this.#waiting.delete(waiting);
      this.#running.push(waiting.account);
      waiting.begin();
    }
  }
}
