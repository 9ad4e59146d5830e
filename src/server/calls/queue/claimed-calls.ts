// Runs a claimed call of the queue and stores its outcome, or puts it back into the queue if it could not begin.
import { setTimeout as sleep } from "node:timers/promises";
import { ToolError, type ToolResult } from "../../../host/index.ts";
import type { Db } from "../../database/open-database.ts";
import { markStarted, putBackCall, requeue } from "../../records/calls/call-claims.ts";
import { type CallOutcome, finishCall } from "../../records/calls/call-outcomes.ts";
import type { CallRow } from "../../records/calls/calls.ts";
import { toFailedResult } from "../call-results.ts";
import { MAX_RUNS } from "./call-recovery.ts";
import { mayBeginLater, RetryTimes } from "./retries.ts";

/** Longest time in ms for which the outcome of a call is written again if the database does not take it; also while the server stops. */
const WRITE_MS = 10 * 60_000;
const CLOSING_WRITE_MS = 5_000;
const LONGEST_WRITE_DELAY_MS = 5_000;

export interface ClaimedCallsDependencies {
  readonly db: Db;
  /** Returns a claimed call with the version that it runs. Undefined if it waits for something else, and its claim is over. */
  readonly admit?: (row: CallRow) => Promise<CallRow | undefined>;
  /** Runs a claimed call. Rejects if the call could not begin. */
  readonly run: (row: CallRow, signal: AbortSignal) => Promise<ToolResult>;
  /** Converts the result to what is stored: its outcome, and the content parts of its output as JSON text. */
  readonly toStored: (
    row: CallRow,
    result: ToolResult,
  ) => Promise<{ readonly outcome: CallOutcome; readonly parts?: string | undefined }>;
  /** Returns whether the version that a call has run is annotated with `idempotentHint`. */
  readonly isIdempotent: (row: CallRow) => Promise<boolean>;
  /** Returns the recording of a call that has ended in this process, and forgets it. */
  readonly takeRecording?: (id: string) => string | undefined;
  /** Milliseconds since 1970, the same in all processes with this database. @default Date.now */
  readonly now?: (() => number) | undefined;
  readonly onError: (error: unknown) => void;
}

type Failure = Extract<ToolResult, { readonly success: false }>;

export class ClaimedCalls {
  readonly #dependencies: ClaimedCallsDependencies;
  readonly #retries = new RetryTimes();
  readonly #now: () => number;
  readonly #isClosing: () => boolean;

  /** @param isClosing returns whether the server stops */
  constructor(dependencies: ClaimedCallsDependencies, isClosing: () => boolean) {
    this.#dependencies = dependencies;
    this.#now = dependencies.now ?? Date.now;
    this.#isClosing = isClosing;
  }

  /** Runs a claimed call. Returns when it runs next, in ms since 1970, if it is in the queue again. */
  async run(claimed: CallRow, signal: AbortSignal): Promise<number | undefined> {
    const row = { ...claimed, started_at: this.#now() };
    const result = await this.#tryRun(row, signal);
    if (result === undefined) return undefined;
    if (mayBeginLater(result, signal.aborted)) {
      const runAt = this.#retries.next(row, result, this.#now());
      if (runAt !== undefined) return (await this.#putBack(row, runAt)) ? runAt : undefined;
    }
    this.#retries.forget(row.id);
    if (!this.#isCutOff(result, signal)) return void (await this.#store(row, result));
    if (await this.#leave(row, result)) return this.#now();
    const message = "The server was shut down before the call ended. Effects of the call are possible";
    const { details } = result.error;
    const error = new ToolError("SANDBOX_CRASHED", message, { details: { ...details, reason: "shutting_down" } });
    return void (await this.#store(row, { ...result, error: error.toData(row.tool_name) }));
  }

  /** Whether a call that had begun was ended because this server stops. */
  #isCutOff(result: ToolResult, { aborted }: AbortSignal): result is Failure {
    return this.#isClosing() && !aborted && !result.success && result.error.code === "CANCELLED";
  }

  /** Leaves a call of an idempotent tool to the next process. Returns false if it may not run again. */
  async #leave(row: CallRow, { toolVersion }: Failure): Promise<boolean> {
    const { db, isIdempotent, takeRecording } = this.#dependencies;
    const version = toolVersion === undefined ? row.tool_version : Number(toolVersion);
    if (row.attempts >= MAX_RUNS || !(await isIdempotent({ ...row, tool_version: version }))) return false;
    takeRecording?.(row.id);
    return await this.#write(() => requeue(db, row, this.#now()));
  }

  /** Runs a call. Returns undefined if it is not this queue's turn any more. */
  async #tryRun(row: CallRow & { readonly started_at: number }, signal: AbortSignal): Promise<ToolResult | undefined> {
    const { db, admit, run, onError } = this.#dependencies;
    try {
      const admitted = await (admit?.(row) ?? Promise.resolve(row)).catch((thrown: unknown) => {
        // Running it fails for the same reason, which is its result then.
        if (thrown instanceof ToolError) return row;
        throw thrown;
      });
      if (admitted === undefined || !(await markStarted(db, admitted, row.started_at))) return undefined;
      return await run(admitted, signal);
    } catch (thrown) {
      return toFailedResult(row, thrown, onError);
    }
  }

  /** Puts a call that could not begin back into the queue. Returns false if it ends instead. */
  async #putBack(row: CallRow, runAt: number): Promise<boolean> {
    const { db, takeRecording } = this.#dependencies;
    takeRecording?.(row.id);
    if (await this.#write(() => putBackCall(db, row, runAt))) return true;
    // It was cancelled meanwhile, or is another process's by now, so that nothing is stored.
    const cancelled = new ToolError("CANCELLED", "The call was cancelled before it ran");
    await this.#store(row, toFailedResult(row, cancelled, this.#dependencies.onError));
    return false;
  }

  async #store(row: CallRow, result: ToolResult): Promise<void> {
    const { db, toStored, takeRecording } = this.#dependencies;
    const recording = takeRecording?.(row.id);
    await this.#write(async () => {
      const { outcome, parts } = await toStored(row, result);
      await finishCall(db, row, outcome, { recording, parts });
    });
  }

  /** Writes what became of a call, also if the database is away for a while. The call's lease is extended meanwhile. */
  async #write<Value>(write: () => Promise<Value>): Promise<Value> {
    const begun = performance.now();
    for (let delay = 100; ; delay = Math.min(LONGEST_WRITE_DELAY_MS, delay * 2)) {
      try {
        return await write();
      } catch (thrown) {
        if (performance.now() - begun > (this.#isClosing() ? CLOSING_WRITE_MS : WRITE_MS)) throw thrown;
        this.#dependencies.onError(thrown);
        await sleep(delay);
      }
    }
  }
}
