// The operating system's resolver, a few names at a time: each holds one of the four threads that all of the host's files,
// decoders and digests need, for as long as somebody's name server likes.
import { lookup } from "node:dns/promises";

const AT_ONCE = 3;
const AT_ONCE_FOR_ONE = 2;

type LookUp = (hostname: string) => Promise<readonly string[]>;

const lookUpAll: LookUp = async (hostname) =>
  (await lookup(hostname, { all: true, order: "verbatim" })).map(({ address }) => address);

interface Waiting {
  readonly account: string;
  readonly begin: () => void;
}

/** One for all tenants: none can keep the others waiting. */
export class SystemResolver {
  readonly #lookUp: LookUp;
  readonly #running: string[] = [];
  readonly #waiting = new Set<Waiting>();

  constructor(lookUp: LookUp = lookUpAll) {
    this.#lookUp = lookUp;
  }

  /** @param signal of whoever waits: when it aborts before the name's turn has come, nobody is asked */
  async resolve(hostname: string, account: string, signal: AbortSignal): Promise<readonly string[]> {
    await this.#turn(account, signal);
    try {
      return await this.#lookUp(hostname);
    } finally {
      this.#running.splice(this.#running.indexOf(account), 1);
      this.#next();
    }
  }

  #turn(account: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const give = (): void => {
        this.#waiting.delete(waiting);
        reject(signal.reason);
      };
      const begin = (): void => {
        signal.removeEventListener("abort", give);
        resolve();
      };
      const waiting = { account, begin };
      signal.addEventListener("abort", give, { once: true });
      this.#waiting.add(waiting);
      this.#next();
    });
  }

  #next(): void {
    for (const waiting of this.#waiting) {
      if (this.#running.length >= AT_ONCE) return;
      const own = this.#running.filter((account) => account === waiting.account).length;
      if (own >= AT_ONCE_FOR_ONE) continue;
      this.#waiting.delete(waiting);
      this.#running.push(waiting.account);
      waiting.begin();
    }
  }
}
