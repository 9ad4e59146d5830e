// Writes the records of finished calls in batches, off the path of the calls. What is written survives the end of the process; the records of
// the last milliseconds before a kill are lost, but no result is.
import type { Db } from "../database/open-database.ts";
import { type CallRow, insertEndedCalls } from "../records/calls.ts";

/** Longest time in ms that a record waits for others. */
const FLUSH_MS = 20;
const MAX_BATCH = 200;
/** Records that may wait while the database is slow. Above it, calls wait too. */
const MAX_WAITING = 5_000;
const RETRY_MS = 200;
const MAX_ATTEMPTS = 5;

export class CallJournal implements AsyncDisposable {
  readonly #db: Db;
  readonly #onError: (error: unknown) => void;
  #waiting: CallRow[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  /** @param onError receives the reason if records could not be written */
  constructor(db: Db, onError: (error: unknown) => void) {
    this.#db = db;
    this.#onError = onError;
  }

  /** Adds a record. Resolves at once, unless too many are waiting. */
  add(row: CallRow): Promise<void> | undefined {
    this.#waiting.push(row);
    if (this.#waiting.length >= MAX_BATCH) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), FLUSH_MS);
    return this.#waiting.length > MAX_WAITING ? this.flush() : undefined;
  }

  /** Resolves when all records that were added before are written. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const before = this.#writing;
    if (this.#waiting.length === 0) return before ?? Promise.resolve();
    const writing = Promise.resolve(before).then(() => this.#write());
    this.#writing = writing;
    void writing.then(() => {
      if (this.#writing === writing) this.#writing = undefined;
    });
    return writing;
  }

  async #write(): Promise<void> {
    const rows = this.#waiting;
    this.#waiting = [];
    if (rows.length === 0) return;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await insertEndedCalls(this.#db, rows);
      } catch (thrown) {
        if (attempt < MAX_ATTEMPTS && rows.length > 1) {
          // One record may belong to a tenant that was deleted meanwhile; the others are written without it.
          await this.#writeEach(rows);
          return;
        }
        if (attempt >= MAX_ATTEMPTS) return this.#onError(thrown);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
      }
    }
  }

  async #writeEach(rows: readonly CallRow[]): Promise<void> {
    for (const row of rows) {
      try {
        await insertEndedCalls(this.#db, [row]);
      } catch (thrown) {
        this.#onError(thrown);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
  }
}
