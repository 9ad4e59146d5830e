// Writes the records of finished calls in batches, off the path of the calls. What is written survives the end of the process; the records of
// the last milliseconds before a kill are lost, but no result is.
import { setTimeout as sleep } from "node:timers/promises";
import { ToolError } from "../../../host/index.ts";
import { isPermanent, violatesConstraint } from "../../database/database-errors.ts";
import type { Db } from "../../database/open-database.ts";
import {
  type EndedCall,
  insertEndedCalls,
  insertEndedOnce,
  toStorableCall,
} from "../../records/calls/call-outcomes.ts";

/** Longest time in ms that a record waits for others. */
const FLUSH_MS = 20;
const MAX_BATCH = 200;
/** Records that may wait while the database is slow. Above it, calls wait too. */
const MAX_WAITING = 5_000;
/** Longest time in ms for which records are written again if the database does not take them; also while the server stops. */
const WRITE_MS = 60_000;
const CLOSING_MS = 3_000;
const RETRY_MS = 100;
const LONGEST_DELAY_MS = 2_000;
/** Longest time in ms that a reader waits for records that the database does not take, for example because its disk is full. */
const READ_MS = 5_000;

export class CallJournal implements AsyncDisposable {
  readonly #db: Db;
  readonly #onError: (error: unknown) => void;
  #waiting: EndedCall[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #isClosed = false;

  /** @param onError receives the reason if records could not be written */
  constructor(db: Db, onError: (error: unknown) => void) {
    this.#db = db;
    this.#onError = onError;
  }

  /** Adds a record. Resolves at once, unless too many are waiting. */
  add(call: EndedCall): Promise<void> | undefined {
    this.#waiting.push(call);
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

  /**
   * Resolves when all records that were added before are written, for a reader who must see them.
   * @throws {ToolError} OVERLOADED if the database does not take them for some seconds
   */
  async written(): Promise<void> {
    const written = this.flush().then(() => true);
    // Most records are written within milliseconds, without a timer.
    if (this.#writing === undefined) return;
    const limit = new AbortController();
    const late = sleep(READ_MS, false, { signal: limit.signal, ref: false }).catch(() => false);
    const isWritten = await Promise.race([written, late]);
    limit.abort();
    if (isWritten) return;
    throw new ToolError(
      "OVERLOADED",
      "The database does not take the records of calls that have ended. Try again later",
      {
        details: { retryAfterMs: READ_MS },
      },
    );
  }

  async #write(): Promise<void> {
    const rows = this.#waiting;
    this.#waiting = [];
    if (rows.length === 0) return;
    const begun = performance.now();
    try {
      await this.retry(() => insertEndedCalls(this.#db, rows), begun);
    } catch (thrown) {
      // One record may belong to a tenant that was deleted meanwhile, or have text that cannot be stored; the others are written without it.
      if (isPermanent(thrown)) for (const row of rows) await this.#writeOne(row, begun);
      else this.#onError(thrown);
    }
  }

  /** Writes a record, without its texts if the database rejects them. Never rejects. */
  async #writeOne(call: EndedCall, begun: number): Promise<void> {
    // A call that another replica has passed on, and taken for lost meanwhile, has a record already.
    const insert = (one: EndedCall): Promise<unknown> => this.retry(() => insertEndedOnce(this.#db, one), begun);
    try {
      await insert(call);
    } catch (thrown) {
      this.#onError(thrown);
      if (isPermanent(thrown) && !violatesConstraint(thrown)) await insert(toStorableCall(call)).catch(this.#onError);
    }
  }

  /** Repeats a statement that the database could not take, for up to a minute. @param begun when its time began, by performance.now() */
  async retry<Value>(write: () => Promise<Value>, begun: number = performance.now()): Promise<Value> {
    for (let delay = RETRY_MS; ; delay = Math.min(LONGEST_DELAY_MS, delay * 2)) {
      try {
        return await write();
      } catch (thrown) {
        const mostMs = this.#isClosed ? CLOSING_MS : WRITE_MS;
        if (isPermanent(thrown) || performance.now() - begun > mostMs) throw thrown;
        await sleep(delay);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }
}
