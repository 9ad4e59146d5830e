// The clock of a server. Processes that share a Postgres go by its time: leases, due times, windows of quotas and expiry would otherwise depend on
// how well the clocks of several machines agree.
import { type Kysely, sql } from "kysely";
import { databaseNow } from "./database-time.ts";

export interface WallClock {
  /** Milliseconds since 1970, a whole number. */
  now(): number;
}

/** The clock of this machine, for a database that no other machine uses. */
export const SYSTEM_CLOCK: WallClock = { now: () => Date.now() };

/** How often the time of the database is read, in ms. Clocks of machines drift by much less than a millisecond within that. */
const SAMPLE_MS = 30_000;
const FIRST_SAMPLES = 3;
/** A sample of a slow round trip is not used, unless the last one is older than this, in ms. */
const SLOW_MS = 250;
const OLD_MS = 10 * 60_000;

export interface DatabaseClockDependencies {
  /** Reads the time of the database in ms since 1970. */
  readonly read: () => Promise<number>;
  /** A clock in ms that only moves forward. @default performance.now() */
  readonly monotonic?: (() => number) | undefined;
  /** Receives the first of several failures to read the time. */
  readonly onError: (error: Error) => void;
}

export class DatabaseClock implements WallClock, AsyncDisposable {
  readonly #dependencies: DatabaseClockDependencies;
  readonly #monotonic: () => number;
  /** Time of the database minus that of the monotonic clock. */
  #offset = 0;
  #sampledAt = Number.NEGATIVE_INFINITY;
  #bestMs = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #sampling: Promise<void> | undefined;
  #hasFailed = false;

  private constructor(dependencies: DatabaseClockDependencies) {
    this.#dependencies = dependencies;
    this.#monotonic = dependencies.monotonic ?? (() => performance.now());
  }

  /** Reads the time, and opens the clock. Rejects if the time cannot be read. */
  static async open(dependencies: DatabaseClockDependencies): Promise<DatabaseClock> {
    const clock = new DatabaseClock(dependencies);
    for (let count = 0; count < FIRST_SAMPLES; count += 1) await clock.sample();
    clock.#timer = setInterval(() => {
      clock.#sampling ??= clock.#sampleSafely().finally(() => {
        clock.#sampling = undefined;
      });
    }, SAMPLE_MS);
    clock.#timer.unref();
    return clock;
  }

  now(): number {
    return Math.floor(this.#monotonic() + this.#offset);
  }

  /** Compares the clocks once. The time was read somewhere within the round trip, so its middle is off by half of it at most. */
  async sample(): Promise<void> {
    const before = this.#monotonic();
    const time = await this.#dependencies.read();
    const after = this.#monotonic();
    const roundTripMs = after - before;
    const isFirst = this.#sampledAt === Number.NEGATIVE_INFINITY;
    const isBetter = roundTripMs <= Math.max(SLOW_MS, this.#bestMs);
    // The first samples are taken in a row: the fastest is the best of them.
    const isStart = this.#timer === undefined && roundTripMs > this.#bestMs;
    if (!isFirst && (isStart || (!isBetter && after - this.#sampledAt < OLD_MS))) return;
    this.#bestMs = roundTripMs;
    this.#sampledAt = after;
    this.#offset = time - (before + after) / 2;
  }

  async #sampleSafely(): Promise<void> {
    try {
      await this.sample();
      this.#hasFailed = false;
    } catch (thrown) {
      if (!this.#hasFailed) this.#dependencies.onError(thrown as Error);
      this.#hasFailed = true;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#sampling;
  }
}

/** Opens the clock of a Postgres. */
export async function openDatabaseClock<Tables>(
  db: Kysely<Tables>,
  onError: (error: Error) => void,
): Promise<DatabaseClock> {
  return await DatabaseClock.open({
    read: async () => {
      const { rows } = await sql<{ now: number }>`select ${databaseNow} as now`.execute(db);
      return Number(rows[0]?.now);
    },
    onError,
  });
}
